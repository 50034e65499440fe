"""A server on this machine that reads requests and answers whatever bytes a test likes, when it likes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvloop

from molecule_platform.egress import guard
from molecule_platform.egress.connector import Outbound
from molecule_platform.egress.streaming import StreamingResponse, opened

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
Say = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The two event loops differ in when they tell of an end: both are held to the same promises."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class RawServer:
    """Keeps connections until the other side or the answer ends them."""

    def __init__(self) -> None:
        self.port = 0
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.ended = asyncio.Event()
        self.answers: list[bytes | Say] = []
        self.always: bytes | Say = OK

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/a2a"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while not writer.is_closing():
                await self._one(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.ended.set()
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
        self.heads.append(head)
        self.bodies.append(await reader.readexactly(int(lines.get("content-length", "0"))))
        answer = self.answers.pop(0) if self.answers else self.always
        if isinstance(answer, bytes):
            writer.write(answer)
            await writer.drain()
        else:
            await answer(reader, writer)


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    one = RawServer()
    listening = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one.port = listening.sockets[0].getsockname()[1]
    yield one
    for writer in one.writers:
        writer.transport.abort()
    listening.close()
    await listening.wait_closed()


@pytest.fixture
async def ask(server: RawServer) -> AsyncIterator[Callable[..., StreamingResponse]]:
    """Open a request to the server: `async with ask(seconds=1) as answer`."""
    outbound = Outbound(guard.agent_policy(("loopback",)))

    def asking(url: str = "", **given: Any) -> StreamingResponse:
        options: dict[str, Any] = {"headers": {}, "data": b"{}", "seconds": 30.0, "most_bytes": 1_000_000}
        return opened(outbound, url or server.url, **{**options, **given})

    yield asking
    await outbound.close()
