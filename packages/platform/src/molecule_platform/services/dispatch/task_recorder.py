"""Hearing an agent out: its events, checked for their order and written under the lease of one reader."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from molecule_platform.domain import task_folding, task_ids, tasks
from molecule_platform.domain.messages import Message
from molecule_platform.domain.tasks import Task, TaskEvent, TaskKey
from molecule_platform.ports.agents import AgentEvent, ResponseTooLarge, RetryRequested
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.messaging.delegations import delegation_state
from molecule_platform.services.messaging.tasks import task_completion, task_log
from molecule_platform.services.messaging.tasks.task_log import LeaseLost
from molecule_wire import jsontext
from molecule_wire.a2a import convert, differences
from molecule_wire.a2a.operations import Dialect
from molecule_wire.a2a.tasks import EventRefused
from molecule_wire.values import value

# More is no conversation but a fault, and would cost everyone who reads it.
MOST_EVENTS = 100_000


class TaskRecorder:
    """What one reader has heard of the task of one message.

    A task that was known before (named by the platform, or read by somebody else until now) is told as the
    difference to what is already in its log; what comes first-hand is kept as it came.
    """

    def __init__(self, message: Message, max_bytes: int) -> None:
        self.message = message
        self._max_bytes = max_bytes
        # The row may be answered while its task goes on: from then on only the reader counts.
        self.outlives_lease = False
        # How many events this reader has written.
        self.written = 0
        # The task as it was folded before its end is written; see `fold`.
        self.folded: FoldedTask | None = None
        # How many bytes it was told, over all streams.
        self._size = 0
        self._heard = _EventBatch(message, message.agent_task_id, resumed=message.agent_task_id is not None)

    @property
    def task_id(self) -> str | None:
        """The agent's name for the task."""
        return self._heard.task_id

    @property
    def state(self) -> str | None:
        """The state that was last told."""
        return self._heard.state

    @property
    def artifact_bytes(self) -> int:
        """Bytes of the artifacts in the task's log."""
        return 0 if self._heard.task is None else self._heard.task.artifact_bytes

    @property
    def bare(self) -> AgentEvent | None:
        """The one message that was all the agent said."""
        return self._heard.bare

    @property
    def is_settled(self) -> bool:
        """Whether a blocking caller has its answer."""
        return self.bare is not None or self.state in tasks.SETTLED

    @property
    def is_over(self) -> bool:
        """Whether nothing can follow."""
        return self.bare is not None or self.state in tasks.TERMINAL

    def count(self, said: Sequence[AgentEvent]) -> None:
        """Count the bytes of this message's events. Raises `AnswerTooLong`, or `AskedAgain`."""
        if any([one.asks_again for one in said]):
            raise RetryRequested
        self._size += sum([len(one.payload) for one in said])
        if self._size > self._max_bytes:
            raise ResponseTooLarge(f"the agent said more than {self._max_bytes} bytes to one message")

    def rename(self, said: Sequence[AgentEvent]) -> list[AgentEvent]:
        """Rename events outside of the transaction, as far as the task is known."""
        heard = self._heard
        if heard.task is None:
            return list(said)
        return [one if heard.is_named_right(one) else replace(one, renamed=heard.rename(one)) for one in said]

    def record(self, tx: Transaction, said: Sequence[AgentEvent], now: datetime) -> "RecordResult":
        """Write what was said, numbered. Raises `Fenced`, `EventRefused` or `AnswerTooLong`."""
        if not self.outlives_lease and not tx.mailbox.is_held(self.message.id, self.message.lease_epoch):
            raise LeaseLost
        heard = self._heard.copy()
        if heard.task is not None and heard.task.last_seq + len(said) > MOST_EVENTS:
            raise EventRefused("malformed-event", f"a task has at most {MOST_EVENTS} events")
        events: list[TaskEvent] = []
        refused = None
        for one in said:
            try:
                events += heard.events(tx, one, events, now, is_last=one is said[-1])
            except EventRefused as problem:
                if not events:
                    raise
                # What was said before it was in order, and is told before the task fails.
                refused = problem
                break
        recorded = heard.write(tx, events, now)
        if heard.task is not None and events:
            task_log.check_size(heard.task, self._max_bytes)
        return replace(recorded, refused=refused)

    def heard(self, recorded: "RecordResult") -> None:
        """What was recorded is on disk."""
        self._heard = recorded.heard
        self.written += len(recorded.events)

    def ask_about(self, task_id: str | None) -> None:
        """The agent named its task without saying anything new of it."""
        if task_id is not None and self._heard.task_id is None:
            self._heard = replace(self._heard, task_id=task_id)

    def too_late(self, said: Sequence[AgentEvent]) -> None:
        """The message had ended before this was said, which is not kept: only what it makes of the task."""
        last = said[-1]
        self._heard = replace(
            self._heard,
            task_id=last.task_id or self._heard.task_id,
            state=last.state or self._heard.state,
            bare=last if last.kind == "message" else None,
        )

    def resume(self, *, forgotten: bool = False) -> None:
        """What comes next may have been told before; an agent that forgot its task begins a new one."""
        task_id = None if forgotten else self.task_id
        self._heard = replace(self._heard, task_id=task_id, task=None, resumed=True)


@value
class RecordResult:
    """What was written: the events with their numbers, and what is known after them."""

    key: TaskKey
    events: list[TaskEvent]
    heard: "_EventBatch"
    # What came after them and broke the order.
    refused: EventRefused | None = None


@dataclass(slots=True)
class _EventBatch:
    """What is known; a copy is changed inside a transaction, which may run twice."""

    message: Message
    task_id: str | None
    resumed: bool
    state: str | None = None
    # The state that the events of this message told last, in this dispatch or before a crash.
    told_state: str | None = None
    bare: AgentEvent | None = None
    task: Task | None = None
    artifacts: set[str] = field(default_factory=set[str])

    def copy(self) -> "_EventBatch":
        """The same, to be changed."""
        return replace(self, artifacts=set(self.artifacts))

    @property
    def reader(self) -> str:
        """The name under which this reader appends."""
        return f"{self.message.id}/{self.message.lease_epoch}"

    def events(
        self, tx: Transaction, said: AgentEvent, before: Sequence[TaskEvent], now: datetime, *, is_last: bool
    ) -> list[TaskEvent]:
        """The events to append for one thing said, after those before it that are still to be written."""
        self._check(said)
        begins = self.task is None
        if begins:
            self._meet(tx, said, now)
        if said.kind == "message":
            return self._bare(said, now)
        assert self.task is not None
        new = set(said.artifact_ids) - self.artifacts
        if said.append and new and not tx.tasks.has_artifacts(self.task.key, new):
            raise EventRefused("append-to-unknown-artifact", "the first chunk of this artifact never came")
        known_before = self.task.last_seq > 0
        if said.kind == "task" and known_before and (begins or self.resumed):
            events = self._news(tx, said, before, is_last)
            self.told_state = next((one.state for one in reversed(events) if one.state), self.told_state)
        else:
            payload = said.payload if self.is_named_right(said) else said.renamed or self.rename(said)
            begun = () if said.append else tuple(new)
            events = [
                TaskEvent(said.kind, payload, said.dialect, 0, self.message.id, None, said.state, begun)
            ]
            self.told_state = said.state or self.told_state
        self._note(said, is_last)
        if begins and not known_before and said.kind != "task":
            events = [self._missing_task(now), *events]
        return events

    def write(self, tx: Transaction, events: list[TaskEvent], now: datetime) -> RecordResult:
        """Append the events to the task, or keep the one bare message."""
        if self.task is None:
            key = TaskKey(self.message.target_id, self.message.tenant, self.message.id)
            numbered = [event.numbered(1, self.message.id, now) for event in events]
            for event in numbered:
                tx.tasks.note(key, self.message.org_id, event)
            return RecordResult(key, numbered, self)
        key = self.task.key
        if events:
            self.task = task_log.append(tx, key, self.reader, events, now)
            delegation_state.progressed(tx, self.message, events, now)
        first = self.task.last_seq - len(events) + 1
        numbered = [event.numbered(first + n, self.message.id, now) for n, event in enumerate(events)]
        return RecordResult(key, numbered, self)

    def _check(self, said: AgentEvent) -> None:
        if self.bare is not None:
            raise EventRefused("event-after-message", "something came after the Message that ends a stream")
        if self.state in tasks.TERMINAL:
            raise EventRefused("event-after-terminal", "something came after the task had ended")
        if said.kind == "message" and self.state is not None:
            raise EventRefused("message-after-task", "a stream that began with a Task holds no bare Message")
        if self.task is not None and said.task_id not in (None, self.task_id):
            raise EventRefused("foreign-task", "the event names another task than its stream")

    def _meet(self, tx: Transaction, said: AgentEvent, now: datetime) -> None:
        """Find the task, or make the agent's own known."""
        task = task_log.task_of(tx, self.message)
        if task is None and said.kind == "message":
            return
        if task is None:
            if not said.task_id:
                raise EventRefused("malformed-event", "an event names no task")
            task = task_completion.adopt_agent_task(tx, self.message, said.task_id, said.context_id, now)
        elif said.task_id and task.agent_task_id not in (None, said.task_id) and self.task_id is not None:
            raise EventRefused("foreign-task", "the agent answered for another task than it was asked about")
        if task is None:
            raise EventRefused("foreign-task", "the agent named a task that belongs to somebody else")
        self.task_id = said.task_id or task.agent_task_id or task.id
        tx.tasks.change(
            task.key, reader=self.reader, message_id=self.message.id, agent_task_id=self.task_id, look_at=None
        )
        if task.agent_task_id is None:
            tx.mailbox.belongs_to(self.message.id, task.id, self.task_id, task.context_id)
        if task.last_seq:
            self.told_state = self.told_state or task_log.state_told_by(tx, task, self.message)
        self.task = task

    def _news(
        self, tx: Transaction, said: AgentEvent, before: Sequence[TaskEvent], is_last: bool
    ) -> list[TaskEvent]:
        """What the task as the agent shows it says that was not told yet."""
        assert self.task is not None
        known = task_folding.fold_all(task_log.folded(tx, self.task), task_log.readable(before)) or {}
        snapshot = task_ids.under(self.task, modern_task(said))
        waits = said.state in tasks.INTERRUPTED
        if waits and not is_last:
            # The agent showed what it had asked before, and went on: that is no question to this message.
            snapshot |= {"status": known["status"], "history": known.get("history")}
        # A question is told once for each message that it answers, be it the same as before.
        asks = waits and is_last and said.state != self.told_state
        return [
            task_log.event_from(cast("dict[str, Any]", event), self.message.id)
            for event in differences.difference(known, snapshot, again=asks)
        ]

    def is_named_right(self, said: AgentEvent) -> bool:
        """True if the event has the ids that the sender knows."""
        assert self.task is not None
        return said.task_id in (None, self.task.id) and said.context_id == self.task.context_id

    def rename(self, said: AgentEvent) -> bytes:
        """Write the event under the ids that its sender knows."""
        assert self.task is not None
        value = jsontext.decode(said.payload)
        wrapped = value if said.dialect == "1.0" else convert.FROM_0_3.event(cast("dict[str, Any]", value))
        ((member, body),) = cast("dict[str, Any]", wrapped).items()
        named: Any = {member: task_ids.under(self.task, body)}
        return jsontext.encode(named if said.dialect == "1.0" else convert.TO_0_3.event(named))

    def _note(self, said: AgentEvent, is_last: bool) -> None:
        # A task that waits, and was only shown before the agent went on, waits no more.
        was_shown = said.kind == "task" and said.state in tasks.INTERRUPTED and not is_last
        self.state = "working" if was_shown else said.state or self.state or "working"
        self.artifacts.update(said.artifact_ids)

    def _bare(self, said: AgentEvent, now: datetime) -> list[TaskEvent]:
        """A bare message ends the stream; for a sender that knows a task it is the task's last word."""
        self.bare = said
        if self.task is None:
            return [TaskEvent("message", said.payload, said.dialect, 0, self.message.id)]
        self.state = "completed"
        words = task_log.modern(TaskEvent("message", said.payload, said.dialect)).get("message")
        return [task_log.status_event(self.task, "completed", now, self.message.id, words)]

    def _missing_task(self, now: datetime) -> TaskEvent:
        """A stream begins with its Task; one whose agent forgot gets it from us."""
        assert self.task is not None
        shown = {
            "id": self.task.id,
            "contextId": self.task.context_id,
            "status": task_log.status_of("submitted", now),
        }
        return task_log.event_of("task", shown, self.message.id, "submitted")


def modern_task(said: AgentEvent) -> dict[str, Any]:
    """The 1.0 task inside a task event."""
    return task_log.modern(TaskEvent("task", said.payload, said.dialect))["task"]


@value
class FoldedTask:
    """A task that is over, folded up to an event: the whole of it, and the result for the sender."""

    seq: int
    snapshot: bytes
    result: bytes


def load(tx: Transaction, hearing: TaskRecorder) -> tuple[Task, list[TaskEvent]] | None:
    """Read the task of a message and its events, to be folded outside of the transaction."""
    message = hearing.message
    task = task_log.task_of(tx, tx.mailbox.get(message.id) or message)
    if task is None or not task.is_over or task.snapshot is not None:
        return None
    return task, list(task_log.events_after(tx, task.key, 0))


def fold(hearing: TaskRecorder, task: Task, events: Sequence[TaskEvent]) -> None:
    """Fold the loaded events; `result_of` uses the result if nothing came after them."""
    snapshot = jsontext.encode(task_log.fold(task, events))
    result = _spelled(b'{"task":' + snapshot + b"}", "1.0", hearing.message.dialect)
    hearing.folded = FoldedTask(task.last_seq, snapshot, result)


def result_of(tx: Transaction, hearing: TaskRecorder) -> bytes | None:
    """What the message is answered with: the whole task, or the bare message, in its sender's dialect."""
    message, said = hearing.message, hearing.bare
    task = task_log.task_of(tx, tx.mailbox.get(message.id) or message)
    folded = hearing.folded
    if task is not None and folded is not None and folded.seq == task.last_seq:
        task_completion.keep(tx, task, folded.snapshot)
        return folded.result
    if task is not None:
        payload = b'{"task":' + task_completion.whole(tx, task) + b"}"
        return _spelled(payload, "1.0", message.dialect)
    return None if said is None else _spelled(said.payload, said.dialect, message.dialect)


def _spelled(payload: bytes, dialect: Dialect, wanted: str) -> bytes:
    if dialect == wanted:
        return payload
    modern: Any = task_log.modern(TaskEvent("message", payload, dialect))
    return jsontext.encode(modern if wanted == "1.0" else convert.TO_0_3.event(modern))
