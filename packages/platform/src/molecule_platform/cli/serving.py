"""The listening socket and the web server around the house."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable, Generator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

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


class _Reply:
    """Sends a reply that is whole in one piece: head and body in one write, where Uvicorn makes two."""

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._head: Any = None

    async def send(self, message: Any) -> None:
        """See ASGI. What is not the plain case is left to Uvicorn."""
        cycle, head = self._cycle, self._head
        if head is None:
            if cycle.response_started or cycle.scope["method"] == "HEAD" or not cycle.keep_alive:
                await cycle.send(message)
            else:
                self._head = message
            return
        self._head = None
        if message.get("more_body") or cycle.flow.write_paused or cycle.disconnected:
            await cycle.send(head)
            await cycle.send(message)
            return
        self._write(head, message.get("body", b""))

    def _write(self, head: Any, body: bytes) -> None:
        cycle = self._cycle
        headers = [*cycle.default_headers, *head["headers"]]
        lines = b"\r\n".join([b": ".join(pair) for pair in headers])
        if lines.count(b"\n") != len(headers) - 1:
            raise RuntimeError("a header has a line break in it")
        cycle.transport.write(b"".join((STATUS_LINE[head["status"]], lines, b"\r\n\r\n", body)))
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        cycle.on_response()


class OneWriteProtocol(HttpToolsProtocol):
    """Uvicorn's HTTP, with whole replies sent in one piece."""

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        def answer(scope: Any, receive: Any, _send: Any) -> Any:
            return app(scope, receive, _Reply(cycle).send)

        super()._start_asgi_task(cycle, answer)


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
