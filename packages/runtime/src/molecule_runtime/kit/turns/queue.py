"""The queue of turns: one turn per context, so many at once, so many waiting, first come first served."""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from molecule_runtime.domain.turns import TurnRequest
from molecule_wire.a2a.server.bindings import AgentBusy

StopReason: TypeAlias = Literal["cancelled", "stopping"]

LONG_SECONDS, POLL_SECONDS = 5.0, 1.0
RETRY_SECONDS = 5
"""When to come again, for who finds the queue full or closed."""


class QueuedTurn:
    """A turn that waits for its slot, or has it. `ended_for` says why nobody wants it any more."""

    __slots__ = ("_woken", "ended_for", "has_slot", "last_activity", "request", "started_at", "until")

    def __init__(self, request: TurnRequest) -> None:
        self.request = request
        self.started_at = 0.0
        self.last_activity: Callable[[], float] = lambda: 0.0
        self.has_slot = False
        self.ended_for: StopReason | None = None
        self.until = math.inf
        """When a long wait is over, by the clock of the event loop; the queue looks once a second."""
        self._woken: asyncio.Future[None] | None = None

    def end(self, reason: StopReason) -> None:
        """Ask for its end. Harmless when repeated."""
        self.ended_for = self.ended_for or reason
        self.wake()

    def wake(self) -> None:
        """Something has changed that `wait` waits for."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def wait(self, seconds: float | None) -> None:
        """Wait until somebody calls `wake`, or so long; a long time may become a second longer.

        Nearly every turn ends before, so a timer for each would be set and cancelled in vain.
        """
        loop = asyncio.get_running_loop()
        self._woken = loop.create_future()
        if seconds is None or seconds >= LONG_SECONDS:
            self.until = math.inf if seconds is None else loop.time() + seconds
            await self._woken
            return
        timer = loop.call_later(seconds, self.wake)
        try:
            await self._woken
        finally:
            timer.cancel()


class TurnQueue:
    """Gives slots. `max_running` is None for an engine that bounds its turns itself."""

    def __init__(self, max_running: int | None, max_waiting: int) -> None:
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._waiting: deque[QueuedTurn] = deque()
        self._contexts: set[str] = set()
        self.running: set[QueuedTurn] = set()
        self._emptied: asyncio.Event | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.closed_for = ""
        """Why no turn is taken, by its code; empty while turns are taken."""

    @property
    def waiting(self) -> int:
        """How many turns wait."""
        return len(self._waiting)

    def __iter__(self) -> Iterator[QueuedTurn]:
        """All turns, running first."""
        return iter((*self.running, *self._waiting))

    def admit(self) -> None:
        """Raise AgentBusy when no turn can be taken now."""
        if self.closed_for:
            sentence = f"the agent takes no turns: {self.closed_for}"
            raise AgentBusy(sentence, self.closed_for, RETRY_SECONDS)
        if self._max_running is not None and len(self._waiting) >= self._max_waiting:
            raise AgentBusy(f"{len(self._waiting)} turns wait already", retry_after=RETRY_SECONDS)

    async def enter(self, turn: QueuedTurn, seconds: float | None) -> bool:
        """Wait for a slot; False when the turn was ended before, or its time is over."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(POLL_SECONDS, self._look)
        if not self._waiting and self._take_slot(turn):
            return True
        self._waiting.append(turn)
        self._schedule()
        try:
            if not turn.has_slot and turn.ended_for is None:
                await turn.wait(seconds)
        finally:
            is_to_run = turn.has_slot and turn.ended_for is None
            if not is_to_run:
                self.leave(turn)
        return is_to_run

    def leave(self, turn: QueuedTurn) -> None:
        """Give the slot back. Harmless when there is none."""
        if turn in self.running:
            self.running.discard(turn)
            self._contexts.discard(turn.request.context_id)
        elif turn in self._waiting:
            self._waiting.remove(turn)
        if self._waiting:
            self._schedule()
        elif not self.running and self._emptied is not None:
            self._emptied.set()

    async def empty(self, seconds: float) -> None:
        """Wait until there is no turn, for at most so many seconds."""
        if not self.running and not self._waiting:
            return
        self._emptied = asyncio.Event()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._emptied.wait()

    def _look(self) -> None:
        """Wake the turns whose long wait is over."""
        loop = asyncio.get_running_loop()
        now, is_empty = loop.time(), True
        for turn in self:
            is_empty = False
            if turn.until <= now:
                turn.wake()
        self._timer = None if is_empty else loop.call_later(POLL_SECONDS, self._look)

    def _schedule(self) -> None:
        for turn in tuple(self._waiting):
            if self._take_slot(turn):
                self._waiting.remove(turn)
                turn.wake()

    def _take_slot(self, turn: QueuedTurn) -> bool:
        """Let a turn run, if there is room and its context is free."""
        context_id, most = turn.request.context_id, self._max_running
        if context_id in self._contexts or (most is not None and len(self.running) >= most):
            return False
        self._contexts.add(context_id)
        self.running.add(turn)
        turn.has_slot = True
        return True
