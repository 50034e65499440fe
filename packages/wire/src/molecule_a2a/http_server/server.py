"""HTTP server: Uvicorn on hardened connections, started and stopped by its owner instead of by signals."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Generator
from typing import Any

import uvicorn

from molecule_a2a.asgi import Application
from molecule_a2a.http_server.connection import HttpConnection
from molecule_a2a.http_server.limits import ConnectionTable, Deadlines, raise_file_limit

BACKLOG = 2048
PING_SECONDS, SILENCE_SECONDS = 20, 60
MAX_FRAME_BYTES = 64 * 1024


class PortTaken(OSError):
    """The address cannot be bound."""

    def __str__(self) -> str:
        return str(self.strerror)


def bind(host: str, port: int) -> socket.socket:
    """Bind a listening address, port 0 for any free one. Raises PortTaken."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(*found[:3])
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Uvicorn writes head and body apart: without this the second waits for an acknowledgement.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            listener.bind(found[4])
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
    except (OSError, UnicodeError, OverflowError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        text = f"cannot listen on {host}:{port}: {reason}"
        raise PortTaken(getattr(problem, "errno", None), text) from problem
    return listener


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Make the event loop of a server: uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class HttpServer(uvicorn.Server):
    """Serves one ASGI application.

    `max_connections` lowers the cap on the connections of one address or principal; addresses that
    `is_exempt` accepts have none.
    """

    server_state: ConnectionTable

    def __init__(
        self,
        app: Application,
        *,
        deadlines: Deadlines | None = None,
        max_connections: int = 0,
        is_exempt: Callable[[str], bool] = lambda address: False,
        websockets: bool = False,
    ) -> None:
        super().__init__(_config(app, websockets=websockets))
        self.server_state = ConnectionTable(
            deadlines or Deadlines(), max_connections, is_exempt, raise_file_limit()
        )
        self._listening, self._stopping = asyncio.Event(), asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    async def start(self, listener: socket.socket) -> None:
        """Serve on a bound socket; return once connections are accepted."""
        self._serving = asyncio.create_task(self.serve(sockets=[listener]))
        listening = asyncio.create_task(self._listening.wait())
        await asyncio.wait({self._serving, listening}, return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        if self._serving.done():
            await self._serving

    async def stop(self, seconds: float) -> None:
        """Accept no more connections and finish open requests within this many seconds. Idempotent."""
        serving, self._serving = self._serving, None
        if serving is None:
            return
        self.config.timeout_graceful_shutdown = seconds  # type: ignore[assignment]
        self.should_exit = True
        self._stopping.set()
        await serving

    # What Uvicorn calls

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the owner of the server."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server`."""
        await super().startup(sockets)
        self._listening.set()

    async def main_loop(self) -> None:
        """Check deadlines, and renew the date once a second, until the server stops."""
        table, loop = self.server_state, asyncio.get_running_loop()
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(table.deadlines.check_interval):
                    await self._stopping.wait()
            table.check_deadlines(loop.time())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server`. What has not ended in time is cut off."""
        await super().shutdown(sockets)
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()


def _config(app: Application, *, websockets: bool) -> uvicorn.Config:
    ws: Any = "none"
    if websockets:
        from molecule_a2a.http_server.websocket import WebSocketConnection

        ws = WebSocketConnection
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        lifespan="off",
        interface="asgi3",
        http=HttpConnection,
        ws=ws,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=SILENCE_SECONDS - PING_SECONDS,
        ws_max_size=MAX_FRAME_BYTES,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        log_config=None,
        log_level="error",
        backlog=BACKLOG,
    )
