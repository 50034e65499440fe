"""Ids: UUIDs of version 7, which sort by the time they were made."""

import functools
import os
import re
import threading
import time
from collections.abc import Iterator

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_COUNTER_LIMIT = 1 << 12
# The digit that names the variant keeps two random bits.
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


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
                self._millisecond, self._counter = now, int(random_word()[:3], 16) >> 1
            else:
                self._counter += 1
            if self._counter == _COUNTER_LIMIT:
                self._millisecond, self._counter = self._millisecond + 1, 0
            return self._millisecond, self._counter


_ticks = Ticks()


@functools.lru_cache(maxsize=4)  # many ids are made in one millisecond
def _beginning(millisecond: int) -> str:
    digits = f"{millisecond:012x}"
    return f"{digits[:8]}-{digits[8:]}-7"


def uuid7() -> str:
    """Make a UUID of version 7; within one process each is greater than the one before, as text too."""
    millisecond, counter = _ticks.next(time.time_ns() // 1_000_000)
    word = random_word()
    return f"{_beginning(millisecond)}{counter:03x}-{_VARIANT[word[0]]}{word[1:4]}-{word[4:]}"


def is_uuid(text: str) -> bool:
    """Tell whether a text is a UUID in its usual form with hyphens, in either case."""
    return _UUID.fullmatch(text) is not None


class _Randomness:
    """Random words of 16 hexadecimal digits. Asking the system costs, so it is asked for many at once."""

    def __init__(self) -> None:
        self._words: Iterator[str] = iter(())

    def next(self) -> str:
        """The next word. Taking from a list's iterator is one step, so threads need no lock."""
        word = next(self._words, None)
        while word is None:
            self.refill()
            word = next(self._words, None)
        return word

    def refill(self) -> None:
        """Ask the system."""
        digits = os.urandom(8 * _IN_BULK).hex()
        words = [digits[place : place + 16] for place in range(0, len(digits), 16)]
        self._words = iter([word for word in words if word != _ZERO])


_IN_BULK = 256
_ZERO = "0" * 16
_randomness = _Randomness()
random_word = _randomness.next
"""Sixteen random hexadecimal digits, never all zero."""
if hasattr(os, "register_at_fork"):
    # Two processes must not hand out the same words.
    os.register_at_fork(after_in_child=_randomness.refill)
