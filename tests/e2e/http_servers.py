"""The three HTTP servers, platform, runtime and skill server, as processes with short deadlines."""

import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import requests

from molecule_platform.testing import servers
from tests.e2e import workspaces
from tests.e2e.platform_process import PlatformProcess

# Seconds for a head, between pieces of a body, for a body, idle, for a reader that stalls, and to linger.
SHORT_DEADLINES = """
from molecule_a2a.http_server.limits import Deadlines
Deadlines.__init__.__defaults__ = (1.0, 1.0, 2.0, 1.0, 2.0, 0.5)
"""
START_SECONDS = 30.0
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Target:
    """A server, and a path of it that answers 200 to everyone."""

    name: str
    port: int
    health: str
    pid: int = 0


@contextmanager
def short_platform(folder: Path, **environment: str) -> Generator[PlatformProcess]:
    """A platform with short deadlines."""
    process = PlatformProcess(servers.free_port(), folder / "data", preamble=SHORT_DEADLINES)
    process.environment |= {"MOLECULE_ALLOW_PRIVATE_URLS": "loopback", **environment}
    process.start()
    try:
        yield process
    finally:
        process.stop()


@contextmanager
def all_targets(folder: Path) -> Generator[list[Target]]:
    """All three servers."""
    with (
        short_platform(folder) as platform,
        _runtime(platform, folder) as runtime,
        skill_server(SHORT_DEADLINES) as skill,
    ):
        yield [Target("platform", platform.port, "/health"), runtime, skill]


@contextmanager
def _runtime(platform: PlatformProcess, folder: Path) -> Generator[Target]:
    member = workspaces.Member(platform, folder / "echo")
    member.preamble = SHORT_DEADLINES
    try:
        member.start()
        yield Target("runtime", urlsplit(member.url).port or 0, "/healthz")
    finally:
        member.close()


@contextmanager
def skill_server(preamble: str = "") -> Generator[Target]:
    """A skill server with the agent of the benchmarks."""
    port = servers.free_port()
    program = f"{preamble}\nfrom benchmarks import skill_server; skill_server.main({port}, 'memory')"
    process = subprocess.Popen([sys.executable, "-c", program], env=dict(os.environ), cwd=_ROOT)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _answers(port):
            assert time.monotonic() < deadline, "the skill server did not start"
            time.sleep(0.05)
        yield Target("skill server", port, "/healthz", process.pid)
    finally:
        process.terminate()
        process.wait(30)


def _answers(port: int) -> bool:
    try:
        return requests.get(f"http://127.0.0.1:{port}/healthz", timeout=5).ok
    except requests.ConnectionError:
        return False
