"""The clock of a fake platform: it runs like any other, and can be moved ahead."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from molecule_agent import clocks

# A wait also ends for what only time brings: a lease that runs out, a message that may be tried again.
LOOK_AGAIN_SECONDS = 0.1

T = TypeVar("T")


class FakeClock:
    """Real time, or that of the clock given, plus whatever it was advanced by.

    Give it to a client too (`clock=platform.clock`), and `advance` ends the client's sleeps.
    """

    def __init__(self, base: clocks.Clock | None = None) -> None:
        self._base = base
        self._ahead = 0.0
        self.changed = threading.Condition()
        """Guards everything that waits on this clock, and is notified when any of it may go on."""

    def time(self) -> float:
        """Seconds since the epoch."""
        return (self._base or time).time() + self._ahead

    def monotonic(self) -> float:
        """Seconds that only grow."""
        return (self._base or time).monotonic() + self._ahead

    def sleep(self, seconds: float, /) -> None:
        """Wait; an `advance` of as many seconds ends it."""
        self.wait_for(lambda: None, seconds)

    def advance(self, seconds: float) -> None:
        """Move ahead."""
        if seconds < 0:
            raise ValueError("a clock only goes forward: advance it by a positive number of seconds")
        with self.changed:
            self._ahead += seconds
            self.changed.notify_all()

    def wait_for(self, look: Callable[[], T | None], seconds: float) -> T | None:
        """What `look` finds, as soon as it finds something; nothing when the time is over."""
        with self.changed:
            ends = self.monotonic() + seconds
            while (found := look()) is None and (left := ends - self.monotonic()) > 0:
                self._pass(left)
            return found

    def _pass(self, left: float) -> None:
        if self._base is None:
            self.changed.wait(min(left, LOOK_AGAIN_SECONDS))
        else:
            self._base.sleep(left)
