"""HTTP server in the process of a test, with an application whose paths are the ways of answering."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from molecule_a2a import HttpServer, asgi, bind

SECONDS = 30.0
PLAIN = [(b"content-type", b"text/plain")]
CLOSE = b"Connection: close"
MAX_BODY_BYTES = 100_000
LARGE_BYTES = 3 * 1024 * 1024
UPGRADE = (
    b"Connection: Upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


class Answers:
    """ASGI application that answers by path; every other path is echoed."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.requests: list[str] = []
        self.left, self.closed = asyncio.Event(), asyncio.Event()
        self.chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.principals: list[bool] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scope, self.receive, self.send = scope, receive, send
        if scope["type"] == "websocket":
            return await self._websocket(scope, receive, send)
        self.requests.append(f"{scope['method']} {scope['path']}")
        handler = getattr(self, "_" + scope["path"].strip("/").replace("-", "_"), self._echo)
        return await handler(scope, receive, send)

    async def _websocket(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        if scope["path"] == "/slow":
            await self.left.wait()
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            """Keep it open."""

    async def _echo(self, scope: Any, receive: Any, send: Any) -> None:
        text = f"{scope['method']} {scope['raw_path'].decode()}?{scope['query_string'].decode()}"
        await asgi.send_response(send, 200, PLAIN, text.encode())

    async def _headers(self, scope: Any, receive: Any, send: Any) -> None:
        await asgi.read_body(receive, MAX_BODY_BYTES)
        await asgi.send_response(send, 200, PLAIN, repr(sorted(scope["headers"])).encode())

    async def _body(self, scope: Any, receive: Any, send: Any) -> None:
        body = await asgi.read_body(receive, MAX_BODY_BYTES)
        if body is None:
            return await asgi.send_response(send, 413, PLAIN, b"too large")
        return await asgi.send_response(send, 200, PLAIN, b"%d bytes %b" % (len(body), body[:10]))

    async def _late(self, scope: Any, receive: Any, send: Any) -> None:
        body = await asgi.read_body(receive, MAX_BODY_BYTES)
        assert body is not None
        await asyncio.sleep(float(scope["query_string"]))
        await asgi.send_response(send, 200, PLAIN, b"%d bytes" % len(body))

    async def _unread(self, scope: Any, receive: Any, send: Any) -> None:
        await asgi.send_response(send, 200, PLAIN, b"not read")

    async def _slow(self, scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.05)
        await asgi.send_response(send, 200, PLAIN, b"slow")

    async def _large(self, scope: Any, receive: Any, send: Any) -> None:
        await asgi.send_response(send, 200, PLAIN, b"l" * LARGE_BYTES)

    async def _empty(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def _bug(self, scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("a mistake of the application")

    async def _silence(self, scope: Any, receive: Any, send: Any) -> None:
        return

    async def _identify(self, scope: Any, receive: Any, send: Any) -> None:
        is_counted = asgi.count_connection(scope, scope["query_string"].decode())
        await asgi.send_response(send, 200 if is_counted else 429, PLAIN, b"")

    async def _pieces(self, scope: Any, receive: Any, send: Any) -> None:
        async def chunks() -> AsyncGenerator[bytes]:
            for chunk in (b"one", b"", b"two"):
                yield chunk

        await asgi.send_stream(receive, send, 200, PLAIN, chunks())

    async def _endless(self, scope: Any, receive: Any, send: Any) -> None:
        async def chunks() -> AsyncGenerator[bytes]:
            try:
                while True:
                    yield b"x" * 65536
                    await asyncio.sleep(0)
            finally:
                self.closed.set()

        await asgi.send_stream(receive, send, 200, PLAIN, chunks())

    async def _follow(self, scope: Any, receive: Any, send: Any) -> None:
        async def chunks() -> AsyncGenerator[bytes]:
            try:
                while (chunk := await self.chunks.get()) is not None:
                    yield chunk
            finally:
                self.closed.set()

        await asgi.send_stream(receive, send, 200, PLAIN, chunks())

    async def _hold(self, scope: Any, receive: Any, send: Any) -> None:
        await asgi.wait_for_disconnect(receive)
        self.left.set()


class Running:
    """A server and its client."""

    def __init__(self, app: Any, server: HttpServer, port: int) -> None:
        self.app, self.server, self.port = app, server, port
        self.writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        return reader, writer

    async def close(self) -> None:
        for writer in self.writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        self.writers.clear()

    async def exchange(self, *pieces: bytes) -> bytes:
        """Send the pieces one by one; return all that comes back until the server closes."""
        reader, writer = await self.connect()
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.002 if len(pieces) > 1 else 0)
        received = b""
        async with asyncio.timeout(SECONDS):
            with contextlib.suppress(ConnectionError):
                while chunk := await reader.read(65536):
                    received += chunk
        writer.close()
        return received


@contextlib.asynccontextmanager
async def serve(app: Any = None, **options: Any) -> AsyncGenerator[Running]:
    """Serve an application on a free port."""
    app = Answers() if app is None else app
    listener = bind("127.0.0.1", 0)
    server = HttpServer(app, **options)
    await server.start(listener)
    running = Running(app, server, listener.getsockname()[1])
    try:
        yield running
    finally:
        await running.close()
        await server.stop(1.0)


def get(path: str, *headers: bytes, method: str = "GET", version: str = "1.1") -> bytes:
    lines = [f"{method} {path} HTTP/{version}".encode(), b"Host: x", *headers, b"", b""]
    return b"\r\n".join(lines)


def post(path: str, body: bytes, *headers: bytes) -> bytes:
    return get(path, b"Content-Length: %d" % len(body), *headers, method="POST") + body


def statuses(received: bytes) -> list[int]:
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]
