"""The listening socket and the web server around the house."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable, Generator
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from molecule_platform.cli import problems

GRACE_SECONDS = 5
BACKLOG = 2048
PING_SECONDS, SILENCE_SECONDS = 20, 60
CLIENT_FRAME_MOST_BYTES = 64 * 1024


def listen(host: str, port: int) -> socket.socket:
    """Take the port now, so that a port in use is found before anything is opened. Raises a `Problem`."""
    try:
        family, kind, protocol, _name, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as problem:
        raise _no_address(host) from problem
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as problem:
        listener.close()
        raise _not_bound(host, port, problem) from problem
    return listener


def _not_bound(host: str, port: int, problem: OSError) -> problems.Problem:
    if problem.errno == errno.EADDRINUSE:
        return problems.Problem(
            f"port {port} on {host} is taken: stop what uses it or choose another with --port", "port-taken"
        )
    if problem.errno == errno.EACCES:
        return problems.Problem(
            f"port {port} is not allowed for this user: choose one above 1023 with --port", "port-refused"
        )
    return _no_address(host)


def _no_address(host: str) -> problems.Problem:
    return problems.Problem(
        f"{host} is no address of this machine: choose another with --host, such as 127.0.0.1 or 0.0.0.0",
        "host-refused",
    )


def base_url(host: str, port: int) -> str:
    """Where a person on this machine opens the platform."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(host, host)
    return f"http://{f'[{shown}]' if ':' in shown and not shown.startswith('[') else shown}:{port}"


class Server(uvicorn.Server):
    """Uvicorn without its own hands on the signals: `molecule up` decides the order of stopping."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve, and say so."""
        await super().startup(sockets)
        self._listening.set()

    async def until_listening(self) -> None:
        """Wait until requests are answered."""
        await self._listening.wait()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The fast event loop, on systems that have it."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class _OneWrite:
    """A connection that sends the head of a reply together with its body: one system call instead of two."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)

    def flush(self) -> None:
        if self._parts:
            parts, self._parts = self._parts, []
            self._transport.write(b"".join(parts))

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.flush()
        self._transport.set_protocol(protocol)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class OneWriteProtocol(HttpToolsProtocol):
    """Uvicorn's HTTP, over connections that gather what is written."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to serve a connection."""
        super().connection_made(cast(asyncio.Transport, _OneWrite(transport, self.loop)))

    def on_response_complete(self) -> None:
        """A reply is whole: out with it."""
        cast(_OneWrite, self.transport).flush()
        super().on_response_complete()


def config(asgi: Callable[..., Any]) -> uvicorn.Config:
    """How the house is served."""
    return uvicorn.Config(
        asgi,
        lifespan="off",
        interface="asgi3",
        http=OneWriteProtocol,
        ws="websockets-sansio",
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=SILENCE_SECONDS - PING_SECONDS,
        ws_max_size=CLIENT_FRAME_MOST_BYTES,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        log_config=None,
        log_level="error",
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
