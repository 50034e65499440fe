"""Progress on a message from the inbox: told at once to whoever follows its task, and good for the lease."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from molecule_platform.domain import results
from molecule_platform.domain.messages import Message
from molecule_platform.domain.refusals import Refusal
from molecule_platform.domain.tasks import Task, TaskEvent
from molecule_platform.domain.workspaces import Workspace, invalid
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services import delegations, inbox_leases, own_tasks, task_log
from molecule_wire import ids, jsontext
from molecule_wire.a2a import tasks as machine

STATES = ("working", "submitted")
RENEWED = timedelta(seconds=60)
# So many events are folded anew to look at a task; then the whole of it is kept.
FOLDED_MOST = 64


@dataclass(frozen=True)
class Report:
    """How far the work is: 1.0 parts to say, an artifact or a piece of one."""

    state: str | None = None
    parts: list[Any] | None = None
    artifact: dict[str, Any] | None = None
    append: bool = False
    last_chunk: bool = False
    metadata: dict[str, Any] | None = None

    @property
    def has_status(self) -> bool:
        """Whether anything is said beside the artifact."""
        return self.state is not None or self.parts is not None or bool(self.metadata)


@dataclass(frozen=True)
class Reported:
    """The number of the newest event, and whether the sender wants the work to end."""

    seq: int
    cancel_requested: bool


class InboxProgress:
    """Takes reports from whoever holds a message."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    async def report(self, workspace: Workspace, name: str, lease_token: str, report: Report) -> Reported:
        """Append to the message's task and renew the lease; one without content only renews it."""
        if report.state not in (None, *STATES):
            sentence = f"state is one of {', '.join(STATES)}: others end a message, so send an answer"
            raise invalid("state", sentence)
        now = self._clock.now()

        def work(tx: Transaction) -> Reported:
            message = inbox_leases.addressed(tx, workspace, name)
            inbox_leases.check(message, lease_token)
            task = _appended(tx, own_tasks.begin(tx, message, now), message, report, now)
            _renew(tx, message, now)
            return Reported(task.last_seq, message.cancel_requested)

        return await self._storage.write(work)


def _appended(tx: Transaction, task: Task, message: Message, report: Report, now: datetime) -> Task:
    events = _events(tx, task, message, report, now)
    if not events:
        return task
    try:
        task = task_log.append(tx, task.key, None, events, now)
        delegations.progressed(tx, message, events, now)
    except task_log.Fenced as over:
        sentence = "the task of this message is over: nothing can be added to it"
        raise Refusal("lease-lost", sentence, status=message.status) from over
    if task.last_seq - task.snapshot_seq >= FOLDED_MOST:
        whole = jsontext.encode(task_log.folded(tx, task))
        tx.tasks.change(task.key, snapshot=whole, snapshot_seq=task.last_seq)
    return task


def _events(tx: Transaction, task: Task, message: Message, report: Report, now: datetime) -> list[TaskEvent]:
    events: list[TaskEvent] = []
    if report.artifact is not None:
        flags = {"append": report.append, "lastChunk": report.last_chunk}
        events.append(task_log.artifact_event(task, report.artifact, message.id, **flags))
        _check_artifact(tx, task, events[0])
    if report.has_status:
        said = None if report.parts is None else results.agent_message(ids.uuid7(), report.parts)
        state = report.state or "working"
        events.append(task_log.status_event(task, state, now, message.id, said, report.metadata))
    return events


def _check_artifact(tx: Transaction, task: Task, event: TaskEvent) -> None:
    """Refuse a piece of an artifact that was never begun; what is in the log must always fold."""
    try:
        machine.fold(task_log.folded(tx, task), task_log.modern(event))
    except machine.EventRefused as refused:
        raise invalid("artifact", refused.message) from refused


def _renew(tx: Transaction, message: Message, now: datetime) -> None:
    """At least another minute, never past the deadline."""
    until = max(message.lease_expires_at or now, now + RENEWED)
    tx.mailbox.extend(message.id, message.lease_epoch, min(until, message.deadline_at))
