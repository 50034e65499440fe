"""Replaying 10,000 events: how soon the first one arrives, and what twenty replays at once cost in memory.

The platform is a process of its own, and its clients read raw sockets. For the memory they stop reading after
the first event and go on when all have begun: a server that does not wait for its clients would then hold the
log twenty times.
"""

import asyncio
import contextlib
import socket
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import figure
from molecule_platform.domain.events import Event
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.people import Org
from molecule_platform.ports.storage import Transaction
from molecule_platform.storage.sqlite import SqliteStorage
from molecule_wire import ids
from scripts import live_platform
from scripts.live_platform import LivePlatform

EVENTS = 10_000
PAYLOAD_BYTES = 1024
ROUNDS = 20
READERS = 20
PATIENCE_SECONDS = 60.0
NOW = datetime.now(UTC)
ORG = Org(ids.uuid7(), "default", "Default organisation", NOW)
TARGET = Workspace(str(uuid.uuid4()), ORG.id, "target", NOW, NOW)


def first_byte() -> figure.Figure:
    """The median time from the request to the first event, over `ROUNDS` replays."""
    with _platform() as platform:
        seconds = [_replay(platform) for _ in range(ROUNDS + 1)][1:]
    first, whole = (statistics.median(times) for times in zip(*seconds, strict=True))
    limits = f"median of {ROUNDS}, SQLite, SSE, {PAYLOAD_BYTES} bytes each, the whole in {whole:.2f} s"
    return figure.Figure(f"first byte of {EVENTS:,} events", first * 1000, "ms", figure.Ceiling(50), limits)


def memory() -> figure.Figure:
    """How far the server grows while `READERS` replays wait for their clients and then run."""
    with _platform() as platform:
        _replay(platform)
        before = _resident(platform, "VmRSS")
        _forget_peak(platform)
        _replay_together(platform)
        grown = (_resident(platform, "VmHWM") - before) / 1024
    log = EVENTS * PAYLOAD_BYTES * READERS / 1024 / 1024
    limits = f"{READERS} replays at once, clients that stall, {log:.0f} MB to send"
    return figure.Figure(f"memory of replaying {EVENTS:,} events", grown, "MB", figure.Ceiling(32), limits)


@contextlib.contextmanager
def _platform() -> Generator[LivePlatform]:
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder) / "data"
        data_dir.mkdir()
        asyncio.run(_fill(data_dir / "molecule.db"))
        with live_platform.running(data_dir, "--no-demo") as platform:
            yield platform


async def _fill(path: Path) -> None:
    def ring(_subjects: Sequence[str]) -> None:
        return

    storage = await SqliteStorage.open(path, ring)
    try:
        await storage.write(_furnish)
    finally:
        await storage.close()


def _furnish(tx: Transaction) -> None:
    tx.people.insert_org(ORG)
    tx.workspaces.insert(TARGET)
    payload = {"name": "x" * PAYLOAD_BYTES}
    for _ in range(EVENTS):
        tx.events.append(Event("WORKSPACE_UPDATED", ORG.id, TARGET.id, payload, NOW))


class _Reader:
    """One replay from the beginning, read as far as is asked for."""

    def __init__(self, platform: LivePlatform) -> None:
        self.began = time.perf_counter()
        self._socket = socket.create_connection(("127.0.0.1", platform.port), PATIENCE_SECONDS)
        request = (
            "GET /events/stream?since=0&types=WORKSPACE_UPDATED HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {platform.admin_token()}\r\n\r\n"
        )
        self._socket.sendall(request.encode())
        self._tail = b""
        self.seen = 0

    def read_until(self, holds: Callable[[], bool]) -> float:
        """The seconds since the request when it holds."""
        while not holds():
            received = self._socket.recv(65536)
            if not received:
                raise RuntimeError(f"the stream ended after {self.seen} events")
            # The mark may be cut in two by the end of a read.
            text = self._tail + received
            self.seen += text.count(b"\ndata: ")
            self._tail = text[-len(b"\ndata: ") + 1 :]
        return time.perf_counter() - self.began

    def close(self) -> None:
        self._socket.close()


def _replay(platform: LivePlatform) -> tuple[float, float]:
    with contextlib.closing(_Reader(platform)) as reader:
        first = reader.read_until(lambda: reader.seen > 0)
        return first, reader.read_until(lambda: reader.seen >= EVENTS)


def _replay_together(platform: LivePlatform) -> None:
    with contextlib.ExitStack() as exits:
        readers = [exits.enter_context(contextlib.closing(_Reader(platform))) for _ in range(READERS)]
        for reader in readers:
            reader.read_until(lambda reader=reader: reader.seen > 0)
        for reader in readers:
            reader.read_until(lambda reader=reader: reader.seen >= EVENTS)


def _resident(platform: LivePlatform, name: str) -> int:
    """A figure of the process in KiB, as Linux keeps it."""
    lines = Path(f"/proc/{platform.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def _forget_peak(platform: LivePlatform) -> None:
    Path(f"/proc/{platform.pid}/clear_refs").write_text("5")


if __name__ == "__main__":
    print(figure.table([first_byte(), memory()]))
