"""Supervised loops: periodic work that survives any fault, on one replica at a time where that matters."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from molecule_platform.ports.clock import Clock
from molecule_platform.ports.log import Log
from molecule_platform.ports.storage import Storage, StorageDown

MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 60.0
LEASE_SHORTEST = 5.0
LATE_AFTER_PERIODS = 3

Work = Callable[[], Awaitable[None]]


class LoopLeaseLost(Exception):
    """This replica was too slow: the loop belongs to another one now."""


@dataclass
class PeriodicTask:
    """One periodic work and how it does."""

    name: str
    seconds: float
    work: Work
    exclusive: bool
    longest_backoff: float
    last_tick_at: datetime | None = None
    restarts: int = 0
    failing: bool = False

    def is_well(self, now: datetime) -> bool:
        """Whether it ran when it should have."""
        if self.failing or self.last_tick_at is None:
            return not self.failing
        return now - self.last_tick_at < timedelta(seconds=self.seconds * LATE_AFTER_PERIODS + 10)


class PeriodicTasks:
    """The periodic work of a replica. Among several, an exclusive loop runs where its lease is held."""

    def __init__(self, storage: Storage, clock: Clock, log: Log, replica_id: str, shared: bool) -> None:
        self._storage = storage
        self._clock = clock
        self._log = log
        self._replica_id = replica_id
        self._shared = shared
        self._loops: list[PeriodicTask] = []
        self._tasks: list[asyncio.Task[None]] = []

    def add(
        self,
        name: str,
        seconds: float,
        work: Work,
        *,
        exclusive: bool = False,
        longest_backoff: float = MAX_BACKOFF_SECONDS,
    ) -> None:
        """Run `work` every so many seconds from `start` on."""
        self._loops.append(PeriodicTask(name, seconds, work, exclusive, longest_backoff))

    def start(self) -> None:
        """Begin."""
        for loop in self._loops:
            self._tasks.append(asyncio.get_running_loop().create_task(self._for_ever(loop)))

    async def stop(self) -> None:
        """End the loops and let another replica have their leases."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._shared:
            await self._storage.write(lambda tx: tx.loops.release(self._replica_id))

    async def _for_ever(self, loop: PeriodicTask) -> None:
        backoff = MIN_BACKOFF_SECONDS
        while True:
            try:
                await self.tick(loop)
                backoff = MIN_BACKOFF_SECONDS
                await asyncio.sleep(loop.seconds)
            except StorageDown as problem:
                # Storage refuses at once while it is away, so every loop is back a second after it returns.
                self._failed(loop, problem, MIN_BACKOFF_SECONDS, is_new=not loop.failing)
                await asyncio.sleep(MIN_BACKOFF_SECONDS)
            except Exception as problem:  # noqa: BLE001 - a loop that dies loses work; it is logged and goes on
                self._failed(loop, problem, backoff, is_new=True)
                await asyncio.sleep(backoff)
                backoff = min(loop.longest_backoff, backoff * 2)

    def _failed(self, loop: PeriodicTask, problem: Exception, next_in: float, *, is_new: bool) -> None:
        loop.failing = True
        loop.restarts += 1
        if is_new:
            self._log.error("a loop failed", loop=loop.name, problem=repr(problem), next_in=next_in)

    async def tick(self, loop: PeriodicTask) -> None:
        """One round, if it is this replica's turn."""
        if not (loop.exclusive and self._shared):
            await loop.work()
        elif (fence := await self._claim(loop)) is not None:
            await self._under_lease(loop, fence)
        loop.last_tick_at = self._clock.now()
        loop.failing = False

    async def _claim(self, loop: PeriodicTask) -> int | None:
        lasts = timedelta(seconds=_lease_seconds(loop))
        return await self._storage.write(lambda tx: tx.loops.claim(loop.name, self._replica_id, lasts))

    async def _under_lease(self, loop: PeriodicTask, fence: int) -> None:
        """Work for as long as the lease is ours: it is kept while the work goes on, and lost with it."""
        working = asyncio.ensure_future(loop.work())
        try:
            while not working.done():
                await asyncio.wait({working}, timeout=_lease_seconds(loop) / 3)
                if not working.done() and await self._claim(loop) != fence:
                    raise LoopLeaseLost(f"another replica took over {loop.name}")
            working.result()
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    def each(self) -> list[PeriodicTask]:
        """Every loop, for those who watch."""
        return list(self._loops)


def _lease_seconds(loop: PeriodicTask) -> float:
    return max(loop.seconds * 2, LEASE_SHORTEST)
