"""Turns that are over, in SQLite: known again, bounded in number and in bytes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from molecule_runtime.domain.turns import TurnOutcome
from molecule_runtime.links import task_store
from molecule_runtime.links.task_store import KEPT_OUTCOMES, TaskStore
from molecule_wire import JSON
from molecule_wire.a2a.server.records import TurnRecord

NOON = datetime(2026, 5, 2, 12, 0, tzinfo=UTC)


def record(number: int, text: str = "hi") -> TurnRecord:
    parts: list[JSON] = [{"text": text}]
    return TurnRecord(
        f"t{number}",
        "c",
        "user:ann",
        "",
        ("row", "user:ann", f"r{number}"),
        "",
        1,
        3,
        {"id": f"t{number}", "contextId": "c", "history": [{"parts": parts}]},
        None,
        NOON + timedelta(seconds=number),
    )


def test_what_was_saved_is_there_after_opening_again(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    store = TaskStore(path)
    store.save(record(1))
    store.keep("m1", TurnOutcome("completed", "done"))
    store.close()
    again = TaskStore(path)
    assert list(again.load()) == [record(1)]
    assert again.kept("m1") == TurnOutcome("completed", "done")
    again.drop("m1")
    assert again.kept("m1") is None
    assert path.stat().st_mode & 0o777 == 0o600


def test_large_turns_are_kept_as_far_as_they_fit_the_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_store, "KEPT_BYTES", 10_000)
    store = TaskStore(tmp_path / "tasks.db")
    for number in range(10):
        store.save(record(number, "x" * 3_000))
        store.commit()
    assert [kept.task_id for kept in store.load()] == ["t7", "t8", "t9"]


def test_outcomes_that_nobody_asks_for_are_forgotten_the_oldest_first(tmp_path: Path) -> None:
    store = TaskStore(tmp_path / "tasks.db")
    outcome = TurnOutcome("completed", "done")
    for number in range(KEPT_OUTCOMES + 5):
        store.keep(f"m-{number}", outcome)
    assert [store.kept(f"m-{number}") for number in range(6)] == [None] * 5 + [outcome]
    store.drop("m-5")
    assert store.kept("m-5") is None
    store.close()


def test_a_file_that_is_no_database_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    path.write_bytes(b"rubbish" * 1000)
    store = TaskStore(path)
    assert list(store.load()) == []
    assert (tmp_path / "tasks.rejected.db").exists()


def test_what_was_saved_is_durable_from_the_commit_on(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    store, other = TaskStore(path), TaskStore(path)
    assert store.is_committed
    store.save(record(1))
    store.save(record(2))
    assert not store.is_committed
    assert list(other.load()) == []
    store.commit()
    assert store.is_committed
    assert [kept.task_id for kept in other.load()] == ["t1", "t2"]


def test_of_two_records_of_one_turn_the_later_counts(tmp_path: Path) -> None:
    store = TaskStore(tmp_path / "tasks.db")
    store.save(record(1, "before"))
    store.save(record(1, "after"))
    store.commit()
    assert list(store.load()) == [record(1, "after")]


def test_an_answer_that_cannot_be_kept_is_logged_and_does_not_fail_the_turn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, other = TaskStore(tmp_path / "tasks.db"), TaskStore(tmp_path / "tasks.db")
    store._connection.execute("PRAGMA busy_timeout=0")
    other._connection.execute("BEGIN IMMEDIATE")  # as a disk that takes nothing
    store.save(record(1))
    store.commit()
    assert "cannot be kept" in caplog.text
    other._connection.rollback()
    store.save(record(2))
    store.commit()
    assert [kept.task_id for kept in store.load()] == ["t2"]
