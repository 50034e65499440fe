"""Limits of connections: deadlines, counts per address or principal, and file descriptors."""

import contextlib
import math
import resource
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

from uvicorn.server import ServerState

DEFAULT_FILE_LIMIT = 1024
BLOCKED_SECONDS = 0.5
"""A deadline check that runs this late shows that the event loop was blocked."""


@dataclass(frozen=True)
class Deadlines:
    """Seconds that a client may take: for a head, between two pieces of a body, for a whole body,
    between two requests, to read anything of a response, and to read a refusal."""

    head: float = 10.0
    body: float = 30.0
    upload: float = 300.0
    idle: float = 60.0
    write: float = 60.0
    linger: float = 5.0

    @property
    def check_interval(self) -> float:
        """Seconds between two checks: a deadline is noticed at most this late."""
        return min(1.0, self.head / 4, self.body / 4, self.write / 4)


class Connection(Protocol):
    """A connection, over HTTP or a WebSocket, as the table sees it."""

    deadline: float
    write_deadline: float
    owner: str

    def expire(self, now: float) -> None:
        """A deadline has passed."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def raise_file_limit() -> int:
    """Raise the soft limit of open files to the hard one; return the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit if limit != resource.RLIM_INFINITY else 1 << 20


class ConnectionTable(ServerState):
    """Connections of one server, and the caps on them.

    A connection counts for its address until a request on it presents a verified credential, and for the
    principal from then on. One owner has at most an eighth of the file limit.
    """

    def __init__(
        self,
        deadlines: Deadlines,
        max_connections: int = 0,
        is_exempt: Callable[[str], bool] = lambda address: False,
        file_limit: int = DEFAULT_FILE_LIMIT,
    ) -> None:
        super().__init__()
        self.deadlines = deadlines
        self.silent: OrderedDict[Connection, None] = OrderedDict()
        """Connections without a request, the one that has been silent longest first."""
        share = max(1, file_limit // 8)
        self.max_connections = min(max_connections or share, share)
        self._is_exempt = is_exempt
        self._counts: Counter[str] = Counter()
        # A new descriptor gets the lowest free number, so its number says how many are in use at least.
        self._pressure_at = file_limit - max(16, file_limit // 16)
        self._full_at = file_limit - 8
        self._next_check = math.inf

    def enter(self, connection: Connection, address: str) -> bool:
        """Count a new connection for its address; return False if the address has too many."""
        if not address or self._is_exempt(address):
            return True
        return self._assign(connection, f"address {address}")

    def identify(self, connection: Connection, principal: str) -> bool:
        """Count a connection for a principal instead; return False if the principal has too many."""
        return not connection.owner or self._assign(connection, f"principal {principal}")

    def leave(self, connection: Connection) -> None:
        """Count a connection no longer."""
        self.silent.pop(connection, None)
        owner, connection.owner = connection.owner, ""
        if owner:
            self._counts[owner] -= 1
            if self._counts[owner] <= 0:
                del self._counts[owner]

    def move(self, connection: Connection, successor: Connection) -> None:
        """Count the successor of a connection in its place."""
        successor.owner, connection.owner = connection.owner, ""
        self.leave(connection)

    def _assign(self, connection: Connection, owner: str) -> bool:
        if owner == connection.owner:
            return True
        if self._counts[owner] >= self.max_connections:
            return False
        if connection.owner:
            self._counts[connection.owner] -= 1
            if self._counts[connection.owner] <= 0:
                del self._counts[connection.owner]
        connection.owner = owner
        self._counts[owner] += 1
        return True

    def make_room(self, descriptor: int) -> bool:
        """Close the oldest silent connections if descriptors run out; return False if that did not help."""
        if descriptor < self._pressure_at:
            return True
        for _ in range(2):
            if self.silent:
                self.silent.popitem(last=False)[0].close()
        return descriptor < self._full_at

    def check_deadlines(self, now: float) -> None:
        """Expire connections that keep the server waiting for too long."""
        late = now - self._next_check
        self._next_check = now + self.deadlines.check_interval
        connections = cast("set[Connection]", self.connections)
        if late > BLOCKED_SECONDS:
            # The server kept its clients waiting: what they sent meanwhile has not been read yet.
            for connection in connections:
                connection.deadline += 2 * late
                connection.write_deadline += 2 * late
            return
        due = [one for one in connections if one.deadline <= now or one.write_deadline <= now]
        for connection in due:
            connection.expire(now)
