"""Reading one stream of an agent: what comes, until its task is settled or the stream ends."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from molecule_platform.agents import event_parser, response_parser
from molecule_platform.domain import tasks
from molecule_platform.egress.streaming import StreamingResponse
from molecule_platform.ports.agents import (
    AgentEvent,
    Completed,
    DeliveryFailed,
    InProgress,
    ResponseTooLarge,
    Tell,
)
from molecule_platform.services.support.worker_thread import run_in_thread_if_large
from molecule_wire.a2a import differences
from molecule_wire.a2a.operations import Dialect
from molecule_wire.a2a.tasks import EventRefused
from molecule_wire.jsonlimits import JSONLimits, TooMuch
from molecule_wire.sse_decoder import EVENT_MAX_BYTES, SSEDecoder, SSEEvent

# What an agent says while its task is read comes on another connection, perhaps a little later than the task.
OVERLAP_SECONDS = 0.05
# An agent closes its stream with a question; one that leaves it open, and says no more, has asked.
QUESTION_SECONDS = 5.0

Look = Callable[[], Awaitable[AgentEvent | DeliveryFailed]]


class AgentEventReader:
    """Tells the events of one stream, in order.

    With `look` it is a subscription to a task whose earlier stream was cut. Agents of 1.0 begin with the task
    as it stands. Those of 0.3 begin with what is new, so the task is read once the subscription stands, and
    once more before its end is told: nothing can be said between the two, or be counted twice in the end. If
    the agent does not show its task, the next event is marked (`events.after_gap`).

    `continues` is a stream that goes on with a task. It may show that task first as it was before the message
    came: a question in it is an answer to the message only if nothing follows.
    """

    def __init__(
        self,
        spoken: Dialect,
        tell: Tell,
        most_bytes: int,
        limits: JSONLimits,
        *,
        continues: bool = False,
        look: Look | None = None,
    ) -> None:
        self._spoken: Dialect = spoken
        self._tell = tell
        self._most_bytes = self._left = most_bytes
        self._limits = limits
        self._continues = continues
        self._look = look
        self._task_id: str | None = None
        self._began = False
        # A task that waits, of which the next event decides what it means.
        self._shown: AgentEvent | None = None
        # The task that was read after a cut: not told yet, or told, and events may come that are in it.
        self._untold: AgentEvent | None = None
        self._overlapped: AgentEvent | None = None
        self._overlap: list[AgentEvent] = []
        self._overlap_until = 0.0
        # Whether the first event came; whether the end is to be confirmed by the task; what is not known.
        self._has_begun = self._confirms = self._has_gap = self._is_unsure = False

    async def read(self, answer: StreamingResponse) -> Completed | InProgress | DeliveryFailed:
        """Tell what comes. Raises `NoAnswer`, `AnswerTooLong`, `EventTooLarge`, `EventRefused`."""
        # A subscription may begin with the whole task, which is as large as an answer may be.
        decoder = SSEDecoder(EVENT_MAX_BYTES if self._look is None else self._most_bytes)
        if self._look is not None and self._spoken == "0.3":
            await self._catch_up(self._look)
        while True:
            if self._untold is not None and not answer.has_unread:
                ended = await self._tell_snapshot()
                if ended is not None:
                    return ended
            chunk = await (answer.piece() if self._shown is None else _soon(answer))
            if not chunk:
                break
            self._left -= len(chunk)
            if self._left < 0:
                raise ResponseTooLarge(f"the agent's stream is larger than {self._most_bytes} bytes")
            ended = await self._heard(decoder.feed(chunk))
            if ended is not None:
                return ended
        if self._shown is not None:
            await self._tell([self._shown])
        return self.broke_off("the agent's stream ended before its task", True)

    def broke_off(self, sentence: str, sent: bool) -> InProgress | DeliveryFailed:
        """What is left of a stream that ended too early: a task to ask about, or nothing."""
        if self._began and self._task_id is not None:
            return InProgress(self._task_id)
        code = "invalid-agent-response" if sent else "peer-unreachable"
        return DeliveryFailed(code, sentence, True, delivery_confirmed=sent)

    async def _heard(self, frames: Iterable[SSEEvent]) -> Completed | DeliveryFailed | None:
        said: list[AgentEvent] = []
        error: bytes | None = None
        refused: EventRefused | None = None
        for event in frames:
            try:
                frame = await run_in_thread_if_large(len(event.data), partial(self._parsed, event.data))
                if not isinstance(frame, AgentEvent):
                    error = frame
                    break
                said.append(frame)
            except EventRefused as problem:
                refused = problem
                break
            if self._is_last(said[-1]):
                break
        ended = await self._tell_events(said) if said else None
        if ended is not None:
            return ended
        if refused is not None:
            raise refused
        return None if error is None else response_parser.failed(error)

    def _parsed(self, data: bytes) -> AgentEvent | bytes:
        """Return the event in a frame, or the JSON-RPC error. Raises `EventRefused`."""
        self._check(data)
        frame = event_parser.frame(data)
        return (
            (frame.error or b"{}") if frame.result is None else event_parser.read(frame.result, self._spoken)
        )

    def _check(self, data: bytes) -> None:
        try:
            if self._limits.needs_scan(data):
                self._limits.scan(data)
        except TooMuch as problem:
            raise EventRefused("malformed-event", f"an event is too much to read: {problem}") from problem

    async def _tell_events(self, said: list[AgentEvent]) -> Completed | None:
        """Tell what came; the answer if nothing follows."""
        self._note(said)
        if self._look is not None:
            if said[0].kind == "task":
                # What follows it in the stream follows it in truth: no other task is needed.
                self._untold = self._overlapped = None
                self._confirms = self._has_gap = False
            elif not self._has_begun and self._spoken == "1.0":
                await self._catch_up(self._look)
            self._has_begun = True
            ended = await self._tell_snapshot() if self._untold is not None else None
            if ended is not None:
                return ended
            said = self._without_overlap(said)
        if self._shown is not None:
            said, self._shown = [self._shown, *said], None
        if self._continues and said and said[-1].kind == "task" and said[-1].state == "input-required":
            self._shown = said.pop()
        if not said:
            return None
        is_last = self._is_last(said[-1])
        if is_last and self._look is not None and self._confirms:
            said[-1] = await self._confirmed(said[-1], self._look)
        if self._has_gap:
            said[0], self._has_gap = event_parser.mark_gap(said[0]), False
        await self._tell(said)
        return Completed(task_state=said[-1].state or "completed") if is_last else None

    def _note(self, said: list[AgentEvent]) -> None:
        self._began = True
        self._task_id = next((one.task_id for one in reversed(said) if one.task_id), self._task_id)

    def _is_last(self, said: AgentEvent) -> bool:
        """Whether nothing follows; a subscriber is shown a task that waits as it is now."""
        if said.kind == "message" or said.state in tasks.TERMINAL:
            return True
        is_news = said.kind == "status" or self._look is not None
        return is_news and said.state == "input-required"

    # After a cut

    async def _catch_up(self, look: Look) -> None:
        """Read the task while the subscription stands."""
        found = await look()
        if isinstance(found, AgentEvent) and found.kind == "task":
            self._untold, self._confirms = found, True
        else:
            self._has_gap = True

    async def _tell_snapshot(self) -> Completed | None:
        """Tell the task as it was read; the answer if it is settled."""
        snapshot, self._untold = self._untold, None
        assert snapshot is not None
        self._note([snapshot])
        await self._tell([snapshot])
        if self._is_last(snapshot):
            return Completed(task_state=snapshot.state or "completed")
        self._overlapped = snapshot
        self._overlap_until = asyncio.get_running_loop().time() + OVERLAP_SECONDS
        return None

    def _without_overlap(self, said: list[AgentEvent]) -> list[AgentEvent]:
        """The events without those that the task showed when it was read."""
        if self._overlapped is None or asyncio.get_running_loop().time() > self._overlap_until:
            self._overlapped = None
            return said
        self._is_unsure = True
        self._overlap += said
        snapshot = event_parser.modern(self._overlapped)["task"]
        fresh = len(differences.unseen(snapshot, [event_parser.modern(one) for one in self._overlap]))
        if fresh:
            self._overlapped = None
        return self._overlap[len(self._overlap) - fresh :]

    async def _confirmed(self, last: AgentEvent, look: Look) -> AgentEvent:
        """The end of a task whose stream was joined: the whole task, if the agent shows it."""
        found = await look()
        if isinstance(found, AgentEvent) and found.state == last.state:
            return found
        self._has_gap |= self._is_unsure
        return last


async def _soon(answer: StreamingResponse) -> bytes:
    """The next piece; nothing when it does not come soon."""
    try:
        async with asyncio.timeout(QUESTION_SECONDS):
            return await answer.piece()
    except TimeoutError:
        return b""
