"""Server processes of a benchmark, and what they cost."""

import http.client
import resource
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from molecule_platform.testing import servers
from scripts import live_platform

START_SECONDS = 20.0


@dataclass(frozen=True)
class Server:
    """A process that listens on a port of loopback."""

    port: int
    pid: int


@contextmanager
def running(module: str, *wishes: str) -> Generator[Server]:
    """`python -m MODULE PORT WISHES`, once it listens; ended afterwards. What it prints is thrown away."""
    port = servers.free_port()
    environment = live_platform.clean_environment() | {"OTEL_INSTRUMENTATION_A2A_SDK_ENABLED": "false"}
    command = [sys.executable, "-m", module, str(port), *wishes]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        _until_open(port)
        yield Server(port, process.pid)
    finally:
        process.kill()
        process.wait()


def _until_open(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            http.client.HTTPConnection("127.0.0.1", port, timeout=1).connect()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise TimeoutError(f"nothing listens on {port}")


def cpu_seconds(pid: int) -> float:
    """User and system time of the process so far, to the nanosecond: its own clock, as Linux names it."""
    return time.clock_gettime((~pid << 3) | 2)


def resident_bytes(pid: int) -> int:
    """The memory of the process that is in RAM."""
    return psutil.Process(pid).memory_info().rss


def raise_file_limit() -> int:
    """As many open files as this machine lets us and our children have; how many that is."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
