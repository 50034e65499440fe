"""The listening socket and the web server around the house."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, Protocol, cast

import uvicorn

from molecule_platform.cli import problems
from molecule_platform.http.transport import front
from molecule_platform.http.transport.connection import Connection
from molecule_platform.http.transport.front import Front

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


class House(front.House, Protocol):
    """What is served: exchanges over HTTP, and sockets as ASGI."""

    def socket(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        """Serve one WebSocket."""
        ...


class _Connections:
    """Makes the connections of a server; Uvicorn takes it for the class of its protocols."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._front: Front | None = None

    def __call__(self, config: Any, server_state: Any, app_state: Any, _loop: Any = None) -> Connection:
        if self._front is None:
            of_sockets = partial(config.ws_protocol_class, config, server_state, app_state)
            loop = _loop or asyncio.get_running_loop()
            self._front = Front(self._house, server_state, of_sockets, loop)
        return Connection(self._front)


def config(house: House) -> uvicorn.Config:
    """How the house is served."""
    return uvicorn.Config(
        house.socket,
        lifespan="off",
        interface="asgi3",
        http=cast(type[asyncio.Protocol], _Connections(house)),
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
