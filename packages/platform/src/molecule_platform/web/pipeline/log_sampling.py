"""Sampling of log lines: a token bucket, so that who is refused a thousand times does not fill the log."""

import time
from collections.abc import Callable

BURST = 20.0
PER_SECOND = 1.0


class LogSampler:
    """Says which lines are written, and with them how many were left out since the last one."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._level = BURST
        self._at = now()
        self._left_out = 0

    def take(self) -> int | None:
        """How many lines were left out before this one; None when it is left out too."""
        now = self._now()
        self._level = min(BURST, self._level + (now - self._at) * PER_SECOND)
        self._at = now
        if self._level < 1.0:
            self._left_out += 1
            return None
        self._level -= 1.0
        left_out, self._left_out = self._left_out, 0
        return left_out
