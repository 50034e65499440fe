"""Numbers that grow in the order of the commits, because writes are serial.

While nobody else can write a batch counts by itself, and writes down once how far it came.
"""

from sqlalchemy import Connection, bindparam, select, update

from molecule_platform.storage.prepared import Prepared
from molecule_platform.storage.tables import counters

LOG = "log"
PRUNED = "pruned"

_DRAW = Prepared(
    update(counters)
    .where(counters.c.name == LOG)
    .values(value=counters.c.value + bindparam("many"))
    .returning(counters.c.value)
)
_CURRENT = Prepared(select(counters.c.value).where(counters.c.name == LOG))
_PRUNED = Prepared(select(counters.c.value).where(counters.c.name == PRUNED))
_KEEP = Prepared(update(counters).where(counters.c.name == LOG).values(value=bindparam("newest")))
_KEY = "numbers"


class Numbers:
    """The counter during one batch of the only writer, or of one that keeps all others from writing."""

    def __init__(self, connection: Connection) -> None:
        connection.info.pop(_KEY, None)
        self._kept = self.newest = current(connection)
        connection.info[_KEY] = self

    def draw(self, many: int) -> int:
        """The next number, the first of `many`."""
        first = self.newest + 1
        self.newest += many
        return first

    def keep(self, connection: Connection) -> None:
        """Write down how far it came."""
        if self.newest != self._kept:
            _KEEP.run(connection, {"newest": self.newest})


def draw(connection: Connection, many: int = 1) -> int:
    """The next number, the first of `many`, of the one counter that orders events, messages and activity."""
    numbers: Numbers | None = connection.info.get(_KEY)
    if numbers is not None:
        return numbers.draw(many)
    return _DRAW.scalar(connection, {"many": many}) - many + 1


def keep(connection: Connection) -> None:
    """Write down how far a batch came."""
    numbers: Numbers | None = connection.info.get(_KEY)
    if numbers is not None:
        numbers.keep(connection)


def current(connection: Connection) -> int:
    """The newest number drawn."""
    numbers: Numbers | None = connection.info.get(_KEY)
    if numbers is not None:
        return numbers.newest
    return _CURRENT.scalar(connection, {})


def pruned(connection: Connection) -> int:
    """The newest number of the log that was forgotten, with all before it."""
    return _PRUNED.scalar(connection, {})


def prune_to(connection: Connection, number: int) -> None:
    """Remember up to where the log was forgotten."""
    connection.execute(update(counters).where(counters.c.name == PRUNED).values(value=number))
