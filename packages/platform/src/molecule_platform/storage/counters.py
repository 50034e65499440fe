"""Numbers that grow in the order of the commits, because writes are serial."""

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


def draw(connection: Connection, many: int = 1) -> int:
    """The next number, the first of `many`, of the one counter that orders events, messages and activity."""
    return _DRAW.scalar(connection, {"many": many}) - many + 1


def current(connection: Connection) -> int:
    """The newest number drawn."""
    return _CURRENT.scalar(connection, {})


def pruned(connection: Connection) -> int:
    """The newest number of the log that was forgotten, with all before it."""
    return _PRUNED.scalar(connection, {})


def prune_to(connection: Connection, number: int) -> None:
    """Remember up to where the log was forgotten."""
    connection.execute(update(counters).where(counters.c.name == PRUNED).values(value=number))
