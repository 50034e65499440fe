"""How long a workspace with the engine `echo` takes until it is online, and how much memory it holds."""

import functools
import http.client
import json
import statistics
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from benchmarks import echo_workspace, figure, turns
from scripts import live_platform

RUNS = 5
MANY, AT_ONCE = 50, 4
ONLINE_SECONDS = 60.0
SETTLE_SECONDS = 2.0
MOST_SECONDS, MOST_MB = 3.0, 60.0


class _Memory(NamedTuple):
    """Bytes of a process that are in RAM: as its share (PSS), and with all that it shares (RSS)."""

    pss: float
    rss: float

    def __str__(self) -> str:
        return f"PSS {self.pss / 1e6:.0f} MB, RSS {self.rss / 1e6:.0f} MB"


class _Measured(NamedTuple):
    seconds: float
    alone: _Memory
    among_many: _Memory
    platform: _Memory


def online() -> figure.Figure:
    """The median start, one at a time."""
    limits = f"median of {RUNS}, from the start of the process to `online` at the platform, warm bytecode"
    line = figure.Ceiling(MOST_SECONDS)
    return figure.Figure("echo workspace online", _measured().seconds, "s", line, limits)


def memory() -> figure.Figure:
    """Resident memory of one workspace that is idle; the figure is the RSS."""
    measured = _measured()
    limits = (
        f"one: {measured.alone}; of {MANY} each: {measured.among_many}; "
        f"their platform: {measured.platform}; idle, SQLite"
    )
    line = figure.Ceiling(MOST_MB)
    return figure.Figure("memory of an echo workspace", measured.alone.rss / 1e6, "MB", line, limits)


@functools.cache
def _measured() -> _Measured:
    settings = {"RATE_LIMIT": "0", "RATE_LIMIT_ANON": "0"}
    with (
        tempfile.TemporaryDirectory() as folder,
        live_platform.running(Path(folder) / "data", "--no-demo", **settings) as platform,
    ):
        organisation = _Organisation(platform, Path(folder))
        with organisation.workspace("warm"):
            pass
        seconds: list[float] = []
        for number in range(RUNS):
            with organisation.workspace(f"one-{number}") as started:
                seconds.append(started.seconds)
        with organisation.workspace("alone") as started:
            time.sleep(SETTLE_SECONDS)
            alone = _memory_of(started.pid)
        with ExitStack() as running:
            pids = organisation.crowd(running)
            time.sleep(SETTLE_SECONDS)
            each = [_memory_of(pid) for pid in pids]
            theirs = _memory_of(platform.pid)
        many = _Memory(*(statistics.mean(values) for values in zip(*each, strict=True)))
        return _Measured(statistics.median(seconds), alone, many, theirs)


class _Started(NamedTuple):
    pid: int
    seconds: float


class _Organisation:
    """Workspaces of one platform."""

    def __init__(self, platform: live_platform.LivePlatform, folder: Path) -> None:
        self._platform = platform
        self._folder = folder
        self._token = platform.admin_token()

    @contextmanager
    def workspace(self, name: str) -> Generator[_Started]:
        """One that is online, and how long that took."""
        workspace_id, token = self._joined(name)
        began = time.perf_counter()
        with echo_workspace.running(self._folder / name, self._platform.url, workspace_id, token) as process:
            self._until_online(workspace_id)
            yield _Started(process.pid, time.perf_counter() - began)

    def crowd(self, running: ExitStack) -> list[int]:
        """Many at once, started a few at a time."""
        pids: list[int] = []
        for first in range(0, MANY, AT_ONCE):
            names = [f"many-{number}" for number in range(first, min(first + AT_ONCE, MANY))]
            joined = [self._joined(name) for name in names]
            for name, (workspace_id, token) in zip(names, joined, strict=True):
                place = self._folder / name
                process = running.enter_context(
                    echo_workspace.running(place, self._platform.url, workspace_id, token)
                )
                pids.append(process.pid)
            for workspace_id, _ in joined:
                self._until_online(workspace_id)
        return pids

    def _joined(self, name: str) -> tuple[str, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self._platform.port, timeout=30)
        made = turns.post(connection, "/workspaces", {"name": name, "runtime": "external"}, self._token)
        connection.close()
        return made["id"], made["connection"]["auth_token"]

    def _until_online(self, workspace_id: str) -> None:
        deadline = time.monotonic() + ONLINE_SECONDS
        connection = http.client.HTTPConnection("127.0.0.1", self._platform.port, timeout=30)
        while time.monotonic() < deadline:
            connection.request(
                "GET", f"/workspaces/{workspace_id}", headers={"Authorization": f"Bearer {self._token}"}
            )
            row: dict[str, Any] = json.loads(connection.getresponse().read())
            if row["status"] == "online":
                connection.close()
                return
            time.sleep(0.01)
        raise TimeoutError(f"workspace {workspace_id} is not online")


def _memory_of(pid: int) -> _Memory:
    told = psutil.Process(pid).memory_full_info()
    return _Memory(told.pss, told.rss)


if __name__ == "__main__":
    print(figure.table([online(), memory()]))
