"""Times on the wire: RFC 3339, UTC, milliseconds, `Z`."""

import functools
import re
from datetime import UTC, datetime

_RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE
)


@functools.lru_cache(maxsize=256)  # one moment is said many times
def format_time(moment: datetime) -> str:
    """Write a time for the wire; a time without a zone is a mistake of the caller and raises ValueError."""
    if moment.tzinfo is None:
        raise ValueError("a time on the wire needs its zone: use datetime.now(UTC)")
    there = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return there.isoformat(timespec="milliseconds")[:-6] + "Z"


def parse_time(text: str) -> datetime:
    """Read an RFC 3339 time with any offset; the result is UTC. Anything else raises ValueError."""
    if not _RFC_3339.fullmatch(text):
        raise ValueError(f"not an RFC 3339 time: {text[:40]!r}; write it like 2026-01-31T10:15:30.123Z")
    try:
        moment = datetime.fromisoformat(text.upper())
        return moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    except OverflowError as problem:
        raise ValueError(f"a time outside the years 1 to 9999: {text!r}") from problem
