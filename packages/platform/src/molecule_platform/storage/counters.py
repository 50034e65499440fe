"""Numbers that grow in the order of the commits, because writes are serial."""

from sqlalchemy import Connection, select, update

from molecule_platform.storage.prepared import Prepared
from molecule_platform.storage.tables import counters

LOG = "log"

_DRAW = Prepared(
    update(counters)
    .where(counters.c.name == LOG)
    .values(value=counters.c.value + 1)
    .returning(counters.c.value)
)
_CURRENT = Prepared(select(counters.c.value).where(counters.c.name == LOG))


def draw(connection: Connection) -> int:
    """The next number of the one counter that orders events, messages and activity."""
    return _DRAW.scalar(connection, {})


def current(connection: Connection) -> int:
    """The newest number drawn."""
    return _CURRENT.scalar(connection, {})
