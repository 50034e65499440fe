"""A snapshot survives a restart, once, and only in the workspace it belongs to."""

import hashlib
import json
import logging
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from molecule_runtime.domain import snapshots
from molecule_runtime.kit.state import known_secrets, snapshot
from molecule_runtime.kit.state.snapshot import (
    begin_restore,
    build_snapshot,
    delete_snapshot,
    read_snapshot,
    write_snapshot,
)


@dataclass
class Heartbeat:
    current_task: str = "thinking"
    active_tasks: int = 2
    uptime_seconds: float = 12.5


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKSPACE_CONFIG_PATH", str(tmp_path))
    monkeypatch.setenv("WORKSPACE_ID", "ws-1")
    monkeypatch.delenv("AGENT_SNAPSHOT_PATH", raising=False)
    return tmp_path / ".agent_snapshot.json"


def _build(**state: Any) -> dict[str, Any]:
    return build_snapshot(Heartbeat(), {"session_id": "s-1", **state}, runtime="echo")


def test_a_snapshot_says_what_the_heartbeat_and_the_adapter_know() -> None:
    built = build_snapshot(
        Heartbeat(),
        {"session_id": "s-1", "mood": "fine"},
        runtime="echo",
        sessions={"c": {"n": 1}},
        pending_turns=["m"],
    )
    assert built.pop("timestamp").endswith("Z")
    assert built == {
        "schema_version": 2,
        "workspace_id": "ws-1",
        "runtime": "echo",
        "current_task": "thinking",
        "active_tasks": 2,
        "uptime_seconds": 12.5,
        "session_id": "s-1",
        "sessions": {"c": {"n": 1}},
        "pending_turns": ["m"],
        "adapter": {"session_id": "s-1", "mood": "fine"},
    }


def test_a_heartbeat_that_knows_nothing_and_an_adapter_without_state_are_enough() -> None:
    built = build_snapshot(object(), None)
    assert (built["current_task"], built["active_tasks"], built["adapter"]) == ("", 0, {})
    assert "uptime_seconds" not in built
    assert "session_id" not in built


def test_the_last_200_transcript_lines_are_kept() -> None:
    built = _build(transcript_lines=[str(number) for number in range(500)])
    assert built["adapter"]["transcript_lines"] == [str(number) for number in range(300, 500)]


def test_what_was_written_is_read_and_private(place: Path) -> None:
    assert write_snapshot(_build())
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    read = read_snapshot()
    assert read is not None
    assert read["adapter"] == {"session_id": "s-1"}
    without = {name: held for name, held in read.items() if name != "digest"}
    canonical = json.dumps(without, sort_keys=True, separators=(",", ":")).encode()
    assert read["digest"] == hashlib.sha256(canonical).hexdigest()


def test_the_place_is_a_parameter_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_SNAPSHOT_PATH", str(tmp_path / "a.json"))
    write_snapshot(_build())
    write_snapshot(_build(), tmp_path / "b.json")
    assert sorted(os.listdir(tmp_path)) == ["a.json", "b.json"]


def test_secrets_are_scrubbed_also_those_that_only_the_process_knows(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "plain-looking")
    (place.parent / ".auth_token").write_text("workspace-token\n")
    known_secrets.add_known_secret("issued-secret")
    text = "plain-looking workspace-token issued-secret sk-abcdefghijklmnop"
    assert write_snapshot(_build(said=text))
    known_secrets.reset_for_test()
    assert (
        '"said":"[REDACTED:VALUE] [REDACTED:VALUE] [REDACTED:VALUE] [REDACTED:SK_TOKEN]"' in place.read_text()
    )


def test_a_snapshot_that_is_too_large_loses_its_oldest_lines_first(place: Path) -> None:
    lines = [f"{number} " + "word " * 20_000 for number in range(100)]
    assert write_snapshot(_build(transcript_lines=lines))
    size = place.stat().st_size
    assert 4.8 * 1024 * 1024 < size <= snapshots.MAX_BYTES
    read = read_snapshot()
    assert read is not None
    assert read["adapter"]["transcript_lines"][-1].startswith("99 ")
    assert read["adapter"]["session_id"] == "s-1"


def test_a_state_that_is_too_large_is_left_out_and_the_session_is_kept(place: Path) -> None:
    assert write_snapshot(_build(huge="word " * 2_000_000, small="x"))
    assert place.stat().st_size < 1000
    read = read_snapshot()
    assert read is not None
    assert read["adapter"] == {"session_id": "s-1", "small": "x"}


@pytest.mark.parametrize("size", [1_000, 1_100, 2_000, 5_000])
def test_no_sealed_snapshot_is_larger_than_its_limit(size: int) -> None:
    built = _build(transcript_lines=["é" * 50] * 100) | {"sessions": {str(n): "y" * 30 for n in range(50)}}
    content, dropped = snapshots.sealed(built, size)
    assert len(content) <= size
    assert dropped
    assert snapshots.check(json.loads(content))


class Cyclic(dict[str, Any]):
    def __init__(self) -> None:
        super().__init__()
        self["me"] = self


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("sk-abcdefghijklmnop")


@pytest.mark.parametrize("state", [Cyclic(), {1, 2}, object(), Path("/x"), float("nan"), b"bytes"])
def test_any_state_of_an_adapter_is_written_somehow(state: object) -> None:
    assert write_snapshot(_build(state=state))
    assert read_snapshot() is not None


def test_writing_never_raises_and_never_tells_what_went_wrong_inside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert write_snapshot(_build(state=Hostile())) is False
    assert write_snapshot(_build(), tmp_path) is False
    assert write_snapshot(_build(), "/proc/no/such/place") is False
    assert "sk-" not in caplog.text


def test_nothing_to_read_is_no_problem(caplog: pytest.LogCaptureFixture) -> None:
    assert read_snapshot() is None
    assert begin_restore() is None
    delete_snapshot()
    assert not caplog.records


def test_version_1_is_read(place: Path) -> None:
    old = {"workspace_id": "ws-1", "timestamp": "x", "session_id": "s-9", "transcript_lines": ["a"]}
    place.write_text(json.dumps(old))
    assert read_snapshot() == old
    view = {"session_id": "s-9", "transcript_lines": ["a"], "workspace_id": "ws-1", "timestamp": "x"}
    assert begin_restore() == view | {"sessions": {}}


def _changed(place: Path, **members: Any) -> None:
    read = json.loads(place.read_text()) | members
    read["digest"] = snapshots.digest(read)
    place.write_text(json.dumps(read))


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"workspace_id": "ws-2"}, "another workspace"),
        ({"runtime": "claude-code"}, "another runtime"),
        ({"schema_version": 3}, "newer"),
        ({"schema_version": "2"}, "no number"),
    ],
)
def test_a_snapshot_of_others_is_put_aside_with_a_warning(
    place: Path, caplog: pytest.LogCaptureFixture, members: dict[str, Any], reason: str
) -> None:
    write_snapshot(_build())
    _changed(place, **members)
    with caplog.at_level(logging.WARNING):
        assert read_snapshot(runtime="echo") is None
    assert reason in caplog.text
    assert os.listdir(place.parent) == [".agent_snapshot.rejected.json"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"schema_version":2}', b'{"digest":"x"}']
)
def test_a_damaged_snapshot_is_put_aside(place: Path, content: bytes) -> None:
    place.write_bytes(content)
    assert begin_restore() is None
    assert os.listdir(place.parent) == [".agent_snapshot.rejected.json"]


def test_a_changed_byte_breaks_the_digest(place: Path) -> None:
    write_snapshot(_build())
    place.write_text(place.read_text().replace("thinking", "thinkinG"))
    assert read_snapshot() is None


def test_the_view_of_the_adapter_is_its_own_section_with_where_it_is_from() -> None:
    write_snapshot(_build(mood="fine") | {"sessions": {"c": {"n": 1}}})
    view = begin_restore(runtime="echo")
    assert view is not None
    assert view.pop("timestamp")
    assert view == {"session_id": "s-1", "mood": "fine", "sessions": {"c": {"n": 1}}, "workspace_id": "ws-1"}


def test_the_session_of_the_adapter_wins_over_that_of_the_top() -> None:
    assert snapshot.flattened({"session_id": "top", "adapter": {"session_id": "own"}})["session_id"] == "own"
    assert snapshot.flattened({"session_id": "top", "adapter": {}})["session_id"] == "top"


def test_secrets_of_a_foreign_snapshot_are_redacted_before_they_are_restored(place: Path) -> None:
    place.write_text(json.dumps({"adapter": {"note": "password=hunter2"}}))
    view = begin_restore()
    assert view is not None
    assert view["note"] == "password=[REDACTED:PASSWORD]"


def test_a_start_that_crashes_leaves_the_snapshot_for_the_next_but_not_forever(place: Path) -> None:
    write_snapshot(_build())
    for _ in range(3):
        assert begin_restore() is not None
        assert place.exists()
    assert begin_restore() is None
    assert os.listdir(place.parent) == [".agent_snapshot.rejected.json"]


def test_a_new_snapshot_has_all_its_attempts() -> None:
    for _ in range(3):
        write_snapshot(_build())
        for _ in range(2):
            assert begin_restore() is not None


def test_it_is_consumed_once_ready(place: Path) -> None:
    write_snapshot(_build())
    assert begin_restore() is not None
    delete_snapshot()
    delete_snapshot()
    assert os.listdir(place.parent) == []
    assert begin_restore() is None
