"""Ids: UUIDs of version 7, which sort by the time they were made."""

import os
import re
import struct
import threading
import time
from collections.abc import Iterator

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


def random_hex(words: int) -> str:
    """Sixteen random hexadecimal digits for each word, never all zero."""
    return "".join([f"{_randomness.next() or 1:016x}" for _ in range(words)])


def is_uuid(text: str) -> bool:
    """Tell whether a text is a UUID in its usual form with hyphens, in either case."""
    return _UUID.fullmatch(text) is not None


class _Randomness:
    """Random numbers of 64 bits, asked of the system in bulk: each question costs more than the answer."""

    def __init__(self) -> None:
        self._numbers: Iterator[int] = iter(())

    def next(self) -> int:
        """The next number. Taking from a list's iterator is one step, so threads need no lock."""
        number = next(self._numbers, None)
        while number is None:
            self.refill()
            number = next(self._numbers, None)
        return number

    def refill(self) -> None:
        """Ask the system."""
        self._numbers = iter(struct.unpack(f"{_IN_BULK}Q", os.urandom(8 * _IN_BULK)))


_IN_BULK = 256
_randomness = _Randomness()
if hasattr(os, "register_at_fork"):
    # Two processes must not hand out the same numbers.
    os.register_at_fork(after_in_child=_randomness.refill)


def _random_bits(count: int) -> int:
    return _randomness.next() >> (64 - count)
