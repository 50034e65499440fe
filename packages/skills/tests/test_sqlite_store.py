"""What only a file can do wrong: full, locked, foreign, of another version."""

import asyncio
import sqlite3
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_skill.errors import RunRefused
from molecule_skill.store import (
    NewEvent,
    RunState,
    SqliteRunStore,
    StateChange,
    StoreIncompatible,
    StoreUnavailable,
)
from molecule_skill.store.schema import MIGRATIONS
from packages.skills.tests.stores import new_run


def tables(path: Path) -> list[tuple[str, ...]]:
    with sqlite3.connect(path) as sql:
        return sql.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()


async def test_the_file_and_its_folder_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "runs.db"
    await SqliteRunStore(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_file_of_an_older_version_is_migrated_and_keeps_its_runs(tmp_path: Path) -> None:
    fresh, old = tmp_path / "fresh.db", tmp_path / "old.db"
    await SqliteRunStore(fresh).close()
    sql = sqlite3.connect(old, isolation_level=None)
    sql.executescript(f"{MIGRATIONS[0]}; PRAGMA user_version = 1")
    sql.execute(
        "INSERT INTO runs (run_id, agent, skill, principal, body_hash, arguments, auth, created_at, state,"
        " attempt, fence, owner, last_seq, updated_at)"
        " VALUES ('run_old', 'agent', 's', 'p', '', '{}', '{}', 1.0, 'running', 1, 1, 'o_gone', 1, 1.0)"
    )
    sql.execute("INSERT INTO events VALUES ('run_old', 1, 'progress', '{\"message\":\"x\"}', 1.0, 1, 1)")
    sql.close()
    store = SqliteRunStore(old)
    assert [one.run_id for one in await store.claim_abandoned("agent")] == ["run_old"]
    assert [(one.seq, one.payload) for one in await store.events("run_old")] == [(1, {"message": "x"})]
    assert await store.emitted("run_old", 1) == 1
    await store.save_state(StateChange("s", {}, 0))
    await store.close()
    assert tables(old) == tables(fresh)


def test_a_file_of_a_newer_version_or_another_program_is_left_alone(tmp_path: Path) -> None:
    newer, foreign, text = tmp_path / "newer.db", tmp_path / "foreign.db", tmp_path / "text.db"
    for path, statement in ((newer, "PRAGMA user_version = 99"), (foreign, "CREATE TABLE theirs (a)")):
        sql = sqlite3.connect(path, isolation_level=None)
        sql.execute(statement)
        sql.close()
    text.write_text("this is no database, but it is long enough to have a header of its own" * 30)
    for path, fragment in ((newer, "newer"), (foreign, "another program"), (text, "no run store")):
        with pytest.raises(StoreIncompatible, match=fragment):
            SqliteRunStore(path)
    assert "long enough" in text.read_text()


async def test_a_full_disk_refuses_the_write_and_keeps_what_was_there(tmp_path: Path) -> None:
    store = SqliteRunStore(tmp_path / "runs.db")
    await store.open_run(new_run())
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    big = [NewEvent("progress", {"text": "x" * 60_000}, 1.0)] * 5
    with pytest.raises(StoreUnavailable, match="full"):
        await store.append_events("run_1", 1, big)
    assert await store.events("run_1") == []
    assert (await store.run("run_1")).last_seq == 0  # type: ignore[union-attr]
    store._connection.execute("PRAGMA max_page_count = 1000000")
    assert [one.seq for one in await store.append_events("run_1", 1, big)] == [1, 2, 3, 4, 5]
    await store.close()


async def test_a_locked_file_refuses_the_write_after_a_second(tmp_path: Path) -> None:
    store = SqliteRunStore(tmp_path / "runs.db")
    await store.open_run(new_run())
    other = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    writes = [store.set_state("run_1", 1, RunState.RUNNING) for _ in range(4)]
    refused = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(one) for one in refused] == [StoreUnavailable] * 4
    assert "locked" in str(refused[0])
    assert time.monotonic() - began < 3.0  # they wait together
    assert (await store.run("run_1")).state == "queued"  # type: ignore[union-attr]
    other.execute("ROLLBACK")
    other.close()
    await store.set_state("run_1", 1, RunState.RUNNING)
    await store.close()


async def test_two_processes_on_one_file_do_not_take_each_others_runs(tmp_path: Path) -> None:
    one, other = SqliteRunStore(tmp_path / "runs.db"), SqliteRunStore(tmp_path / "runs.db")
    await one.open_run(new_run())
    assert await other.claim_abandoned("agent") == []
    await one.close()
    assert [run.run_id for run in await other.claim_abandoned("agent")] == ["run_1"]
    await other.close()


@given(st.lists(st.lists(st.sampled_from(["a", "b"]), max_size=4), max_size=8))
async def test_event_numbers_have_no_gap_however_they_are_batched(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[str]]
) -> None:
    store = SqliteRunStore(tmp_path_factory.mktemp("store") / "runs.db")
    await store.open_run(new_run())
    for batch in batches:
        await store.append_events("run_1", 1, [NewEvent(kind, {}, 1.0) for kind in batch])
    found = await store.events("run_1")
    assert [one.seq for one in found] == list(range(1, len(found) + 1))
    assert [one.kind for one in found] == [kind for batch in batches for kind in batch]
    await store.close()


async def test_writes_of_one_step_share_a_commit_and_a_refused_one_takes_nothing_with_it(
    tmp_path: Path,
) -> None:
    store = SqliteRunStore(tmp_path / "runs.db")
    commits: list[str] = []
    store._connection.set_trace_callback(
        lambda statement: commits.append(statement) if statement == "COMMIT" else None
    )
    await asyncio.gather(*(store.open_run(new_run(f"run_{number}")) for number in range(8)))
    assert len(commits) == 1
    event = NewEvent("progress", {}, 1.0)
    with pytest.raises(RunRefused) as refused:
        await store.append_events("run_0", 7, [event])
    assert refused.value.code == "lease-lost"

    def spoiled(sql: sqlite3.Connection) -> None:
        sql.execute("UPDATE runs SET skill = 'spoiled'")
        raise RunRefused("lease-lost", "after it had written")

    outcomes = await asyncio.gather(
        store.append_events("run_1", 1, [event]),
        store._write(spoiled),
        store.append_events("run_2", 1, [event]),
        return_exceptions=True,
    )
    assert [type(one).__name__ for one in outcomes] == ["list", "RunRefused", "list"]
    found = [await store.run(f"run_{number}") for number in range(3)]
    assert [(one.last_seq, one.new.skill) for one in found if one] == [
        (0, "skill"),
        (1, "skill"),
        (1, "skill"),
    ]


async def test_a_write_whose_caller_went_away_before_it_began_is_not_made(tmp_path: Path) -> None:
    store = SqliteRunStore(tmp_path / "runs.db")
    writing = asyncio.ensure_future(store.open_run(new_run()))
    other = asyncio.ensure_future(store.open_run(new_run("run_2")))
    asyncio.get_running_loop().call_soon(writing.cancel)
    await asyncio.wait({writing, other})
    assert writing.cancelled()
    assert await store.run("run_1") is None
    assert await store.run("run_2") is not None
