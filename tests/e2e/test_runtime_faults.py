"""A platform that is away, a process that is stopped in a turn, a snapshot that is not its own."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from molecule_platform.testing import servers
from molecule_runtime.domain import snapshots
from molecule_runtime.testing.probe import Probe, body_of, state_of
from scripts.live_platform import LivePlatform
from tests.e2e.platform_process import PlatformProcess
from tests.e2e.workspaces import SECONDS, Member, member, text_of, until, with_modules

pytestmark = pytest.mark.timeout(90)

ROOT = Path(__file__).parents[2]
SNAPSHOT = ".agent_snapshot.json"


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    """A platform that tests kill; each leaves it running."""
    platform = PlatformProcess(servers.free_port(), tmp_path_factory.mktemp("mortal") / "data")
    platform.start()
    yield platform
    platform.stop()


def test_a_platform_that_is_down_at_boot_is_waited_for(mortal: PlatformProcess, tmp_path: Path) -> None:
    echo = Member(mortal, tmp_path / "early")
    mortal.kill()
    try:
        echo.launch()
        echo.logged("the platform cannot be reached to register")
        assert requests.get(f"{echo.url}healthz", timeout=SECONDS).json() == {"status": "ok"}
        assert echo.readiness() == (503, "starting")
        mortal.start()
        echo.logged("ready: workspace")
        assert echo.readiness() == (200, "ready")
        assert text_of(echo.send("hello")) == "echo: hello"
    finally:
        echo.close()


@pytest.mark.slow  # two workspaces start, and the platform once more after its end
def test_a_turn_goes_on_without_the_platform_and_its_outcome_is_told_later(
    mortal: PlatformProcess, tmp_path: Path
) -> None:
    """For a workspace that is pushed to, and for one that pulls; no message has a second turn."""
    variables = {"ADAPTER_MODULE": "tests.e2e.recording_adapter", "PYTHONPATH": with_modules(ROOT)}
    members = [
        Member(
            mortal, tmp_path / link, MOLECULE_LINK=link, TURN_LINES=str(tmp_path / f"{link}.txt"), **variables
        )
        for link in ("push", "poll")
    ]

    def events(echo: Member) -> list[str]:
        lines = Path(echo.variables["TURN_LINES"])
        return (
            [json.loads(line)["event"] for line in lines.read_text().splitlines()] if lines.exists() else []
        )

    try:
        for echo in members:
            echo.launch()
        for echo in members:
            echo.logged("ready: workspace")
        for echo in members:
            send_and_leave(echo, "/sleep 2")
        until(lambda: all(events(echo) == ["start"] for echo in members))
        mortal.kill()
        until(lambda: all(events(echo) == ["start", "end"] for echo in members))
        mortal.start()
        until(lambda: all(echo.newest_message()["status"] == "answered" for echo in members))
        for echo in members:
            row = echo.call("GET", f"/messages/{echo.newest_message()['id']}")
            assert "echo: slept 2 s" in str(row["result"])
            assert events(echo) == ["start", "end"]
    finally:
        for echo in members:
            echo.close()


def send_and_leave(echo: Member, text: str) -> None:
    """Send a message whose outcome nobody waits for."""
    message = {"messageId": os.urandom(8).hex(), "role": "user", "parts": [{"kind": "text", "text": text}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    headers = {**echo.headers, "Prefer": "respond-async"}
    url = f"{echo.platform.url}/workspaces/{echo.id}/a2a"
    assert requests.post(url, json=body, headers=headers, timeout=SECONDS).json()["queued"]


def test_a_stop_in_a_turn_is_told_as_retryable_and_leaves_a_snapshot(
    live: LivePlatform, tmp_path: Path
) -> None:
    with member(live, tmp_path / "stopped") as echo:
        assert text_of(echo.send("hello", contextId="c-1")) == "echo: hello"
        probe = Probe(echo.url)
        message = probe.message("1.0", "/sleep 60")
        events = probe.events("1.0", "stream", {"message": message})
        assert body_of(next(events))[0] == "task"
        ending = threading.Thread(target=echo.end)
        ending.start()
        kind, last = body_of(list(events)[-1])
        ending.join(SECONDS)
        assert (kind, state_of(last)) == ("status", "failed")
        told = last["metadata"]["molecule"]
        assert (told["code"], told["retryable"]) == ("agent-stopping", True)
        snapshot = json.loads((echo.folder / SNAPSHOT).read_text())
        assert (snapshot["workspace_id"], snapshot["runtime"]) == (echo.id, "echo")
        assert "hello" in str(snapshot["sessions"]["c-1"])
        assert snapshot["pending_turns"] == [message["messageId"]]


def test_a_snapshot_that_is_not_its_own_is_put_aside_and_the_boot_goes_on(
    live: LivePlatform, tmp_path: Path
) -> None:
    held: dict[str, Any] = {"schema_version": 2, "runtime": "echo", "adapter": {"session_id": "s"}}
    spoilt = {
        "of another workspace": snapshots.sealed({**held, "workspace_id": "another"})[0],
        "from the future": snapshots.sealed({**held, "schema_version": 3})[0],
        "changed": snapshots.sealed(held)[0].replace(b'"s"', b'"t"'),
    }
    members = {name: Member(live, tmp_path / name) for name in spoilt}
    try:
        for name, echo in members.items():
            (echo.folder / SNAPSHOT).write_bytes(spoilt[name])
            echo.launch()
        for name, echo in members.items():
            echo.logged("ready: workspace")
            assert "is not restored" in echo.log.read_text()
            assert (echo.folder / ".agent_snapshot.rejected.json").read_bytes() == spoilt[name]
            assert not (echo.folder / SNAPSHOT).exists()
            assert echo.readiness() == (200, "ready")
    finally:
        for echo in members.values():
            echo.close()
