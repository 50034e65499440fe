"""A load generator that costs little itself: raw connections, requests made beforehand, answers counted."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import uvloop

LONGEST_SECONDS = 60.0
CHUNKED_END = b"\r\n0\r\n\r\n"


@dataclass(frozen=True)
class Done:
    """What came of a load: wall time, and how many frames of streams were in the answers."""

    seconds: float
    requests: int
    frames: int


@dataclass
class _Work:
    """What is left to ask, shared by all connections."""

    request: Callable[[int], bytes]
    left: int
    frames: int = 0

    def next(self) -> bytes | None:
        if self.left == 0:
            return None
        self.left -= 1
        return self.request(self.left)


class _Connection(asyncio.Protocol):
    """Asks, reads a whole answer, asks again; `ended` when nothing is left to ask."""

    def __init__(self, work: _Work) -> None:
        self._work = work
        self._received = bytearray()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not _is_whole(self._received):
            return
        if not self._received.startswith(b"HTTP/1.1 200"):
            self._fail(AssertionError(bytes(self._received[:2000])))
            return
        self._work.frames += self._received.count(b"data: ")
        self._received.clear()
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionResetError("the server closed the connection"))

    def _ask(self) -> None:
        request = self._work.next()
        if request is not None:
            self._transport.write(request)
        elif not self.ended.done():
            self.ended.set_result(None)
            self._transport.close()

    def _fail(self, problem: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(problem)
            self._transport.close()


def _is_whole(received: bytearray) -> bool:
    head_end = received.find(b"\r\n\r\n")
    if head_end < 0:
        return False
    head = received[:head_end].lower()
    length_at = head.find(b"content-length: ")
    if length_at < 0:
        return received.endswith(CHUNKED_END)
    length = int(head[length_at + 16 :].split(b"\r\n", 1)[0])
    return len(received) - head_end - 4 >= length


def run(port: int, request: Callable[[int], bytes], requests: int, connections: int) -> Done:
    """Ask `requests` times over that many connections; every answer must be a 200."""
    return uvloop.run(_run(port, request, requests, connections))


async def _run(port: int, request: Callable[[int], bytes], requests: int, connections: int) -> Done:
    work = _Work(request, requests)
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    opened = [
        await loop.create_connection(lambda: _Connection(work), "127.0.0.1", port) for _ in range(connections)
    ]
    async with asyncio.timeout(LONGEST_SECONDS):
        await asyncio.gather(*(protocol.ended for _, protocol in opened))
    return Done(time.perf_counter() - began, requests, work.frames)


def post(path: str, body: bytes, **headers: str) -> bytes:
    """A POST of JSON as it goes over the wire; underscores in the names of headers stand for dashes."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body
