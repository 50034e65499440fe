"""A test server on a thread of its own, or on the main one."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from typing import Any, TypeAlias

import uvicorn

START_SECONDS = 30.0
STOP_SECONDS = 30.0

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class _Announcing(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


@contextlib.contextmanager
def serving(app: App, port: int = 0) -> Generator[str]:
    """Serve on a loopback port, any free one by default; yields the URL of the server."""
    listener = socket.create_server(("127.0.0.1", port), backlog=2048)
    # Head and body go out in two writes; without this the second waits until the first is acknowledged.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server = _Announcing(_config(app))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    try:
        if not server.listening.wait(START_SECONDS):
            raise TimeoutError("the test server did not start")
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(STOP_SECONDS)
        listener.close()


def serve(app: App, port: int) -> None:
    """Serve on a loopback port until the process is told to end."""
    config = _config(app)
    config.port = port
    uvicorn.Server(config).run()


def _config(app: App) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        interface="asgi3",
        lifespan="off",
        access_log=False,
        log_level="error",
        timeout_graceful_shutdown=1,
    )


async def body_of(receive: Receive, most: int = 64 * 1024 * 1024) -> bytes:
    """The whole body of a request."""
    body = b""
    more = True
    while more and len(body) <= most:
        part = await receive()
        body += part.get("body", b"")
        more = part.get("more_body", False)
    return body


async def answer(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    """A whole response; JSON unless the headers say otherwise."""
    named = headers if any(name == b"content-type" for name, _ in headers) else (JSON_TYPE, *headers)
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*named, length]})
    await send({"type": "http.response.body", "body": body})


JSON_TYPE = (b"content-type", b"application/json")
