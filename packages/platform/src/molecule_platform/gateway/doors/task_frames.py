"""Tasks as server-sent events: the events of a message just sent, or of a task that somebody follows.

A stream is read from the task's log, so who reads slowly, comes late or goes away changes nothing for others.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from molecule_platform.api.calls import Reply
from molecule_platform.domain import results, tasks
from molecule_platform.domain.messages import Message
from molecule_platform.domain.refusals import Refusal
from molecule_platform.domain.tasks import TaskEvent, TaskKey
from molecule_platform.gateway.doors.asks import Ask
from molecule_platform.gateway.doors.framing import Framing, streaming
from molecule_platform.gateway.doors.speech import Speech
from molecule_platform.services import settlement
from molecule_platform.services.delivery import Delivery
from molecule_platform.services.identity import Identity
from molecule_platform.services.task_streams import Begun, TaskStreams
from molecule_platform.services.tasks import Rejoined, Tasks
from molecule_wire.a2a.sse import KEEP_ALIVE

IsEnd = Callable[[TaskEvent, str], Awaitable[bool]]

FIRST_SECONDS = 15.0
CHECK_SECONDS = 1.0
CHUNK_BYTES = 64 * 1024


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


class _Credential:
    """What opened a stream; the stream ends with it."""

    __slots__ = ("_again_at", "_credential", "_identity", "_loop")

    def __init__(self, identity: Identity, credential: str) -> None:
        self._identity = identity
        self._credential = credential
        self._loop = asyncio.get_running_loop()
        self._again_at = self._loop.time() + CHECK_SECONDS

    async def still_holds(self) -> bool:
        """Whether it was neither revoked nor has it expired, as of a second ago."""
        now = self._loop.time()
        if now < self._again_at:
            return True
        self._again_at = now + CHECK_SECONDS
        try:
            await self._identity.again(self._credential)
        except Refusal:
            return False
        return True


class _Listener:
    """What a stream still needs of the request that opened it; the rest of it is let go."""

    __slots__ = ("credential", "frame", "speech")

    def __init__(self, framing: Framing, speech: Speech, credential: _Credential) -> None:
        self.frame = framing.frame
        self.speech = speech
        self.credential = credential


class TaskFrames:
    """Makes streams."""

    def __init__(self, streams: TaskStreams, deliveries: Delivery, tasks_: Tasks, identity: Identity) -> None:
        self._streams = streams
        self._deliveries = deliveries
        self._tasks = tasks_
        self._identity = identity

    async def of_message(self, ask: Ask, message: Message, before: Before | None) -> Reply:
        """The stream of a message. What goes wrong before its first event is an answer, not a stream."""
        begun = await self._streams.beginning(message.id, FIRST_SECONDS)
        if begun is None:
            message = await self._deliveries.get(message.id)
            if not message.is_open:
                return await self._without_events(ask, message)
            return _reply(ask, self._awaiting(ask, message.id, before))
        return _reply(ask, self._message_lines(ask, message.id, begun, before))

    async def of_task(self, ask: Ask, rejoined: Rejoined) -> Reply:
        """The stream of a task from where its follower comes in."""
        return _reply(ask, self._task_lines(ask, rejoined))

    # What is written

    async def _awaiting(self, ask: Ask, message_id: str, before: Before | None) -> AsyncGenerator[bytes]:
        """The stream of a message whose agent is long in coming to its first word."""
        begun = None
        while begun is None:
            yield KEEP_ALIVE
            begun, ended, is_closing = await self._awaited(message_id)
            if ended is not None:
                yield _last_word(ask, ended)
            if ended is not None or is_closing:
                return
        async for lines in self._message_lines(ask, message_id, begun, before):
            yield lines

    def _message_lines(
        self, ask: Ask, message_id: str, begun: Begun, before: Before | None
    ) -> AsyncGenerator[bytes]:
        shown: Before | None = None
        if before is not None and before.key == begun.key:
            begun, shown = Begun(before.key, before.number + 1), before

        async def is_end(event: TaskEvent, state: str) -> bool:
            return state in tasks.TERMINAL or (state == "input-required" and event.message_id == message_id)

        return self._lines(self._listener(ask), begun, is_end, shown)

    async def _awaited(self, message_id: str) -> tuple[Begun | None, Message | None, bool]:
        """The beginning of a message's events; or the message, if it ended without any; or that we close."""
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        begun = await self._streams.beginning(message_id, FIRST_SECONDS)
        current = None if begun is not None else await self._deliveries.get(message_id)
        if current is None or not current.is_open:
            return begun, current, False
        # Streams that end before their time do so because the house closes.
        return None, None, loop.time() - asked_at < FIRST_SECONDS / 2

    async def _task_lines(self, ask: Ask, rejoined: Rejoined) -> AsyncGenerator[bytes]:
        if rejoined.shown is not None:
            yield ask.framing.frame(rejoined.number, ask.speech.task_result(rejoined.shown))
        if rejoined.is_all:
            return

        async def is_end(event: TaskEvent, state: str) -> bool:
            if state in tasks.TERMINAL:
                return True
            # Someone who replays passes questions that were answered long ago.
            return state == "input-required" and await self._tasks.waits_since(rejoined.key, event.seq)

        begun = Begun(rejoined.key, rejoined.number + 1)
        async for lines in self._lines(self._listener(ask), begun, is_end, None):
            yield lines

    def _listener(self, ask: Ask) -> _Listener:
        credential = _Credential(self._identity, ask.call.principal.credential)
        return _Listener(ask.framing, ask.speech, credential)

    async def _lines(
        self, listener: _Listener, begun: Begun, is_end: IsEnd, before: Before | None
    ) -> AsyncGenerator[bytes]:
        with self._streams.following(begun.key, begun.seq - 1, begun.events) as follower:
            del begun
            while (batch := await follower.next()) is not None:
                if not await listener.credential.still_holds():
                    return
                if not batch:
                    yield KEEP_ALIVE
                    continue
                if before is not None and batch[0].kind != "task":
                    yield listener.frame(before.number, listener.speech.task_result(before.whole))
                before = None
                ended = await _end_of(batch, is_end)
                for lines in _chunks(batch if ended is None else batch[: ended + 1], listener):
                    yield lines
                if ended is not None:
                    return
                del batch

    async def _without_events(self, ask: Ask, message: Message) -> Reply:
        """A message that ended before anything was said of it."""
        if message.status != "answered":
            raise settlement.error_of(message)

        async def lines() -> AsyncGenerator[bytes]:
            yield _last_word(ask, message)

        return _reply(ask, lines())


async def _end_of(batch: list[TaskEvent], is_end: IsEnd) -> int | None:
    """The place of the event that ends the stream, if it is in the batch."""
    for place, event in enumerate(batch):
        if event.kind == "artifact":
            continue
        if event.kind == "message":
            return place
        state = state_of(event)
        if state in tasks.SETTLED and await is_end(event, state):
            return place
    return None


def _chunks(batch: list[TaskEvent], listener: _Listener) -> Iterator[bytes]:
    """The frames of a batch, as many at once as are not too much at once."""
    frame, spoken = listener.frame, listener.speech.event
    if len(batch) == 1:
        yield frame(batch[0].seq, spoken(batch[0]))
        return
    held: list[bytes] = []
    size = 0
    for event in batch:
        held.append(frame(event.seq, spoken(event)))
        size += len(held[-1])
        if size >= CHUNK_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


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


def _last_word(ask: Ask, message: Message) -> bytes:
    """The one frame of a message that ended without an event."""
    if message.status != "answered":
        return ask.framing.problem_frame(settlement.error_of(message))
    return ask.framing.frame(1, ask.speech.task_result(results.snapshot(message, "1.0")))


def _reply(ask: Ask, lines: AsyncGenerator[bytes]) -> Reply:
    headers, media = streaming(ask.echoed)
    return Reply(headers=headers, content_type=media, stream=lines)
