"""What an agent costs that waits: its share of a CPU while no message comes, and while nobody answers."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import requests

from benchmarks import figure, processes
from molecule_platform.testing import servers
from scripts import live_platform

SETTLE_SECONDS = 2.0
WATCH_SECONDS = 10.0
MOST_PERCENT = 1.0
HANDLER = "def answer(message, client):\n    return message.text\n"


def waiting() -> figure.Figure:
    """Connected, with an empty inbox."""
    with tempfile.TemporaryDirectory() as folder, _platform(Path(folder)) as (url, workspace_id):
        return _figure("an idle agent, of one CPU", url, workspace_id, Path(folder))


def abandoned() -> figure.Figure:
    """Connected to a port at which nothing listens."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"http://127.0.0.1:{servers.free_port()}"
        return _figure("an agent whose platform is away, of one CPU", url, "w1", Path(folder))


@contextmanager
def _platform(folder: Path) -> Generator[tuple[str, str]]:
    with live_platform.running(folder / "data", "--no-demo") as platform:
        headers = {"Authorization": f"Bearer {platform.admin_token()}"}
        body = {"name": "idle", "runtime": "external"}
        made = requests.post(f"{platform.url}/workspaces", json=body, headers=headers, timeout=30).json()
        (folder / "token").write_text(made["connection"]["auth_token"])
        yield platform.url, made["id"]


def _figure(name: str, url: str, workspace_id: str, folder: Path) -> figure.Figure:
    with _agent(url, workspace_id, folder) as pid:
        time.sleep(SETTLE_SECONDS)
        before = processes.cpu_seconds(pid)
        time.sleep(WATCH_SECONDS)
        percent = (processes.cpu_seconds(pid) - before) / WATCH_SECONDS * 100
    limits = f"`connect` with its defaults, watched for {WATCH_SECONDS:g} s"
    return figure.Figure(name, percent, "%", figure.Ceiling(MOST_PERCENT), limits)


@contextmanager
def _agent(url: str, workspace_id: str, folder: Path) -> Generator[int]:
    (folder / "my_agent.py").write_text(HANDLER)
    token = folder / "token"
    environment = live_platform.clean_environment() | {
        "MOLECULE_PLATFORM_URL": url,
        "MOLECULE_WORKSPACE_ID": workspace_id,
        "MOLECULE_HANDLER": "my_agent:answer",
        "MOLECULE_TOKEN_DIR": str(folder / "home"),
        "MOLECULE_WORKSPACE_TOKEN": token.read_text() if token.exists() else "of-nobody",
    }
    command = [sys.executable, "-m", "molecule_agent", "connect"]
    quiet = subprocess.DEVNULL
    agent = subprocess.Popen(command, cwd=folder, env=environment, stdout=quiet, stderr=quiet)
    try:
        yield agent.pid
        assert agent.poll() is None, "the agent ended"
    finally:
        agent.terminate()
        agent.wait(10)


if __name__ == "__main__":
    print(figure.table([waiting(), abandoned()]))
