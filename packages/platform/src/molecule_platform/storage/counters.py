"""Numbers that grow in the order of the commits, because writes are serial, and how many messages ended how.

While nobody else can write a batch counts by itself, and writes down once how far it came.
"""

from collections import Counter

from sqlalchemy import Connection, bindparam, select, update

from molecule_platform.domain.messages import OPEN, STATUSES
from molecule_platform.storage.prepared import Prepared
from molecule_platform.storage.tables import counters

LOG = "log"
PRUNED = "pruned"
# The counter of each status in which a message has ended.
ENDED = {status: f"messages-{status}" for status in STATUSES if status not in OPEN}
NAMES = (LOG, PRUNED, *ENDED.values())

_CURRENT = Prepared(select(counters.c.value).where(counters.c.name == LOG))
_PRUNED = Prepared(select(counters.c.value).where(counters.c.name == PRUNED))
_KEEP = Prepared(update(counters).where(counters.c.name == LOG).values(value=bindparam("newest")))
_ADD = Prepared(
    update(counters)
    .where(counters.c.name == bindparam("counter"))
    .values(value=counters.c.value + bindparam("change"))
)
_KEY = "numbers"


class _Numbers:
    """The counters during one batch of a writer that keeps all others from writing."""

    def __init__(self, newest: int) -> None:
        self.kept = self.newest = newest
        self.ended: Counter[str] = Counter()


def begin(connection: Connection) -> None:
    """Count for a batch, from where the last one came to."""
    connection.info[_KEY] = _Numbers(_CURRENT.scalar(connection, {}))


def ended(connection: Connection) -> Counter[str]:
    """Return how many messages the batch has ended so far, by status."""
    numbers: _Numbers = connection.info[_KEY]
    return numbers.ended


def undo(connection: Connection, before: Counter[str]) -> None:
    """Restore the counts from before a job whose work was undone."""
    numbers: _Numbers = connection.info[_KEY]
    numbers.ended = before


def totals(connection: Connection) -> dict[str, int]:
    """Return how many of the kept messages have ended, by status."""
    wanted = select(counters).where(counters.c.name.in_(ENDED.values()))
    values = {row.name: row.value for row in connection.execute(wanted)}
    return {status: values[name] for status, name in ENDED.items()}


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
    for status, change in numbers.ended.items():
        _ADD.run(connection, {"counter": ENDED[status], "change": change})
    numbers.ended.clear()


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
