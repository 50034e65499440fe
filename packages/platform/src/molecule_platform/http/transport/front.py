"""What all connections of one server share: whom they serve, and how long they wait for their clients."""

import asyncio
import http
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from molecule_platform.api.exchange import Exchange
from molecule_platform.ports.log import Log
from molecule_platform.services.waits import Waits

if TYPE_CHECKING:
    from molecule_platform.http.transport.connection import Connection

# A connection that rests between two requests, that is slow to say what it wants, or that takes nothing.
REST_SECONDS = 5.0
REQUEST_SECONDS = 30.0
STALLED_SECONDS = 60.0

STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in http.HTTPStatus
}


class House(Protocol):
    """Whoever answers."""

    @property
    def log(self) -> Log:
        """Where faults are told."""
        ...

    def at_once(self, exchange: Exchange) -> bool:
        """Answer what needs no waiting, if this is such a request; else it is to be served."""
        ...

    def serve(self, exchange: Exchange) -> Awaitable[None]:
        """Answer one request."""
        ...


class ServerState(Protocol):
    """What the server around us must know to stop in good order, and the headers it adds to every answer."""

    connections: set[Any]
    tasks: set[asyncio.Task[None]]
    default_headers: list[tuple[bytes, bytes]]


class Front:
    """One per server."""

    __slots__ = (
        "_added",
        "_lines",
        "asking",
        "house",
        "log",
        "loop",
        "resting",
        "socket",
        "stalled",
        "state",
    )

    def __init__(
        self,
        house: House,
        state: ServerState,
        socket: Callable[[], asyncio.Protocol],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.house = house
        self.log = house.log
        self.state = state
        # Makes the protocol that goes on where a WebSocket is asked for.
        self.socket = socket
        self.loop = loop
        self.resting: Waits[Connection] = Waits(lambda: REST_SECONDS, _close)
        self.asking: Waits[Connection] = Waits(lambda: REQUEST_SECONDS, _close)
        self.stalled: Waits[Connection] = Waits(lambda: STALLED_SECONDS, _look_at_stalled)
        self._added: list[tuple[bytes, bytes]] = []
        self._lines = b""

    def head(self, status: int) -> bytes:
        """How an answer begins: the line of its status, and what the server adds to every one."""
        added = self.state.default_headers
        if added is not self._added:
            # The server makes a new list each second, because the date is among them.
            self._added = added
            self._lines = b"".join([b"%b: %b\r\n" % pair for pair in added])
        return STATUS_LINES[status] + self._lines


def _close(connection: "Connection") -> None:
    connection.give_up()


def _look_at_stalled(connection: "Connection") -> None:
    connection.look_whether_stalled()
