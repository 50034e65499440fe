"""How much memory of the platform one open stream takes that is relayed from an agent."""

import asyncio
import time

from benchmarks import figure, gateway, processes

STREAMS = 5_000
WARM = 100
AT_ONCE = 64
WORKSPACES = 20
SENDERS = 10
"""One principal may open an eighth of all files."""
CAPACITY = 500
FILES_EACH = 2
SPARE_FILES = 500
SETTLE_SECONDS = 2.0
LONGEST_SECONDS = 50.0
MOST_KB = 30.0


def measure() -> figure.Figure:
    """The growth of resident memory between a few open streams and thousands of them, for each."""
    files = processes.raise_file_limit()
    streams = min(STREAMS, (files - SPARE_FILES) // FILES_EACH - WARM)
    with gateway.running(WORKSPACES, CAPACITY, SENDERS) as ours:
        began = time.perf_counter()
        each, opened = asyncio.run(_growth(ours, streams))
        took = time.perf_counter() - began
    limits = f"{opened} streams at {WORKSPACES} agents in {took:.0f} s, SQLite, {files} files allowed"
    assert opened == STREAMS, f"only {opened} of {STREAMS} streams: {limits}"
    return figure.Figure("memory of a proxied stream", each / 1024, "KB", figure.Ceiling(MOST_KB), limits)


async def _growth(ours: gateway.Gateway, streams: int) -> tuple[float, int]:
    held: list[asyncio.StreamWriter] = []
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            await _open(ours, WARM, held)
            before = await _settled(ours.platform.pid)
            await _open(ours, streams, held)
            after = await _settled(ours.platform.pid)
        assert not any(writer.is_closing() for writer in held), "a stream was closed"
        return (after - before) / streams, len(held) - WARM
    finally:
        for writer in held:
            writer.transport.abort()


async def _open(ours: gateway.Gateway, count: int, held: list[asyncio.StreamWriter]) -> None:
    """Open streams, some at once, each until its first event has come."""
    at_once = asyncio.Semaphore(AT_ONCE)
    body = gateway.message("hold", "SendStreamingMessage")

    async def one(number: int) -> None:
        async with at_once:
            reader, writer = await asyncio.open_connection("127.0.0.1", ours.platform.port)
            held.append(writer)
            door = gateway.door_of(ours.workspaces[number % WORKSPACES])
            sender = ours.senders[number // WORKSPACES % SENDERS]
            writer.write(gateway.post(door, body(number), sender))
            said = await reader.readuntil(b"data: ")
            assert said.startswith(b"HTTP/1.1 200"), said

    await asyncio.gather(*(one(number) for number in range(count)))


async def _settled(pid: int) -> int:
    """The memory once nothing is under way any more."""
    await asyncio.sleep(SETTLE_SECONDS)
    return processes.resident_bytes(pid)


if __name__ == "__main__":
    print(figure.table([measure()]))
