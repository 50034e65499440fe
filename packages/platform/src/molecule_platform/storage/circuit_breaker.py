"""Circuit breaker: refuse work at once while PostgreSQL does not answer.

One probe session asks the server twice a second. A session that stays silent is replaced by a new one; if
that is silent too, the database is down. Work in progress is then interrupted and new work is refused until a
probe succeeds, so a silent database costs no caller a time-out and gets no flood of connection attempts.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, Protocol

from molecule_platform.ports.storage import StorageDown
from molecule_platform.storage import driver_errors

# Two silent sessions in a row are found out after 0.5 + 2 * 1.5 seconds: an outage is known within 5.
PROBE_SECONDS, PROBE_SOONEST_SECONDS = 0.5, 0.1
PATIENCE_TICKS, TICK_SECONDS = 15, 0.1


class ProbeSession(Protocol):
    """A session of its own that asks the server for an answer."""

    async def ask(self) -> None:
        """Return once the server answered, on the session that is open or on a new one."""
        ...

    async def drop(self) -> None:
        """Close the session without waiting for the server."""
        ...


class CircuitBreaker:
    """Open while the database does not answer. Starts closed."""

    def __init__(self, probe: ProbeSession) -> None:
        self._probe = probe
        self._outage: StorageDown | None = None
        self._running: set[asyncio.Timeout] = set()
        self._suspected = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        # Connections opened before this moment are not used again; on the monotonic clock.
        self.stale_before = 0.0

    @property
    def is_open(self) -> bool:
        """True while the database does not answer."""
        return self._outage is not None

    def check(self) -> None:
        """Raise `StorageDown` while the breaker is open."""
        if self._outage is not None:
            # A new one each time: an exception that is raised twice collects the tracebacks of both.
            raise StorageDown(*self._outage.args) from self._outage.__cause__

    @contextlib.asynccontextmanager
    async def guard(self) -> AsyncGenerator[None]:
        """Run the block unless the breaker is open, and interrupt it with `TimeoutError` when it opens."""
        self.check()
        async with asyncio.timeout(None) as running:
            self._running.add(running)
            try:
                yield
            finally:
                self._running.discard(running)

    def suspect(self) -> None:
        """Probe now: a connection broke."""
        self._suspected.set()

    def start(self) -> None:
        """Begin to probe."""
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        """End the probe and its session."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._probe.drop()

    async def _watch(self) -> None:
        while True:
            await self._examine()
            # A connection that breaks is looked into at once; a flood of them is one question.
            await asyncio.sleep(PROBE_SOONEST_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PROBE_SECONDS - PROBE_SOONEST_SECONDS):
                    await self._suspected.wait()
            self._suspected.clear()

    async def _examine(self) -> None:
        try:
            await _within_patience(self._probe.ask())
        except Exception as problem:  # noqa: BLE001 - whatever failed, a new session decides
            await self._probe.drop()
            await self._examine_anew(was_silent=isinstance(problem, TimeoutError))
        else:
            self._close()

    async def _examine_anew(self, *, was_silent: bool) -> None:
        try:
            await _within_patience(self._probe.ask())
        except Exception as problem:  # noqa: BLE001 - the database does not answer
            await self._probe.drop()
            if driver_errors.sqlstate(problem) == driver_errors.TOO_MANY_CLIENTS:
                # The server lives, and so may the connections we have.
                self._close()
            else:
                self._open(problem)
        else:
            if was_silent and not self.is_open:
                # The old session is dead while new ones work, as after a failover: so are the others.
                self._replace_connections()
            self._close()

    def _open(self, problem: Exception) -> None:
        if self._outage is None:
            self._outage = driver_errors.down(problem)
            self._replace_connections()

    def _close(self) -> None:
        if self._outage is not None:
            self._outage = None
            self.stale_before = time.monotonic()

    def _replace_connections(self) -> None:
        self.stale_before = time.monotonic()
        now = asyncio.get_running_loop().time()
        for running in list(self._running):
            running.reschedule(now)


async def _within_patience(asking: Coroutine[Any, Any, None]) -> None:
    """Wait in ticks, so that a process that was stopped meanwhile does not mistake its own silence."""
    task = asyncio.ensure_future(asking)
    try:
        for _tick in range(PATIENCE_TICKS):
            await asyncio.wait({task}, timeout=TICK_SECONDS)
            if task.done():
                return task.result()
        raise TimeoutError("the database was silent")
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
