"""How long to sleep between two polls, so that neither a dead platform nor an idle one is hammered."""

import contextlib
import time
from collections.abc import Generator

LONG_POLL_INTERVAL = 0.05
INITIAL_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.5, 5.0
_EARLY_ANSWERS = 2


class PollResult:
    """One poll, as far as pacing is concerned."""

    def __init__(self) -> None:
        self.count = 0

    def found(self, count: int) -> None:
        """Say how many messages the poll brought."""
        self.count = count


class PollPacer:
    """With long polls the platform does the waiting; if it answers too early, or not at all, we wait."""

    def __init__(self, interval: float, wait: float, *, eager: float = LONG_POLL_INTERVAL) -> None:
        self._given = interval
        self._wait = wait
        self._eager = eager
        self._early = 0
        self._trouble = 0.0

    @property
    def interval(self) -> float:
        """Seconds to sleep before the next poll."""
        usual = self._eager if self._wait > 0 and self._early < _EARLY_ANSWERS else self._given
        return max(usual, self._trouble)

    @contextlib.contextmanager
    def measured(self) -> Generator[PollResult]:
        """Watch one poll: what it brings, how long it takes, whether it fails."""
        poll, started = PollResult(), time.monotonic()
        try:
            yield poll
        except Exception:
            self._trouble = min(max(self._trouble * 2, INITIAL_RETRY_SECONDS), MAX_RETRY_SECONDS)
            raise
        self._trouble = 0.0
        early = poll.count == 0 and time.monotonic() - started < self._wait / 2
        self._early = self._early + 1 if early else 0
