"""Disconnect policy: runs whose caller wants them cancelled when nobody has read them for a while."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any

GRACE_SECONDS = 30.0


class ReaderCounts:
    """Counts who reads each run that asked for `on_disconnect: cancel`; other runs cost nothing here."""

    def __init__(
        self, cancel: Callable[[str], Coroutine[Any, Any, object]], seconds: float = GRACE_SECONDS
    ) -> None:
        self._cancel = cancel
        self._seconds = seconds
        self._count: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._cancelling: set[asyncio.Task[object]] = set()

    def watch(self, run_id: str) -> None:
        """Cancel this run once it has had no reader for the grace period."""
        self._count.setdefault(run_id, 0)

    @contextmanager
    def reading(self, run_id: str) -> Generator[None]:
        """Somebody reads the run for as long as this is entered."""
        if run_id not in self._count:
            yield
            return
        self._count[run_id] += 1
        timer = self._timers.pop(run_id, None)
        if timer is not None:
            timer.cancel()
        try:
            yield
        finally:
            self._count[run_id] -= 1
            if self._count[run_id] == 0:
                loop = asyncio.get_running_loop()
                self._timers[run_id] = loop.call_later(self._seconds, self._give_up, run_id)

    async def counted(self, run_id: str, pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        """The pieces of a stream, whose reader counts while it reads."""
        with self.reading(run_id):
            try:
                async for piece in pieces:
                    yield piece
            finally:
                await pieces.aclose()

    def close(self) -> None:
        """Forget all runs."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _give_up(self, run_id: str) -> None:
        self._timers.pop(run_id, None)
        if self._count.pop(run_id, 1) == 0:
            # A run that is over by now is left as it is.
            task = asyncio.ensure_future(self._cancel(run_id))
            self._cancelling.add(task)
            task.add_done_callback(self._cancelling.discard)
