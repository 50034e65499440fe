"""One stream of a task's events: which come next, where it ends, and how they are written."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from molecule_platform.domain import results, tasks
from molecule_platform.domain.refusals import Refusal
from molecule_platform.domain.tasks import TaskEvent, TaskKey
from molecule_platform.services.identity import Identity
from molecule_platform.services.task_streams import Begun, Follower, TaskStreams
from molecule_platform.services.tasks import Tasks
from molecule_wire.a2a.server.requests import Invocation
from molecule_wire.a2a.sse import KEEP_ALIVE

CHECK_SECONDS = 1.0
CHUNK_BYTES = 64 * 1024
# A question is written just before its message ends: when that is looked at again, first and at the longest.
# A message may be long at work, and thousands may follow its task.
LOOK_SECONDS, LOOK_LONGEST_SECONDS = 0.2, 15.0


@dataclass(frozen=True)
class Before:
    """A task as it stood before a message went on with it."""

    key: TaskKey
    whole: dict[str, Any]
    number: int


class _Status(msgspec.Struct):
    state: str = ""


class _Holder(msgspec.Struct):
    """A task or an update, as far as it tells a state; in 0.3 it stands bare."""

    status: _Status = msgspec.field(default_factory=_Status)


class _Wrapped(msgspec.Struct, rename="camel"):
    task: _Holder | None = None
    status_update: _Holder | None = None


_BARE, _WRAPPED = msgspec.json.Decoder(_Holder), msgspec.json.Decoder(_Wrapped)


class Credential:
    """What opened a stream; the stream ends with it."""

    __slots__ = ("_again_at", "_credential", "_identity", "_loop")

    def __init__(self, identity: Identity, credential: str) -> None:
        self._identity = identity
        self._credential = credential
        self._loop = asyncio.get_running_loop()
        self._again_at = self._loop.time() + CHECK_SECONDS

    def is_fresh(self) -> bool:
        """Whether it was looked at less than a second ago."""
        return self._loop.time() < self._again_at

    async def still_holds(self) -> bool:
        """Whether it was neither revoked nor has it expired, as of a second ago."""
        if self.is_fresh():
            return True
        self._again_at = self._loop.time() + CHECK_SECONDS
        try:
            await self._identity.again(self._credential)
        except Refusal:
            return False
        return True


class TaskLines:
    """See `Stream`. Thousands are quiet at once, so it holds little.

    With a message, it ends when that message has its answer; without one, when the task is over or waits.
    """

    __slots__ = (
        "_asked",
        "_batch",
        "_before",
        "_begun",
        "_credential",
        "_doubtful",
        "_ended",
        "_follower",
        "_invocation",
        "_look_in",
        "_message_id",
        "_prefix",
        "_streams",
        "_tasks",
    )

    _follower: Follower

    def __init__(
        self,
        streams: TaskStreams,
        tasks: Tasks,
        invocation: Invocation,
        credential: Credential,
        begun: Begun,
        *,
        message_id: str | None = None,
        before: Before | None = None,
        shown: bytes = b"",
        is_all: bool = False,
    ) -> None:
        self._streams = streams
        self._tasks = tasks
        self._invocation = invocation
        self._credential = credential
        self._begun: Begun | None = begun
        self._message_id = message_id
        self._before = before
        # What is still to be said: something before all events, and events.
        self._prefix = shown
        self._batch: Sequence[TaskEvent] = ()
        # Events of which only the store can tell whether they are the last ones.
        self._doubtful: list[TaskEvent] | None = None
        # The number of a question that was told while a message was on its way: it may be the last event.
        self._asked: int | None = None
        self._look_in = LOOK_SECONDS
        self._ended = is_all

    def begin(self, call: Callable[[], None]) -> None:
        """See `Stream`."""
        begun, self._begun = self._begun, None
        assert begun is not None
        self._follower = self._streams.join(begun.key, begun.seq - 1, begun.events, call)

    def close(self) -> None:
        """See `Stream`."""
        if self._begun is None:
            self._follower.close()

    def ready(self) -> bytes | None:
        """See `Stream`."""
        if self._prefix or self._batch:
            return self._chunk()
        is_unsure = self._doubtful is not None or self._asked is not None
        if self._ended or is_unsure or not self._credential.is_fresh():
            return None
        batch = self._follower.at_hand()
        if batch is None:
            return None
        place = self._possible_end(batch, 0)
        if place < len(batch) and self._ends(batch[place]) is None:
            self._doubtful = batch
            return None
        self._take(batch, place)
        return self._chunk()

    async def next(self) -> bytes | None:
        """See `Stream`."""
        if not self._prefix and not self._batch:
            if self._ended or not await self._credential.still_holds():
                return None
            batch = await self._follower.next() if self._doubtful is None else self._doubtful
            self._doubtful = None
            if batch is None or (not batch and await self._waits()):
                return None
            self._take(batch, await self._end_of(batch))
        return self._chunk()

    # Where it ends

    def _ends(self, event: TaskEvent) -> bool | None:
        """Whether nothing follows an event; None when only the store can tell."""
        if event.kind == "artifact":
            return False
        if event.kind == "message":
            return True
        state = state_of(event)
        if state != "input-required":
            return state in tasks.TERMINAL
        return None if self._message_id is None else event.message_id == self._message_id

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
            if await self._tasks.waits_since(self._follower.key, seq):
                break
            place = self._possible_end(batch, place + 1)
            if place == len(batch):
                self._look_again(seq)
        return place

    async def _waits(self) -> bool:
        """Whether the question that was told last turned out to be the last event."""
        if self._asked is None:
            return False
        seq, self._asked = self._asked, None
        if await self._tasks.waits_since(self._follower.key, seq):
            return True
        self._look_again(seq)
        return False

    def _look_again(self, seq: int) -> None:
        self._asked = seq
        asyncio.get_running_loop().call_later(self._look_in, lambda: self._follower.call())
        self._look_in = min(self._look_in * 2, LOOK_LONGEST_SECONDS)

    # What is said

    def _take(self, batch: Sequence[TaskEvent], end: int) -> None:
        before = self._before
        if before is not None and batch:
            if batch[0].kind != "task":
                shown = self._invocation.renderer.event({"task": before.whole})
                self._prefix = self._invocation.binding.event(before.number, shown)
            self._before = None
        if batch and batch[-1].seq != self._asked:
            self._asked, self._look_in = None, LOOK_SECONDS
        self._ended = end < len(batch)
        self._batch = batch[: end + 1]

    def _chunk(self) -> bytes:
        """As much of what is to be said as is not too much at once."""
        prefix, self._prefix = self._prefix, b""
        batch, self._batch = self._batch, ()
        if not batch:
            return prefix or (KEEP_ALIVE if self._follower.was_quiet() else b"")
        held, size = [prefix], 0
        for place, event in enumerate(batch, 1):
            held.append(self._frame(event))
            size += len(held[-1])
            if size >= CHUNK_BYTES:
                self._batch = batch[place:]
                break
        return b"".join(held)

    def _frame(self, event: TaskEvent) -> bytes:
        invocation = self._invocation
        is_task = event.kind == "task"
        shown = invocation.renderer.stored_event(event.payload, event.dialect, is_task=is_task)
        return invocation.binding.event(event.seq, shown)


def state_of(event: TaskEvent) -> str:
    """The task's state that an event tells; empty when it tells none."""
    if event.state is not None:
        return event.state
    if event.dialect == "0.3":
        holder: _Holder | None = _BARE.decode(event.payload)
    else:
        told = _WRAPPED.decode(event.payload)
        holder = told.task or told.status_update
    return "" if holder is None else results.state_0_3(holder.status.state)
