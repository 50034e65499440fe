"""Manual clock: a test moves the engine's time by hand."""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Generator
from contextlib import contextmanager

from molecule_skill import clocks

_ROUNDS = 20
"""How often the event loop turns after a timer: enough for what one wake-up sets off."""


class ManualTimer:
    """A callback that a `ManualClock` calls when its time has come."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Do not call back."""
        self.callback = None


class ManualClock:
    """Clock that stands still until `advance`. Install it around what should see it."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._wall, self._monotonic = now, 0.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, ManualTimer]] = []

    @contextmanager
    def installed(self) -> Generator["ManualClock"]:
        """Runs that are started inside use this clock."""
        token = clocks.CURRENT.set(self)
        try:
            yield self
        finally:
            clocks.CURRENT.reset(token)

    def time(self) -> float:
        """Wall time in seconds since the epoch."""
        return self._wall

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._monotonic

    def call_later(self, seconds: float, callback: Callable[[], object]) -> ManualTimer:
        """Call back when the clock was advanced by so much."""
        timer = ManualTimer(callback)
        heapq.heappush(self._timers, (self._monotonic + max(seconds, 0.0), next(self._order), timer))
        return timer

    def set_wall(self, now: float) -> None:
        """Set the wall clock, also back; monotonic time does not change."""
        self._wall = now

    async def advance(self, seconds: float) -> None:
        """Let time pass: timers are called in their order, and what they wake runs before the next one."""
        until = self._monotonic + seconds
        await self._settle()
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            self._wall += due - self._monotonic
            self._monotonic = due
            if timer.callback is not None:
                timer.callback()
                await self._settle()
        self._wall += until - self._monotonic
        self._monotonic = until
        await self._settle()

    async def _settle(self) -> None:
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)
