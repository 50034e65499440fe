"""A clock that the test moves by hand; sleeping moves it too."""

import asyncio
from collections.abc import Callable

from molecule_runtime.links.time_source import TimeSource

EPOCH = 1_800_000_000.0
_PATIENCE_SECONDS = 10.0


class ManualTime:
    """Time as the test says. `slept` is what was slept, `waited` what was waited for at most."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.waited: list[float] = []
        self.source = TimeSource(
            monotonic=lambda: self.now,
            time=lambda: EPOCH + self.now,
            sleep=self._sleep,
            wait=self._wait,
            chance=lambda: 0.5,
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    async def _wait(self, event: asyncio.Event, seconds: float) -> None:
        self.waited.append(seconds)
        deadline = self.now + seconds
        while self.now < deadline and not event.is_set():  # noqa: ASYNC110 - the test moves the clock
            await asyncio.sleep(0.001)


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 - servers in threads have no event to wait for
            await asyncio.sleep(0.001)
