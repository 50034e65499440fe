"""A workspace runtime as real processes: it joins, answers, is stopped and killed, and loses nothing."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.helpers import get_message_text, new_text_message
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)

from molecule_runtime.testing import conformance
from molecule_runtime.testing.probe import Probe
from scripts import live_platform
from scripts.live_platform import LivePlatform

pytestmark = pytest.mark.timeout(120)

CONFIG = "name: Echo\nruntime: echo\na2a: {port: 0}\nruntime_config: {max_concurrent_turns: 8}\n"


class Member:
    """A workspace of the platform, and the process that runs it."""

    def __init__(self, platform: LivePlatform, admin: str, folder: Path, **variables: str) -> None:
        self.platform = platform
        self.headers = {"Authorization": f"Bearer {admin}"}
        made = self.call("POST", "/workspaces", json={"name": folder.name, "runtime": "external"})
        self.id = str(made["id"])
        self.folder = folder
        folder.mkdir()
        (folder / "config.yaml").write_text(CONFIG)
        self.log = folder / "log.txt"
        self._variables = {
            **live_platform.clean_environment(),
            "WORKSPACE_ID": self.id,
            "PLATFORM_URL": platform.url,
            "WORKSPACE_CONFIG_PATH": str(folder),
            "MOLECULE_WORKSPACE_TOKEN": made["connection"]["auth_token"],
            "MOLECULE_STOP_GRACE_SECS": "1",
            **variables,
        }
        self.process: subprocess.Popen[bytes] | None = None

    def call(self, method: str, path: str, **request: Any) -> Any:
        answer = requests.request(
            method, self.platform.url + path, headers=self.headers, timeout=60, **request
        )
        return answer.json()

    def start(self) -> None:
        with self.log.open("ab") as log:
            command = [sys.executable, "-c", "from molecule_runtime.main import main_sync; main_sync()"]
            self.process = subprocess.Popen(command, env=self._variables, stderr=log)
        until(lambda: b"ready: workspace" in self.log.read_bytes(), self.log.read_text)

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(30)
        self.log.rename(self.log.with_suffix(f".{time.monotonic_ns()}"))
        return code

    @property
    def url(self) -> str:
        """Where the process listens."""
        line = next(line for line in self.log.read_text().splitlines() if "listening on" in line)
        return f"http://127.0.0.1:{line.rpartition(':')[2]}/"

    def send(self, text: str, **message: Any) -> Any:
        parts = [{"kind": "text", "text": text}]
        sent = {"messageId": os.urandom(8).hex(), "role": "user", "parts": parts, **message}
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": sent}}
        return self.call("POST", f"/workspaces/{self.id}/a2a", json=body)


def until(condition: Callable[[], bool], why: Callable[[], str] = lambda: "") -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, why()
        time.sleep(0.05)


def text_of(answer: Any) -> str:
    return " ".join(part.get("text", "") for part in answer["result"]["parts"])


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[LivePlatform, str]]:
    data = tmp_path_factory.mktemp("platform") / "data"
    with live_platform.running(data, "--no-demo") as running:
        yield running, (data / "admin.token").read_text().strip()


@contextmanager
def member(platform: tuple[LivePlatform, str], folder: Path, **variables: str) -> Generator[Member]:
    made = Member(*platform, folder, **variables)
    made.start()
    try:
        yield made
    finally:
        if made.process is not None and made.process.poll() is None:
            made.process.kill()
            made.process.wait()


@pytest.mark.parametrize("link", ["push", "poll"])
def test_a_workspace_joins_answers_and_stops(
    platform: tuple[LivePlatform, str], tmp_path: Path, link: str
) -> None:
    with member(platform, tmp_path / link, MOLECULE_LINK=link) as echo:
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
    platform: tuple[LivePlatform, str], tmp_path: Path, link: str, number: int
) -> None:
    answers: list[Any] = []
    with member(platform, tmp_path / link, MOLECULE_LINK=link) as echo:
        sending = threading.Thread(target=lambda: answers.append(echo.send("/sleep 2")))
        sending.start()
        until(lambda: echo.call("GET", f"/workspaces/{echo.id}").get("active_tasks") == 1)
        echo.end(number)
        echo.start()
        sending.join(60)
        assert [text_of(answer) for answer in answers] == ["echo: slept 2 s"]


def test_echo_keeps_the_promises_of_an_a2a_server(platform: tuple[LivePlatform, str], tmp_path: Path) -> None:
    with member(platform, tmp_path / "checked") as echo:
        results = list(conformance.run(Probe(echo.url)))
        assert [(result.name, result.problem) for result in results if not result.passed] == []
        assert len(results) == len(conformance.CHECKS)


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_the_official_client_talks_to_echo(
    platform: tuple[LivePlatform, str], tmp_path: Path, binding: str
) -> None:
    with member(platform, tmp_path / "official") as echo:
        async with httpx.AsyncClient(timeout=30) as plain, httpx.AsyncClient(timeout=30) as own:
            card = await A2ACardResolver(plain, echo.url).get_agent_card()
            config = ClientConfig(httpx_client=own, supported_protocol_bindings=[binding])
            client = ClientFactory(config).create(card)
            message = new_text_message("/stream 3", role=Role.ROLE_USER)
            events = [event async for event in client.send_message(SendMessageRequest(message=message))]
            last = events[-1].status_update
            assert (events[0].WhichOneof("payload"), last.status.state) == (
                "task",
                TaskState.TASK_STATE_COMPLETED,
            )
            assert get_message_text(last.status.message) == "1 2 3"
            got = await client.get_task(GetTaskRequest(id=last.task_id))
            assert "".join(part.text for part in got.artifacts[0].parts) == "1 2 3 "
            assert await _cancelled(client) == TaskState.TASK_STATE_CANCELED


async def _cancelled(client: Client) -> Any:
    """Begin something slow, join it, cancel it: the state that the follower was told last."""
    message = new_text_message("/sleep 30", role=Role.ROLE_USER)
    begun = client.send_message(SendMessageRequest(message=message))
    task_id = (await anext(begun)).task.id
    following = client.subscribe(SubscribeToTaskRequest(id=task_id))
    assert (await anext(following)).task.id == task_id
    await client.cancel_task(CancelTaskRequest(id=task_id))
    return [event async for event in following][-1].status_update.status.state


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
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    with live_platform.running(data, "--no-demo", A2A_IDLE_TIMEOUT_SECONDS="2") as running:
        admin = (data / "admin.token").read_text().strip()
        variables = {"ADAPTER_MODULE": "patient", "PYTHONPATH": path}
        with member((running, admin), tmp_path / "patient", **variables) as echo:
            began = time.monotonic()
            assert text_of(echo.send("/sleep 5")) == "echo: slept 5 s"
            print(f"asked for 20 s: silent for 5 s, answered after {time.monotonic() - began:.1f} s")
            idle.write_text("")
            echo.send("one beat goes out with this turn")
            began = time.monotonic()
            sending = threading.Thread(target=echo.send, args=("/sleep 20",), daemon=True)
            sending.start()
            newest = f"/workspaces/{echo.id}/messages?limit=1"
            # Given up, it waits for its second attempt.
            until(lambda: _row(echo.call("GET", newest)) == ("accepted", 1))
            took = time.monotonic() - began
            print(f"asked for nothing: given up after {took:.1f} s")
            assert 2 <= took < 10


def _row(page: Any) -> tuple[str, int]:
    return page["messages"][0]["status"], page["messages"][0]["attempts"]


def test_what_was_answered_is_known_after_a_restart(
    platform: tuple[LivePlatform, str], tmp_path: Path
) -> None:
    with member(platform, tmp_path / "kept") as echo:

        def deliver() -> Any:
            message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "once"}]}
            body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
            headers = {"X-Molecule-Message-Id": "row-1", "A2A-Version": "1.0"}
            return requests.post(echo.url, json=body, headers=headers, timeout=30).json()

        first = deliver()
        echo.end(signal.SIGKILL)
        echo.start()
        assert deliver() == first


def test_an_adapter_for_the_original_base_with_a_bare_executor_runs_and_is_restored(
    platform: tuple[LivePlatform, str], tmp_path: Path
) -> None:
    (tmp_path / "old_adapter.py").write_text(
        textwrap.dedent("""
            from a2a.server.agent_execution import AgentExecutor
            from molecule_runtime.adapters.base import BaseAdapter
            from molecule_runtime.executor_helpers import extract_message_text, new_response_message


            class Executor(AgentExecutor):
                def __init__(self, session):
                    self._session_id = session or "s-1"
                    self.restored = session

                async def execute(self, context, event_queue):
                    text = extract_message_text(context.message)
                    said = f"{text} in {self._session_id}, restored {self.restored}"
                    await event_queue.enqueue_event(new_response_message(context, said))

                async def cancel(self, context, event_queue):
                    pass


            class Adapter(BaseAdapter):
                @staticmethod
                def name():
                    return "echo"

                @staticmethod
                def display_name():
                    return "Old"

                @staticmethod
                def description():
                    return "An adapter for the original base."

                async def setup(self, config):
                    pass

                async def create_executor(self, config):
                    return Executor(self._snapshot_session_id)
        """)
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    with member(platform, tmp_path / "old", ADAPTER_MODULE="old_adapter", PYTHONPATH=path) as old:
        assert text_of(old.send("hi")) == "hi in s-1, restored None"
        assert old.end() == 0
        old.start()
        assert text_of(old.send("hi")) == "hi in s-1, restored s-1"
        assert not (old.folder / ".agent_snapshot.json").exists()


@pytest.mark.parametrize(
    ("variables", "config", "told"),
    [
        ({"WORKSPACE_ID": ""}, CONFIG, "FATAL: WORKSPACE_ID env var is not set. Aborting."),
        ({}, "name: [1\n", "config.yaml"),
        ({}, "runtime: none\n", "no adapter for runtime 'none'"),
        ({}, "name: x\n", "echo"),
        ({"ADAPTER_MODULE": "no_such_module"}, CONFIG, "no_such_module"),
    ],
)
def test_a_workspace_that_cannot_start_says_why_and_ends(
    tmp_path: Path, variables: dict[str, str], config: str, told: str
) -> None:
    (tmp_path / "config.yaml").write_text(config)
    environment = {
        **live_platform.clean_environment(),
        "WORKSPACE_ID": "w",
        "PLATFORM_URL": "http://127.0.0.1:9",
        "WORKSPACE_CONFIG_PATH": str(tmp_path),
        **variables,
    }
    command = [sys.executable, "-c", "from molecule_runtime.main import main_sync; main_sync()"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, told in ended.stderr) == (1, True), ended.stderr
