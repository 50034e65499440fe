"""Ids: UUIDs of version 7, which sort by the time they were made."""

import os
import re
import threading
import time

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_COUNTER_LIMIT = 1 << 12


class Ticks:
    """Hands out (millisecond, counter) pairs that only grow, also when the clock steps back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._millisecond = 0
        self._counter = 0

    def next(self, now: int) -> tuple[int, int]:
        """The next pair; `now` is the clock's millisecond."""
        with self._lock:
            if now > self._millisecond:
                self._millisecond, self._counter = now, _random_bits(11)
            else:
                self._counter += 1
            if self._counter == _COUNTER_LIMIT:
                self._millisecond, self._counter = self._millisecond + 1, 0
            return self._millisecond, self._counter


_ticks = Ticks()


def uuid7() -> str:
    """Make a UUID of version 7; within one process each is greater than the one before, as text too."""
    millisecond, counter = _ticks.next(time.time_ns() // 1_000_000)
    number = (millisecond << 80) | (0x7 << 76) | (counter << 64) | (0b10 << 62) | _random_bits(62)
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def is_uuid(text: str) -> bool:
    """Tell whether a text is a UUID in its usual form with hyphens, in either case."""
    return _UUID.fullmatch(text) is not None


def _random_bits(count: int) -> int:
    return int.from_bytes(os.urandom(8)) >> (64 - count)
