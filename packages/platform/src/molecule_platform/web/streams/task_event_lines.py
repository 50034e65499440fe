"""One stream of a task's events: which come next, where it ends, and how they are written."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from molecule_platform.domain import tasks
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.tasks import TaskEvent, TaskKey
from molecule_platform.ports.storage import StorageDown
from molecule_platform.services.identity.authentication import AuthenticationService
from molecule_platform.services.messaging.tasks import task_log
from molecule_platform.services.messaging.tasks.task_service import TaskService
from molecule_platform.services.messaging.tasks.task_streams import (
    SubscriptionStart,
    TaskStreams,
    TaskSubscription,
)
from molecule_platform.services.support.worker_thread import LARGE_BYTES, run_in_thread_if_large
from molecule_platform.web.pipeline import error_responses
from molecule_wire.a2a import errors as a2a_errors
from molecule_wire.a2a.errors import A2AError
from molecule_wire.a2a.server.bindings import Binding
from molecule_wire.a2a.server.renderer import Renderer
from molecule_wire.a2a.sse import KEEP_ALIVE

CHECK_SECONDS = 1.0
CHUNK_BYTES = 64 * 1024
# A question is written just before its message ends: when that is looked at again, first and at the longest.
# A message may be long at work, and thousands may follow its task.
LOOK_SECONDS, MAX_LOOK_SECONDS = 0.2, 15.0


def unavailable() -> A2AError:
    """Return the last event of a stream that meets an outage of storage."""
    refusal = error_responses.unavailable()
    return a2a_errors.gateway_error(refusal.code, refusal.sentence)


@dataclass(frozen=True)
class StreamStart:
    """A task as it stood before a message went on with it."""

    key: TaskKey
    whole: dict[str, Any]
    number: int


@dataclass(slots=True)
class Credential:
    """What opened a stream; the stream ends with it."""

    identity: AuthenticationService
    credential: str
    again_at: float = field(default_factory=lambda: monotonic() + CHECK_SECONDS)

    def is_fresh(self) -> bool:
        """Whether it was looked at less than a second ago."""
        return monotonic() < self.again_at

    async def still_holds(self) -> bool:
        """Whether it was neither revoked nor has it expired, as of a second ago."""
        if self.is_fresh():
            return True
        self.again_at = monotonic() + CHECK_SECONDS
        try:
            await self.identity.again(self.credential)
        except ApiError:
            return False
        return True


@dataclass(slots=True, eq=False)
class TaskEventLines:
    """See `Stream`. Thousands are quiet at once, so it holds little: how to answer, and not what was asked.

    With a message, it ends when that message has its answer; without one, when the task is over or waits.
    """

    streams: TaskStreams
    tasks: TaskService
    binding: Binding
    renderer: Renderer
    credential: Credential
    begun: SubscriptionStart | None
    message_id: str | None = None
    before: StreamStart | None = None
    # What is still to be said: something before all events, and events.
    prefix: bytes = b""
    batch: Sequence[TaskEvent] = ()
    ended: bool = False
    # Events of which only the store can tell whether they are the last ones.
    doubtful: list[TaskEvent] | None = None
    # The number of a question that was told while a message was on its way: it may be the last event.
    asked: int | None = None
    look_in: float = LOOK_SECONDS
    follower: TaskSubscription = field(init=False)

    def begin(self, call: Callable[[], None]) -> None:
        """See `Stream`."""
        begun, self.begun = self.begun, None
        assert begun is not None
        self.follower = self.streams.join(begun.key, begun.seq - 1, begun.events, call)

    def close(self) -> None:
        """See `Stream`."""
        if self.begun is None:
            self.follower.close()

    def ready(self) -> bytes | None:
        """See `Stream`."""
        if self._is_large:
            return None
        if self.prefix or self.batch:
            return self._chunk()
        is_unsure = self.doubtful is not None or self.asked is not None
        if self.ended or is_unsure or not self.credential.is_fresh():
            return None
        batch = self.follower.at_hand()
        if batch is None:
            return None
        place = self._possible_end(batch, 0)
        if place < len(batch) and self._ends(batch[place]) is None:
            self.doubtful = batch
            return None
        self._take(batch, place)
        return None if self._is_large else self._chunk()

    @property
    def _is_large(self) -> bool:
        """True if the next event takes long to write, so that it is written on another thread."""
        return bool(self.batch) and len(self.batch[0].payload) > LARGE_BYTES

    async def next(self) -> bytes | None:
        """See `Stream`. An outage of storage ends the stream with an error; a client resumes elsewhere."""
        try:
            return await self._next()
        except StorageDown:
            self.ended = True
            return self.binding.error_event(unavailable())

    async def _next(self) -> bytes | None:
        if not self.prefix and not self.batch:
            if self.ended or not await self.credential.still_holds():
                return None
            batch = await self.follower.next() if self.doubtful is None else self.doubtful
            self.doubtful = None
            if batch is None or (not batch and await self._waits()):
                return None
            self._take(batch, await self._end_of(batch))
        size = len(self.batch[0].payload) if self.batch else 0
        return await run_in_thread_if_large(size, self._chunk)

    # Where it ends

    def _ends(self, event: TaskEvent) -> bool | None:
        """Whether nothing follows an event; None when only the store can tell."""
        if event.kind == "artifact":
            return False
        if event.kind == "message":
            return True
        state = task_log.state_in(event)
        if state != "input-required":
            return state in tasks.TERMINAL
        return None if self.message_id is None else event.message_id == self.message_id

    def _possible_end(self, batch: Sequence[TaskEvent], start: int) -> int:
        """The place of the first event that may be the last one, or behind them all."""
        for place in range(start, len(batch)):
            if self._ends(batch[place]) is not False:
                return place
        return len(batch)

    async def _end_of(self, batch: Sequence[TaskEvent]) -> int:
        """The place of the last event of the stream, or behind them all."""
        place = self._possible_end(batch, 0)
        while place < len(batch) and self._ends(batch[place]) is None:
            # Someone who replays passes questions that were answered long ago.
            seq = batch[place].seq
            if await self.tasks.waits_since(self.follower.key, seq):
                break
            place = self._possible_end(batch, place + 1)
            if place == len(batch):
                self._look_again(seq)
        return place

    async def _waits(self) -> bool:
        """Whether the question that was told last turned out to be the last event."""
        if self.asked is None:
            return False
        seq, self.asked = self.asked, None
        if await self.tasks.waits_since(self.follower.key, seq):
            return True
        self._look_again(seq)
        return False

    def _look_again(self, seq: int) -> None:
        self.asked = seq
        asyncio.get_running_loop().call_later(self.look_in, lambda: self.follower.call())
        self.look_in = min(self.look_in * 2, MAX_LOOK_SECONDS)

    # What is said

    def _take(self, batch: Sequence[TaskEvent], end: int) -> None:
        before = self.before
        if before is not None and batch:
            if batch[0].kind != "task":
                told = self.renderer.event({"task": before.whole})
                self.prefix = self.binding.event(before.number, told)
            self.before = None
        if batch and batch[-1].seq != self.asked:
            self.asked, self.look_in = None, LOOK_SECONDS
        self.ended = end < len(batch)
        self.batch = batch[: end + 1]

    def _chunk(self) -> bytes:
        """As much of what is to be said as is not too much at once."""
        prefix, self.prefix = self.prefix, b""
        batch, self.batch = self.batch, ()
        if not batch:
            return prefix or (KEEP_ALIVE if self.follower.was_quiet() else b"")
        held, size = [prefix], 0
        for place, event in enumerate(batch, 1):
            held.append(self._frame(event))
            size += len(held[-1])
            if size >= CHUNK_BYTES:
                self.batch = batch[place:]
                break
        return b"".join(held)

    def _frame(self, event: TaskEvent) -> bytes:
        is_task = event.kind == "task"
        shown = self.renderer.stored_event(event.payload, event.dialect, is_task=is_task)
        return self.binding.event(event.seq, shown)
