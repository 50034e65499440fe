"""A task for hermes that it delegates, while its gateway and its runtime are killed: one answer arrives."""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from molecule_runtime.testing.scripted_model import ModelReply, ModelRequest, ScriptedModel, ToolCall
from scripts import live_platform
from scripts.live_platform import LivePlatform
from tests.e2e.workspaces import Member, member, until
from tests.hermes.test_workspace import CONFIG, hermes_variables, start

# Three starts of a gateway of 8 s each, and the waits of the platform between attempts.
pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(300)]

TASK = "let both of them count"
ANSWER = "They counted: apples and pears."
DELEGATED = re.compile(r"check_delegation_status with task_id ([0-9a-f-]{36})")
ENDS = ("MESSAGE_ANSWERED", "MESSAGE_FAILED", "MESSAGE_EXPIRED", "MESSAGE_CANCELLED")


class Delegating:
    """A model that delegates to two workspaces, asks for the results, and answers when it has both.

    It falls silent at two points, until the test has killed what waits for it: before it delegates, and when
    its first delegation is made.
    """

    def __init__(self, tasks: dict[str, str]) -> None:
        self._tasks = tasks
        self.silences = ["begun", "delegated"]
        self.silent = {name: threading.Event() for name in self.silences}
        self.results: list[str] = []

    def __call__(self, request: ModelRequest) -> ModelReply | str:
        if not request.tools or TASK not in request.last_user_text:
            return "noted"
        results = request.tool_results
        point = "delegated" if results else "begun"
        if self.silences[:1] == [point]:
            self.silent[point].set()
            return ModelReply(silent=True)
        if not results:
            calls = [
                self._call(
                    request, "delegate_to_workspace", workspace_id=name, task=task, idempotency_key=task
                )
                for name, task in self._tasks.items()
            ]
            return ModelReply(tool_calls=tuple(calls))
        self.results = results
        if all(f"echo: {task}" in "".join(results) for task in self._tasks.values()):
            return ANSWER
        ids = [DELEGATED.findall(result)[0] for result in results[: len(self._tasks)]]
        calls = [self._call(request, "check_delegation_status", task_id=each) for each in ids]
        return ModelReply(tool_calls=tuple(calls), delay=0.2)

    def wait(self, point: str) -> None:
        """Wait until the model was asked at this point, and let it speak there from now on."""
        assert self.silent[point].wait(90), f"the model was never asked: {point}"

    def go_on(self) -> None:
        self.silences.pop(0)

    @staticmethod
    def _call(request: ModelRequest, name: str, **arguments: Any) -> ToolCall:
        # Hermes names the tools of an MCP server by the server: these are the ones of the workspace.
        return ToolCall(next(tool for tool in request.tools if tool == f"mcp__molecule__{name}"), arguments)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePlatform]:
    data = tmp_path_factory.mktemp("live") / "data"
    # The usual five attempts last 20 s; on a busy machine two starts of hermes take longer.
    with live_platform.running(data, "--no-demo", MESSAGE_MAX_ATTEMPTS="10") as running:
        yield running


@pytest.mark.parametrize("transport", ["chat", "plugin"])
def test_a_delegated_task_is_answered_once_although_gateway_and_runtime_are_killed(
    live: LivePlatform, hermes_executable: Path, tmp_path: Path, transport: str
) -> None:
    with member(live, tmp_path / "apples") as apples, member(live, tmp_path / "pears") as pears:
        script = Delegating({apples.id: "count apples", pears.id: "count pears"})
        with (
            ScriptedModel(script) as model,
            _hermes(live, hermes_executable, model, tmp_path, transport) as lead,
        ):
            with _sending(live, lead.id, TASK) as sending:
                script.wait("begun")
                script.go_on()
                _gateway_of(lead).kill()
                script.wait("delegated")
                script.go_on()
                lead.end(signal.SIGKILL)
                start(lead)
                printed, errors = sending.communicate(timeout=120)
            assert sending.returncode == 0, errors
            message = json.loads(printed)
            assert ANSWER in json.dumps(message), message
            ends = {
                kind: [
                    end["payload"]["message_id"]
                    for end in lead.call("GET", f"/events?limit=1000&type={kind}")
                ]
                for kind in ENDS
            }
            counts = {kind: ids.count(message["id"]) for kind, ids in ends.items()}
            assert counts == {"MESSAGE_ANSWERED": 1, **dict.fromkeys(ENDS[1:], 0)}
            for peer in (apples, pears):
                received = peer.call("GET", f"/workspaces/{peer.id}/messages")["messages"]
                assert len(received) == 1, "a repeated turn makes the same delegation, not another one"
            print(f"\n{transport}: {counts['MESSAGE_ANSWERED']} answer after {message['attempts']} attempts")


@contextmanager
def _hermes(
    live: LivePlatform, hermes: Path, model: ScriptedModel, folder: Path, transport: str
) -> Generator[Member]:
    variables = hermes_variables(folder, hermes, model)
    variables["MOLECULE_A2A_PLATFORM_ENABLED"] = str(transport == "plugin")
    workspace = Member(live, folder / "lead", CONFIG, **variables)
    try:
        start(workspace)
        yield workspace
    finally:
        if not workspace.is_over:
            workspace.end()


@contextmanager
def _sending(live: LivePlatform, workspace_id: str, text: str) -> "Generator[subprocess.Popen[str]]":
    """`molecule send`, which waits for the answer."""
    command = [sys.executable, "-m", "molecule_platform.cli.main", "send", workspace_id, text]
    command += ["--json", "--wait", "200", "--url", live.url, "--data-dir", str(live.data_dir)]
    process = subprocess.Popen(
        command,
        env=live_platform.clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def _gateway_of(workspace: Member) -> psutil.Process:
    found = list[psutil.Process]()

    def look() -> bool:
        found[:] = [
            child for child in psutil.Process(workspace.pid).children() if "gateway" in child.cmdline()
        ]
        return bool(found)

    until(look, workspace.log.read_text)
    return found[0]
