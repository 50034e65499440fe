"""The program of the README joins as it is written, and a person at the terminal sees what happens to it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from molecule_platform.testing import servers
from scripts import live_platform, repository, samples
from tests.e2e.cable import Cable
from tests.e2e.platform_process import PlatformProcess
from tests.e2e.terminal import Terminal

PAGE = "README.md"
JOINED = "connected as hello, waiting"


def the_program() -> str:
    """As the README shows it."""
    shown = samples.find(PAGE, (repository.ROOT / PAGE).read_text())
    return next(sample.text for sample in shown if "agent.run(" in sample.text)


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[PlatformProcess]:
    process = PlatformProcess(servers.free_port(), tmp_path / "data")
    process.start()
    yield process
    process.stop()


@pytest.fixture
def cable(platform: PlatformProcess) -> Iterator[Cable]:
    cable = Cable(servers.free_port(), platform.port)
    yield cable
    cable.cut()


@pytest.fixture
def terminal(platform: PlatformProcess, cable: Cable, tmp_path: Path) -> Iterator[Terminal]:
    """What somebody types who follows the README, on a machine behind a cable."""
    target = ["--url", platform.url, "--data-dir", str(platform.data_dir)]
    environment = live_platform.clean_environment() | {"HOME": str(tmp_path)}
    create = ["molecule", "workspace", "create", "hello", "--json", *target]
    made = subprocess.run(create, env=environment, capture_output=True, text=True, check=True).stdout
    answer: Any = json.loads(made)
    answer["connection"]["platform_url"] = f"http://127.0.0.1:{cable.port}"
    (tmp_path / "hello.json").write_text(json.dumps(answer))
    (tmp_path / "hello.json").chmod(0o600)
    (tmp_path / "hello.py").write_text(the_program())
    cable.mend()
    terminal = Terminal([sys.executable, "hello.py"], tmp_path, environment)
    yield terminal
    terminal.close()


def ask(platform: PlatformProcess, words: str) -> str:
    body = {"method": "message/send", "params": {"message": {"parts": [{"kind": "text", "text": words}]}}}
    [workspace] = platform.ok("GET", "/workspaces")
    path = f"/workspaces/{workspace['id']}/a2a"
    sent = platform.ok("POST", path, json=body, headers={"Prefer": "respond-async"})
    row = platform.ok("GET", f"/messages/{sent['message_id']}?wait=30")
    assert row["status"] == "answered", row
    return row["result"]["status"]["message"]["parts"][0]["text"]


@pytest.mark.slow  # the platform is started twice, and the network is away for a while
def test_it_joins_answers_survives_a_restart_and_a_lost_network_and_ends_on_ctrl_c(
    platform: PlatformProcess, cable: Cable, terminal: Terminal
) -> None:
    terminal.until(JOINED)
    assert ask(platform, "hi") == "you said: hi"
    platform.kill()
    terminal.until("lost http://127.0.0.1")
    platform.start()
    terminal.until("connected to http://127.0.0.1")
    assert ask(platform, "again") == "you said: again"
    cable.cut()
    terminal.until("lost http://127.0.0.1", 2)
    cable.mend()
    terminal.until("connected to http://127.0.0.1", 2)
    assert ask(platform, "still there?") == "you said: still there?"
    assert terminal.press_ctrl_c() == 0
    address = f"http://127.0.0.1:{cable.port}"
    gone, back = f"lost {address}, trying again", f"connected to {address} again"
    shown = terminal.shown.replace("^C", "").replace("\r", "").splitlines()
    assert [line for line in shown if line] == [JOINED, gone, back, gone, back]


def test_what_workspace_create_prints_is_enough_to_join(platform: PlatformProcess, tmp_path: Path) -> None:
    target = ["--url", platform.url, "--data-dir", str(platform.data_dir)]
    environment = live_platform.clean_environment() | {"HOME": str(tmp_path), "COLUMNS": "80"}
    create = ["molecule", "workspace", "create", "hello", *target]
    printed = subprocess.run(create, env=environment, capture_output=True, text=True, check=True).stdout
    connection = printed[printed.index("{") : printed.index("}") + 1]
    program = printed[printed.index("from molecule_agent") :]
    assert program.strip() == the_program().strip()
    (tmp_path / "hello.json").write_text(connection)
    (tmp_path / "hello.json").chmod(0o600)
    (tmp_path / "hello.py").write_text(program)
    terminal = Terminal([sys.executable, "hello.py"], tmp_path, environment | {"PATH": os.environ["PATH"]})
    try:
        terminal.until(JOINED)
        assert ask(platform, "hi") == "you said: hi"
        assert terminal.press_ctrl_c() == 0
        assert "Traceback" not in terminal.shown
    finally:
        terminal.close()
