"""The listening socket of an ASGI application, with the port known before anybody is told of it."""

import asyncio
import socket
import time
from email.utils import formatdate

from molecule_a2a.asgi_exchange import Application, AsgiExchange
from molecule_a2a.http_connection import HttpConnection, Timeouts

MAX_CONNECTIONS = 1024
LOOK_SECONDS = 1.0


class PortTaken(OSError):
    """Somebody else listens there."""


class Listener:
    """Serves one application at one address. `start` returns when connections are accepted."""

    loop: asyncio.AbstractEventLoop
    _app: Application

    def __init__(
        self,
        host: str,
        port: int,
        *,
        timeouts: Timeouts | None = None,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self.host = host
        self.port = port
        """The real one after `bind`."""
        self.timeouts = timeouts or Timeouts()
        self.connections: set[HttpConnection] = set()
        self.exchanges: set[AsgiExchange] = set()
        self._max_connections = max_connections
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._dated, self._date_line = 0, b""

    def bind(self) -> socket.socket:
        """Take the address. Raises PortTaken."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        opened = socket.socket(family, socket.SOCK_STREAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((self.host, self.port))
        except OSError as problem:
            opened.close()
            raise self._taken(problem) from problem
        self.port = int(opened.getsockname()[1])
        return opened

    async def start(self, opened: socket.socket, app: Application) -> None:
        """Serve an application on the socket. Raises PortTaken."""
        self._app = app
        self.loop = asyncio.get_running_loop()
        try:
            self._server = await self.loop.create_server(
                lambda: HttpConnection(self), sock=opened, backlog=1024
            )
        except OSError as problem:
            opened.close()
            raise self._taken(problem) from problem
        self._look()

    async def stop(self, seconds: float) -> None:
        """Accept nothing more, and let what is being answered go out for at most so many seconds."""
        if self._server is None:
            return
        self._server.close()
        for connection in tuple(self.connections):
            connection.shut_down()
        until = self.loop.time() + seconds
        while (self.connections or self.exchanges) and self.loop.time() < until:  # noqa: ASYNC110 - two sets
            await asyncio.sleep(0.01)
        for connection in tuple(self.connections):
            connection.transport.abort()
        for exchange in tuple(self.exchanges):
            exchange.cancel()
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.sleep(0)

    @property
    def app(self) -> Application:
        """Who answers."""
        return self._app

    @property
    def is_full(self) -> bool:
        """Whether as many connections are open as may be."""
        return len(self.connections) >= self._max_connections

    def date_line(self) -> bytes:
        """The header `date` of now."""
        now = int(time.time())
        if now != self._dated:
            self._dated, self._date_line = now, f"date: {formatdate(now, usegmt=True)}\r\n".encode()
        return self._date_line

    def _look(self) -> None:
        """End what took too long, once a second."""
        now = self.loop.time()
        for connection in [one for one in self.connections if one.deadline <= now]:
            connection.expire()
        self._timer = self.loop.call_later(LOOK_SECONDS, self._look)

    def _taken(self, problem: OSError) -> PortTaken:
        return PortTaken(f"cannot listen on {self.host}:{self.port}: {problem.strerror}")
