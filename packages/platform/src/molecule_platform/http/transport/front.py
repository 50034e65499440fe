"""What all connections of one server share: whom they serve, and how long they wait for their clients."""

import asyncio
import http
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from molecule_platform.api.arrival import Edge
from molecule_platform.api.exchange import Exchange
from molecule_platform.ports.log import Log
from molecule_platform.services.waits import Waits

if TYPE_CHECKING:
    from molecule_platform.http.transport.connection import Connection

# A connection that rests between two requests, that is slow to say what it wants, or that takes nothing.
REST_SECONDS = 5.0
REQUEST_SECONDS = 30.0
# All of a body, however large it is.
UPLOAD_SECONDS = 300.0
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

    @property
    def edge(self) -> Edge:
        """What the operator says about the outer wall."""
        ...

    def serve(self, exchange: Exchange) -> Awaitable[None]:
        """Answer one request."""
        ...


class ServerState(Protocol):
    """What the server around us must know to stop in good order, and the headers it adds to every answer."""

    connections: set[Any]
    tasks: set[asyncio.Task[None]]
    default_headers: list[tuple[bytes, bytes]]


class AddressCounts:
    """How many connections each address has; a trusted proxy stands for many clients, and has no cap."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._maximum = edge.max_connections
        self.sentence = f"Your address has {edge.max_connections} connections: close some first."
        self._counts: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """One more; whether it may stay. Each one leaves again, also one that may not."""
        self._counts[address] += 1
        within = self._counts[address] <= self._maximum or not self._maximum or not address
        return within or self._edge.is_proxy(address)

    def leave(self, address: str) -> None:
        """One less."""
        self._counts[address] -= 1
        if self._counts[address] <= 0:
            del self._counts[address]


class Front:
    """One per server."""

    __slots__ = (
        "_added",
        "_lines",
        "addresses",
        "asking",
        "house",
        "log",
        "loop",
        "resting",
        "socket",
        "stalled",
        "state",
        "uploading",
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
        self.uploading: Waits[Connection] = Waits(lambda: UPLOAD_SECONDS, _close)
        self.addresses = AddressCounts(house.edge)
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
