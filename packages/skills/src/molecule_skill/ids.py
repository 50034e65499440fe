"""Ids: a prefix, then 16 random bytes as lower-case base32 without padding."""

import base64
import os
from collections.abc import Iterator

_CHARACTERS = 26
_IN_BULK = 40
# 128 bits fill 25 characters and three bits of the last one.
_LAST = {chr(one): "aeimquy4"[place & 7] for place, one in enumerate(b"abcdefghijklmnopqrstuvwxyz234567")}


class _Randomness:
    """Random texts. Asking the system and encoding cost, so both are done for many at once."""

    def __init__(self) -> None:
        self._texts: Iterator[str] = iter(())

    def next(self) -> str:
        """The next text. Taking from a list's iterator is one step, so threads need no lock."""
        text = next(self._texts, None)
        while text is None:
            self.refill()
            text = next(self._texts, None)
        return text

    def refill(self) -> None:
        """Ask the system."""
        written = base64.b32encode(os.urandom(_IN_BULK * _CHARACTERS * 5 // 8)).decode().lower()
        cut = [written[place : place + _CHARACTERS] for place in range(0, len(written), _CHARACTERS)]
        self._texts = iter([text[:-1] + _LAST[text[-1]] for text in cut])


_randomness = _Randomness()
if hasattr(os, "register_at_fork"):
    # Two processes must not hand out the same ids.
    os.register_at_fork(after_in_child=_randomness.refill)


def new_id(prefix: str) -> str:
    """A random id."""
    return prefix + _randomness.next()
