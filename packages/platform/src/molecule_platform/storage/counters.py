"""Numbers that grow in the order of the commits, because writes are serial.

While nobody else can write a batch counts by itself, and writes down once how far it came.
"""

from sqlalchemy import Connection, bindparam, select, update

from molecule_platform.storage.prepared import Prepared
from molecule_platform.storage.tables import counters

LOG = "log"
PRUNED = "pruned"

_CURRENT = Prepared(select(counters.c.value).where(counters.c.name == LOG))
_PRUNED = Prepared(select(counters.c.value).where(counters.c.name == PRUNED))
_KEEP = Prepared(update(counters).where(counters.c.name == LOG).values(value=bindparam("newest")))
_KEY = "numbers"


class _Numbers:
    """The counter during one batch of a writer that keeps all others from writing."""

    def __init__(self, newest: int) -> None:
        self.kept = self.newest = newest


def begin(connection: Connection) -> None:
    """Count for a batch, from where the last one came to."""
    connection.info[_KEY] = _Numbers(_CURRENT.scalar(connection, {}))


def draw(connection: Connection, many: int = 1) -> int:
    """The next number, the first of `many`, of the one counter that orders events, messages and activity."""
    numbers: _Numbers = connection.info[_KEY]
    first = numbers.newest + 1
    numbers.newest += many
    return first


def keep(connection: Connection) -> None:
    """Write down how far a batch came."""
    numbers: _Numbers = connection.info[_KEY]
    if numbers.newest != numbers.kept:
        _KEEP.run(connection, {"newest": numbers.newest})
        numbers.kept = numbers.newest


def current(connection: Connection) -> int:
    """The newest number drawn."""
    numbers: _Numbers | None = connection.info.get(_KEY)
    return _CURRENT.scalar(connection, {}) if numbers is None else numbers.newest


def pruned(connection: Connection) -> int:
    """The newest number of the log that was forgotten, with all before it."""
    return _PRUNED.scalar(connection, {})


def prune_to(connection: Connection, number: int) -> None:
    """Remember up to where the log was forgotten."""
    connection.execute(update(counters).where(counters.c.name == PRUNED).values(value=number))
