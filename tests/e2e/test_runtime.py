"""A workspace runtime as real processes: it joins, answers, is stopped and killed, and loses nothing."""

import signal
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests

from molecule_runtime.testing import conformance
from molecule_runtime.testing.probe import Probe
from molecule_wire import times
from scripts import live_platform, repository
from scripts.live_platform import LivePlatform
from tests.e2e.workspaces import CONFIG, Member, member, text_of, until, with_modules

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("link", ["push", "poll"])
def test_a_workspace_joins_answers_and_stops(live: LivePlatform, tmp_path: Path, link: str) -> None:
    with member(live, tmp_path / link, MOLECULE_LINK=link) as echo:
        assert text_of(echo.send("hello")) == "echo: hello"
        asked = echo.send("/input which city?")["result"]
        assert asked["status"]["state"] == "input-required"
        again = echo.send("Paris", taskId=asked["id"], contextId=asked["contextId"])
        assert text_of(again) == "echo: Paris"
        failed = str(echo.send("/fail"))
        assert "Agent error (RuntimeError)" in failed
        assert "echo was asked to fail" not in failed
        assert echo.end() == 0
        assert (echo.folder / ".agent_snapshot.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("link", ["push", "poll"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_turn_that_is_cut_is_answered_by_the_next_process(
    live: LivePlatform, tmp_path: Path, link: str, number: int
) -> None:
    answers: list[Any] = []
    with member(live, tmp_path / link, MOLECULE_LINK=link) as echo:
        sending = threading.Thread(target=lambda: answers.append(echo.send("/sleep 2")))
        sending.start()
        until(lambda: echo.row().get("active_tasks") == 1)
        echo.end(number)
        echo.start()
        sending.join(60)
        assert [text_of(answer) for answer in answers] == ["echo: slept 2 s"]


def test_echo_keeps_the_promises_of_an_a2a_server(echo: Member) -> None:
    results = list(conformance.run(Probe(echo.url)))
    assert [(result.name, result.problem) for result in results if not result.passed] == []
    assert len(results) == len(conformance.CHECKS)


ADAPTER = """
from pathlib import Path

from molecule_runtime.runtimes.echo import EchoAdapter


class Adapter(EchoAdapter):
    def idle_timeout_override(self):
        asked = Path(__file__).with_name("idle.txt").read_text()
        return int(asked) if asked else None
"""


@pytest.mark.long
def test_the_silence_that_an_adapter_asks_for_is_honoured_by_the_gateway(tmp_path: Path) -> None:
    """The platform gives silent turns up after 2 s; the adapter asks for 20, then no longer."""
    (tmp_path / "patient.py").write_text(ADAPTER)
    idle = tmp_path / "idle.txt"
    idle.write_text("20")
    data = tmp_path / "data"
    with live_platform.running(data, "--no-demo", A2A_IDLE_TIMEOUT_SECONDS="2") as running:
        variables = {"ADAPTER_MODULE": "patient", "PYTHONPATH": with_modules(tmp_path)}
        with member(running, tmp_path / "patient", **variables) as echo:
            began = time.monotonic()
            assert text_of(echo.send("/sleep 5")) == "echo: slept 5 s"
            print(f"asked for 20 s: silent for 5 s, answered after {time.monotonic() - began:.1f} s")
            idle.write_text("")
            echo.send("a beat goes out with this turn, at most a quarter of a second later")
            changed = times.format_time(datetime.now(UTC))
            until(lambda: echo.row()["last_heartbeat_at"] > changed)
            began = time.monotonic()
            sending = threading.Thread(target=echo.send, args=("/sleep 20",), daemon=True)
            sending.start()
            # Given up, it waits for its second attempt.
            until(lambda: _standing(echo.newest_message()) == ("accepted", 1))
            took = time.monotonic() - began
            print(f"asked for nothing: given up after {took:.1f} s")
            assert 2 <= took < 10


def _standing(row: Any) -> tuple[str, int]:
    return row["status"], row["attempts"]


def test_what_was_answered_is_known_after_a_restart(live: LivePlatform, tmp_path: Path) -> None:
    with member(live, tmp_path / "kept") as echo:

        def deliver() -> Any:
            message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "once"}]}
            body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
            headers = {"X-Molecule-Message-Id": "row-1", "A2A-Version": "1.0"}
            return requests.post(echo.url, json=body, headers=headers, timeout=30).json()

        first = deliver()
        echo.end(signal.SIGKILL)
        echo.start()
        assert deliver() == first


def test_the_example_adapter_runs_as_a_workspace(live: LivePlatform, tmp_path: Path) -> None:
    path = with_modules(repository.ROOT / "examples/command-adapter")
    config = CONFIG.replace("echo", "command").replace("8}", "8, command: cat}")
    variables = {"ADAPTER_MODULE": "command_adapter", "PYTHONPATH": path}
    with member(live, tmp_path / "command", config, **variables) as command:
        first = command.send("hello", contextId="conversation")
        assert text_of(first).strip() == "user: hello"
        said = text_of(command.send("again", contextId="conversation"))
        assert said.split() == ["user:", "hello", "assistant:", "user:", "hello", "user:", "again"]
        assert command.end() == 0
