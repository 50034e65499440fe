"""The short commands: one call, one answer, one line when it fails; and the doctor."""

import email.utils
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from molecule_agent.__main__ import compute_plugin_sha256, main
from molecule_agent.testing import make_tarball

if TYPE_CHECKING:
    from .conftest import Answer, ScriptedPlatform  # noqa: TID252 - types only

ME = "/workspaces/3f1c2d4e-5a6b-4c7d-8e9f-0a1b2c3d4e5f"
WORKSPACE = ME.rpartition("/")[2]
RunCommand: TypeAlias = Callable[..., tuple[int, str]]


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


@pytest.fixture
def connection(platform: "ScriptedPlatform", tokens: Path) -> list[str]:
    """The flags that lead to the scripted platform."""
    return ["--platform-url", platform.url, "--workspace-id", WORKSPACE, "--token-dir", str(tokens)]


@pytest.fixture
def run_command(connection: list[str], capsys: pytest.CaptureFixture[str]) -> RunCommand:
    """Run a command; its exit code and what it printed."""

    def run(command: str, *arguments: str) -> tuple[int, str]:
        code = main([command, *connection, *arguments])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


def test_the_inbox_is_listed_without_touching_it(
    platform: "ScriptedPlatform", run_command: RunCommand
) -> None:
    row = {"id": "row", "data": {"source": "canvas_user", "message_id": "m1", "text": "two\nlines"}}
    platform.ok("GET", f"{ME}/inbox", {"messages": [row], "pending": 1, "leased": 0, "dead": 2})
    assert run_command("inbox") == (0, "m1  canvas_user: two lines\n1 waiting, 0 in hand, 2 dead\n")
    code, text = run_command("inbox", "--json")
    assert (code, json.loads(text)) == (0, [row])
    assert {seen.method for seen in platform.seen} == {"GET"}


def test_a_waiting_message_is_answered(
    platform: "ScriptedPlatform", run_command: RunCommand, answer: "type[Answer]"
) -> None:
    platform.ok("POST", f"{ME}/inbox/m1/answer", {})
    assert run_command("reply", "m1", "hello") == (0, "answered\n")
    assert platform.seen[0].json == {"text": "hello"}
    lost = {"error": "a worker holds this message", "code": "lease-lost"}
    platform.on("POST", f"{ME}/inbox/m1/answer", answer(409, lost))
    assert run_command("reply", "m1", "hello") == (1, "error: 409 lease-lost: a worker holds this message\n")


def test_people_are_told_and_peers_are_asked_for_work(
    platform: "ScriptedPlatform", run_command: RunCommand
) -> None:
    platform.ok("POST", f"{ME}/notify", {})
    assert run_command("notify", "done") == (0, "sent\n")
    assert platform.seen[0].json == {"message": "done"}
    platform.ok("POST", "/workspaces/p1/delegate", {"delegation_id": "d1", "status": "delegated"})
    platform.ok("GET", f"/registry/{WORKSPACE}/peers", [{"id": "p1", "name": "ops"}])
    assert run_command("delegate", "ops", "index the docs") == (0, "d1  delegated\n")
    assert platform.seen[-1].json["task"] == "index the docs"


def test_enrolling_saves_a_token_and_shows_only_its_beginning(
    platform: "ScriptedPlatform", run_command: RunCommand, tokens: Path
) -> None:
    platform.ok("POST", "/registry/register", {"auth_token": "abcdefgh-and-the-rest"})
    code, text = run_command("enrol", "--enrolment-token", "once")
    assert (code, text.splitlines()[0]) == (0, f"enrolled {WORKSPACE}; token abcdefgh…")
    assert "the-rest" not in text
    assert platform.seen[0].json["enrolment_token"] == "once"
    assert (tokens / ".auth_token").read_text() == "abcdefgh-and-the-rest"
    code, text = run_command("enrol")
    assert (code, "--enrolment-token is missing" in text) == (2, True)


def healthy(platform: "ScriptedPlatform", answer: "type[Answer]", row: Any, ahead: float = 0) -> None:
    date = {"Date": email.utils.formatdate(time.time() + ahead, usegmt=True)}
    platform.on("GET", "/health", answer(200, {"status": "ok"}, date))
    platform.ok("GET", ME, {"status": "online"} | row)
    platform.ok("GET", f"{ME}/inbox", {"messages": [], "pending": 3})


def test_the_doctor_finds_a_working_agent_well(
    platform: "ScriptedPlatform", run_command: RunCommand, answer: "type[Answer]", tokens: Path
) -> None:
    healthy(platform, answer, {"delivery_mode": "poll"})
    code, text = run_command("doctor", "--token", "t")
    assert code == 0
    assert text.splitlines() == [
        f"ok    permissions: {tokens} is yours alone",
        f"ok    platform: {platform.url} answers",
        "ok    clock: within 30 s of the platform",
        "ok    token: taken; this workspace is online",
        "ok    delivery: by fetching; 3 waiting, 0 in hand, 0 dead",
    ]
    healthy(platform, answer, {"delivery_mode": "push", "url": "https://agent.example.org/"})
    assert "push to https://agent.example.org/" in run_command("doctor")[1]


def test_the_doctor_says_what_to_do_about_each_trouble(
    platform: "ScriptedPlatform", run_command: RunCommand, answer: "type[Answer]", tokens: Path
) -> None:
    healthy(platform, answer, {"delivery_mode": "push", "url": ""}, ahead=-300)
    tokens.mkdir(mode=0o755)
    code, text = run_command("doctor")
    assert code == 1
    failed = dict(line.removeprefix("FAIL  ").split(": ", 1) for line in text.splitlines() if "FAIL" in line)
    assert set(failed) == {"permissions", "clock", "token", "delivery"}
    assert f"chmod go-rwx {tokens}" in failed["permissions"]
    assert "s ahead of the platform; set its clock" in failed["clock"]
    assert f"molecule workspace enrol {WORKSPACE}" in failed["token"]
    assert "--reported-url" in failed["delivery"]


def test_the_doctor_tells_of_a_platform_that_is_not_there(
    run_command: RunCommand, platform: "ScriptedPlatform", answer: "type[Answer]"
) -> None:
    platform.on("GET", "/health", answer(drop=True))
    code, text = run_command("doctor", "--token", "t")
    assert code == 1
    assert "FAIL  platform: " in text
    assert "ok    permissions: " in text


def test_plugins_are_installed_listed_and_removed(
    platform: "ScriptedPlatform", run_command: RunCommand, tokens: Path
) -> None:
    archive = make_tarball({"plugin.yaml": b"name: demo\nversion: 1.0.0\n", "setup.sh": b"touch made\n"})
    platform.ok("GET", f"{ME}/plugins/demo/download", archive)
    platform.ok("POST", f"{ME}/plugins", {})
    flags = ["--source", "github://acme/demo", "--no-setup", "--upgrade", "--allow-signer-change"]
    code, text = run_command("install", "demo", *flags)
    assert (code, text.splitlines()[0]) == (0, str(tokens / "plugins" / "demo"))
    assert not (tokens / "plugins" / "demo" / "made").exists()
    assert platform.requests("POST", f"{ME}/plugins")[0].json == {"source": "github://acme/demo"}
    assert run_command("plugins") == (0, "demo  1.0.0  github://acme/demo\n")
    (tokens / "plugins" / "demo" / "setup.sh").unlink()
    assert run_command("plugins") == (
        1,
        "demo  1.0.0  github://acme/demo\n  missing: plugins/demo/setup.sh\n",
    )
    code, text = run_command("install", "demo", "--frozen")
    assert (code, "plugins.lock pins source" in text) == (1, True)
    code, text = run_command("install", "demo", "--sha256", "0" * 64)
    assert (code, "sha256 mismatch" in text) == (1, True)
    assert run_command("install", "demo", "--sha256", "short")[0] == 2
    assert run_command("install", "../x")[0] == 2
    assert run_command("uninstall", "demo") == (0, "uninstalled\n")
    assert run_command("uninstall", "demo") == (0, "not installed\n")


def test_the_digest_of_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "a.txt").write_text("hello\n")
    assert main(["verify-sha256", str(tmp_path / "demo")]) == 0
    digest = "e869ce07cf8aad51109fad329f5f6a0c367d579b326f70442d260dadaa185641"
    assert capsys.readouterr().out == f"Computed SHA256: {digest}\n"
    assert compute_plugin_sha256(tmp_path / "demo") == digest
    assert main(["verify-sha256", str(tmp_path / "nowhere")]) == 1
    assert capsys.readouterr().err == f"error: {tmp_path / 'nowhere'} is not a directory\n"
    (tmp_path / "demo" / "link").symlink_to("a.txt")
    assert main(["verify-sha256", str(tmp_path / "demo")]) == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lets a program do this")
def test_a_token_on_the_command_line_is_taken_out_of_the_process_list() -> None:
    program = (
        "import sys, pathlib; from molecule_agent.cli import title; title.hide(sys.argv[2]);"
        "print(pathlib.Path('/proc/self/cmdline').read_bytes())"
    )
    command = [sys.executable, "-c", program, "--token", "secret-token", "--agent-name=my-secret-token-bot"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    assert "--token\\x00************\\x00--agent-name=my-secret-token-bot\\x00" in done.stdout
    hidden_already = [*command[:-1], "****"]
    subprocess.run(hidden_already, capture_output=True, check=True, env=dict(os.environ), timeout=30)


@pytest.mark.parametrize("command", [["plugins"], ["doctor"], ["uninstall", "demo"]])
def test_a_directory_that_is_none_is_one_line_and_no_traceback(
    run_command: RunCommand, tokens: Path, command: list[str]
) -> None:
    tokens.write_text("a file where a directory should be")
    code, text = run_command(*command)
    assert code == 1
    assert f"{tokens}" in text
    assert "Traceback" not in text
