"""The command line: flags, variables, exit codes, and a clean end on a signal."""

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock, Mock, patch

import pytest

from molecule_agent import RemoteAgentClient
from molecule_agent.__main__ import _connect_command, _resolve_handler, main
from molecule_agent.cli import connect
from molecule_agent.cli import main as cli_main

if TYPE_CHECKING:
    from .conftest import Answer, ScriptedPlatform, WaitFor  # noqa: TID252 - types only

ME = "/workspaces/3f1c2d4e-5a6b-4c7d-8e9f-0a1b2c3d4e5f"
WORKSPACE = ME.rpartition("/")[2]
BEFORE_ITS_NEXT_HEARTBEAT = 25.0
HANDLERS = """
def echo(message, client):
    return "you said " + message.text

def slow(message, client):
    import pathlib, time
    pathlib.Path("running").touch()
    while not pathlib.Path("go-on").exists():
        time.sleep(0.01)
    return "finished"

not_callable = 1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with handlers in it."""
    (tmp_path / "my_handlers.py").write_text(HANDLERS)
    (tmp_path / "broken_handlers.py").write_text("raise RuntimeError('at import')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    return tmp_path


@pytest.fixture
def connection(platform: "ScriptedPlatform", folder: Path) -> list[str]:
    """The flags that lead to the scripted platform."""
    flags = {
        "--platform-url": platform.url,
        "--workspace-id": WORKSPACE,
        "--token-dir": str(folder / "tokens"),
    }
    return [part for flag in flags.items() for part in flag]


def paused(platform: "ScriptedPlatform") -> None:
    platform.ok("POST", "/registry/heartbeat", {})
    platform.ok("GET", f"{ME}/state", {"status": "paused", "paused": True})


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("x", "error: handler spec 'x' must be of the form 'module.path:function'"),
        (":f", "error: handler spec ':f' is malformed"),
        ("no_such_module:f", "error: could not import no_such_module: "),
        ("broken_handlers:f", "error: could not import broken_handlers: at import"),
        ("my_handlers:f", "error: my_handlers has no attribute 'f'"),
        ("my_handlers:not_callable", "error: my_handlers:not_callable is not callable"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_handler_that_cannot_be_used_ends_with_one_sentence(spec: str, sentence: str) -> None:
    with pytest.raises(SystemExit) as ended:
        _resolve_handler(spec)
    assert str(ended.value.code).startswith(sentence)


def test_connect_answers_messages_until_the_workspace_is_paused(
    platform: "ScriptedPlatform", connection: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    paused(platform)
    lease = {"token": "t", "expires_at": "2026-05-02T10:16:30.123Z", "attempt": 1}
    item = {"id": "row", "message_id": "m", "data": {"source": "canvas_user", "text": "hi"}, "lease": lease}
    platform.ok("POST", f"{ME}/inbox/lease", {"messages": [item]})
    platform.ok("POST", f"{ME}/inbox/m/answer", {})
    platform.ok("POST", "/registry/register", {"auth_token": "minted"})
    assert main(["connect", *connection, "--handler", "my_handlers:echo", "--wait", "0"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out == [
        f"[molecule] connected as {WORKSPACE} (platform={platform.url}, delivery=inbox, interval=5s)",
        "[molecule] platform reports workspace paused — exiting",
    ]
    assert [seen.path for seen in platform.seen][:2] == ["/registry/register", "/registry/heartbeat"]
    assert platform.requests("POST", f"{ME}/inbox/m/answer")[0].json["text"] == "you said hi"
    assert platform.seen[0].json["agent_card"] == {"name": f"remote-{WORKSPACE[:8]}"}


def test_every_setting_can_come_from_the_environment(
    platform: "ScriptedPlatform", folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused(platform)
    platform.ok("GET", f"{ME}/activity", [])
    settings = {
        "PLATFORM_URL": platform.url,
        "WORKSPACE_ID": WORKSPACE,
        "MOLECULE_HANDLER": "my_handlers:echo",
        "MOLECULE_WORKSPACE_TOKEN": "given-token",
        "MOLECULE_TOKEN_DIR": str(folder / "tokens"),
        "MOLECULE_CURSOR_FILE": str(folder / "cursor"),
        "MOLECULE_ORG_ID": "acme",
        "MOLECULE_LOG_FORMAT": "json",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert main(["connect", "--no-origin"]) == 0
    assert [seen.path for seen in platform.seen][0] == "/registry/heartbeat"
    headers = platform.requests("GET", f"{ME}/activity")[0].headers
    assert (headers["authorization"], headers["x-molecule-org-id"]) == ("Bearer given-token", "acme")
    assert "origin" not in headers
    assert (folder / "tokens" / ".auth_token").read_text() == "given-token"


def test_logs_can_be_json_lines() -> None:
    try:
        raise ValueError("why")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "it %s", ("broke",), sys.exc_info())
    line = json.loads(cli_main.JSONFormatter().format(record))
    assert (line["level"], line["message"]) == ("ERROR", "it broke")
    assert "ValueError: why" in line["exception"]


@pytest.mark.parametrize("missing", ["--platform-url", "--workspace-id", "--handler"])
def test_a_missing_setting_is_named_with_its_variable(
    missing: str, connection: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*connection, "--handler", "my_handlers:echo"]
    position = flags.index(missing)
    assert main(["connect", *flags[:position], *flags[position + 2 :]]) == 2
    assert f"{missing} is missing" in capsys.readouterr().err


@pytest.mark.parametrize("variables", [{"MOLECULE_POLL_INTERVAL": "often"}, {"MOLECULE_DELIVERY": "pigeon"}])
def test_a_wrong_variable_is_a_usage_error(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        main(["connect"])
    assert ended.value.code == 2


def test_a_registration_that_fails_is_exit_code_2(
    connection: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["connect", *connection, "--handler", "my_handlers:echo"]) == 2
    assert capsys.readouterr().err.startswith("[molecule] register failed: 404 not-found: nothing here")


def test_whatever_registering_fails_with_is_exit_code_2(
    connection: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(RemoteAgentClient, "register", Mock(side_effect=RuntimeError("nope")))
    assert main(["connect", *connection, "--handler", "my_handlers:echo"]) == 2
    assert capsys.readouterr().err == "[molecule] register failed: nope\n"


def test_push_starts_a_server_and_always_registers(
    platform: "ScriptedPlatform", connection: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    paused(platform)
    platform.ok("POST", "/registry/register", {"status": "registered"})
    flags = [*connection, "--handler", "my_handlers:echo", "--delivery", "push", "--token", "t"]
    assert main(["connect", *flags]) == 2
    assert "--reported-url" in capsys.readouterr().err
    assert main(["connect", *flags, "--reported-url", "http://127.0.0.1/a2a/inbound"]) == 0
    register = platform.requests("POST", "/registry/register")[0]
    assert register.json["url"] == "http://127.0.0.1/a2a/inbound"


@pytest.mark.usefixtures("folder")
def test_arguments_of_an_older_program_mean_polling() -> None:
    args = SimpleNamespace(
        platform_url="http://127.0.0.1:1", workspace_id="w1", handler="my_handlers:echo", token=None
    )
    with patch("molecule_agent.client.RemoteAgentClient") as made:
        made.return_value.run_agent_loop.return_value = "removed"
        assert _connect_command(args) == 0
    assert made.call_args.kwargs["workspace_id"] == "w1"
    assert connect.delivery_kind(args) == connect.delivery_kind(MagicMock()) == "poll"
    _, delivery = made.return_value.run_agent_loop.call_args.args
    assert delivery.interval == 5.0


def test_the_short_commands(
    platform: "ScriptedPlatform",
    connection: list[str],
    capsys: pytest.CaptureFixture[str],
    answer: "type[Answer]",
) -> None:
    def run_command(*arguments: str) -> tuple[int, str]:
        code = main([arguments[0], *connection, *arguments[1:]])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    platform.ok("GET", ME, {"id": WORKSPACE, "name": "docs-bot"})
    code, text = run_command("whoami")
    assert (code, "name: docs-bot" in text) == (0, True)
    platform.ok("GET", f"/registry/{WORKSPACE}/peers", [{"id": "p1", "name": "ops", "role": "sre"}])
    assert run_command("peers") == (0, "p1  unknown         ops  sre\n")
    code, text = run_command("peers", "--json")
    assert json.loads(text)[0]["name"] == "ops"
    done: Any = {"result": {"kind": "message", "parts": [{"kind": "text", "text": "hello"}]}}
    platform.ok("POST", "/workspaces/p1/a2a", done)
    assert run_command("call", "ops", "hi") == (0, "hello\n")
    assert run_command("call", "p1", "hi", "--wait") == (0, "hello\n")
    platform.ok("POST", "/workspaces/p1/a2a", {"result": {"id": "t", "status": {"state": "submitted"}}})
    assert run_command("call", "p1", "hi") == (0, "queued; --wait waits for the answer\n")
    platform.ok("POST", "/workspaces/p1/a2a", {"error": {"code": -32001, "message": "no"}})
    code, text = run_command("call", "p1", "hi")
    assert (code, text.count("\n")) == (1, 1)
    platform.on("GET", ME, answer(401, {"error": "no", "code": "unauthenticated"}))
    assert run_command("whoami") == (1, "error: 401 unauthenticated: no\n")
    assert main(["whoami", "--platform-url", "nonsense", "--workspace-id", "w"]) == 2
    assert main(["whoami", "--workspace-id", "w"]) == 2


def start(connection: list[str], folder: Path, handler: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "molecule_agent", "connect", *connection, "--handler", handler]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [*command, "--token", "t", "--wait", "0"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_an_idle_agent_at_once(
    number: signal.Signals,
    platform: "ScriptedPlatform",
    connection: list[str],
    folder: Path,
    wait_for: "WaitFor",
) -> None:
    platform.ok("POST", "/registry/heartbeat", {})
    platform.ok("GET", f"{ME}/state", {"status": "online"})
    platform.ok("POST", f"{ME}/inbox/lease", {"messages": []})
    with start(connection, folder, "my_handlers:echo") as agent:
        wait_for(lambda: platform.requests("GET", f"{ME}/state"))
        agent.send_signal(number)
        assert agent.wait(BEFORE_ITS_NEXT_HEARTBEAT) == 0


def test_a_signal_lets_the_message_in_hand_be_answered_and_gives_the_next_one_back(
    platform: "ScriptedPlatform", connection: list[str], folder: Path, wait_for: "WaitFor"
) -> None:
    lease = {"token": "t", "expires_at": "2026-05-02T10:16:30.123Z", "attempt": 1}
    data = {"source": "canvas_user", "text": "hi"}
    items = [{"id": f"row-{n}", "message_id": f"m{n}", "data": data, "lease": lease} for n in (1, 2)]
    platform.ok("POST", "/registry/heartbeat", {})
    platform.ok("POST", f"{ME}/inbox/lease", {"messages": items})
    platform.ok("POST", f"{ME}/inbox/m1/answer", {})
    platform.ok("POST", f"{ME}/inbox/m2/release", {})
    with start(connection, folder, "my_handlers:slow") as agent:
        wait_for((folder / "running").exists)
        agent.send_signal(signal.SIGTERM)
        (folder / "go-on").touch()
        assert agent.wait(BEFORE_ITS_NEXT_HEARTBEAT) == 0
    assert platform.requests("POST", f"{ME}/inbox/m1/answer")[0].json["text"] == "finished"
    assert len(platform.requests("POST", f"{ME}/inbox/m2/release")) == 1
