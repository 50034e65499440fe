"""Clock of the engine: real time, unless a test put another clock in its place."""

import asyncio
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol


class Timer(Protocol):
    """A callback that is due later."""

    def cancel(self) -> None:
        """Do not call back."""
        ...


class Clock(Protocol):
    """Time as the engine sees it."""

    def time(self) -> float:
        """Wall time in seconds since the epoch; it may be set back."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call back after so many monotonic seconds."""
        ...


class SystemClock:
    """See `Clock`."""

    def time(self) -> float:
        """See `Clock`."""
        return time.time()

    def monotonic(self) -> float:
        """See `Clock`."""
        return time.monotonic()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """See `Clock`."""
        return asyncio.get_running_loop().call_later(max(seconds, 0), callback)


_SYSTEM = SystemClock()
CURRENT: ContextVar[Clock] = ContextVar("molecule_skill_clock", default=_SYSTEM)


async def sleep(seconds: float) -> None:
    """Wait by the current clock."""
    await wait(asyncio.get_running_loop().create_future(), seconds)


async def wait(future: "asyncio.Future[Any]", seconds: float | None) -> bool:
    """Wait until a future is done, at most so many seconds by the current clock; whether it is."""
    if future.done() or seconds is None:
        await asyncio.wait({future})
        return True
    due: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = CURRENT.get().call_later(seconds, lambda: None if due.done() else due.set_result(None))
    try:
        await asyncio.wait({future, due}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        timer.cancel()
    return future.done()


class RunningTime:
    """Stopwatch of the time a run is really running, with a callback at its limit."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._clock = CURRENT.get()
        self._spent = 0.0
        self._since: float | None = None
        self._timer: Timer | None = None

    @property
    def spent(self) -> float:
        """Seconds of running time so far."""
        return self._spent + (0.0 if self._since is None else self._clock.monotonic() - self._since)

    def start(self, expired: Callable[[], object]) -> None:
        """Let the time run, and call back when it is over."""
        if self._since is None:
            self._since = self._clock.monotonic()
            self._timer = self._clock.call_later(self.limit - self._spent, expired)

    def stop(self) -> None:
        """Let the time stand still."""
        self._spent, self._since = self.spent, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
