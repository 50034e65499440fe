"""Progress reports on a leased message: events of its task, appended once, that also renew the lease."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from molecule_platform.domain import messages, results
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.messages import Message
from molecule_platform.domain.tasks import Task, TaskEvent
from molecule_platform.domain.workspaces import Workspace, invalid
from molecule_platform.ports.agents import ResponseTooLarge
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.messaging.delegations import delegation_state
from molecule_platform.services.messaging.inbox import inbox_leases
from molecule_platform.services.messaging.tasks import platform_tasks, task_log
from molecule_wire import ids

STATES = ("working", "submitted")
RENEWED = timedelta(seconds=60)
# All inline artifacts of one running task.
ARTIFACTS_MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class ProgressReport:
    """How far the work is: 1.0 parts to say, an artifact or a piece of one."""

    state: str | None = None
    parts: list[Any] | None = None
    artifact: dict[str, Any] | None = None
    append: bool = False
    last_chunk: bool = False
    metadata: dict[str, Any] | None = None
    # Counts the reports of one lease from 1; a repeated number appends nothing.
    number: int | None = None

    @property
    def has_status(self) -> bool:
        """Whether anything is said beside the artifact."""
        return self.state is not None or self.parts is not None or bool(self.metadata)


@dataclass(frozen=True)
class ProgressResult:
    """The number of the newest event, and whether the sender wants the work to end."""

    seq: int
    cancel_requested: bool


class InboxProgress:
    """Takes reports from whoever holds a message."""

    def __init__(self, storage: Storage, clock: Clock, max_bytes: int = ARTIFACTS_MAX_BYTES) -> None:
        self._storage = storage
        self._clock = clock
        self._max_bytes = max_bytes

    async def report(
        self, workspace: Workspace, name: str, lease_token: str, report: ProgressReport
    ) -> ProgressResult:
        """Append to the message's task and renew the lease; one without content only renews it.

        Artifacts that are too large together end the message, because no answer could hold them.
        """
        if report.state not in (None, *STATES):
            sentence = f"state is one of {', '.join(STATES)}: others end a message, so send an answer"
            raise invalid("state", sentence)
        now = self._clock.now()

        def held(tx: Transaction) -> Message:
            message = inbox_leases.addressed(tx, workspace, name)
            inbox_leases.check(message, lease_token)
            return message

        def work(tx: Transaction) -> ProgressResult:
            message = held(tx)
            task = platform_tasks.begin(tx, message, now)
            if not _is_repeated(task, message, report):
                task = self._appended(tx, task, message, report, now)
            _renew(tx, message, now)
            seq = task.report_seq if report.number is not None else task.last_seq
            return ProgressResult(seq, message.cancel_requested)

        # Who does not hold the message is refused before the report, which may be large, reaches the writer.
        await self._storage.glance(held)
        try:
            return await self._storage.write(work)
        except ResponseTooLarge as too_long:
            await self._fail(workspace, name, lease_token, too_long.sentence)
            facts = {"limit": "task-artifacts", "maximum": self._max_bytes}
            raise ApiError("payload-too-large", f"{too_long.sentence}: the message failed", **facts) from None

    async def _fail(self, workspace: Workspace, name: str, lease_token: str, sentence: str) -> None:
        def work(tx: Transaction) -> None:
            message = inbox_leases.addressed(tx, workspace, name)
            inbox_leases.check(message, lease_token)
            outcome = messages.failure("invalid-agent-response", sentence)
            inbox_leases.settled(tx, message, outcome, self._clock.now())

        await self._storage.write(work)

    def _appended(
        self, tx: Transaction, task: Task, message: Message, report: ProgressReport, now: datetime
    ) -> Task:
        events = _events(tx, task, message, report, now)
        if events:
            try:
                task = task_log.append(tx, task.key, None, events, now)
                delegation_state.progressed(tx, message, events, now)
            except task_log.LeaseLost as over:
                sentence = "the task of this message is over: nothing can be added to it"
                raise ApiError("lease-lost", sentence, status=message.status) from over
            task_log.check_size(task, self._max_bytes)
        if report.number is None:
            return task
        said = {"report_lease": _lease(message), "report_number": report.number, "report_seq": task.last_seq}
        tx.tasks.change(task.key, **said)
        return replace(task, **said)


def _lease(message: Message) -> str:
    return f"{message.id}/{message.lease_epoch}"


def _is_repeated(task: Task, message: Message, report: ProgressReport) -> bool:
    """Return True if the report, or one after it, was appended under the same lease."""
    is_same_lease = task.report_lease == _lease(message)
    return report.number is not None and is_same_lease and report.number <= task.report_number


def _events(
    tx: Transaction, task: Task, message: Message, report: ProgressReport, now: datetime
) -> list[TaskEvent]:
    events: list[TaskEvent] = []
    if report.artifact is not None:
        flags = {"append": report.append, "lastChunk": report.last_chunk}
        _check_artifact(tx, task, report.artifact, append=report.append)
        events.append(task_log.artifact_event(task, report.artifact, message.id, **flags))
    if report.has_status:
        said = None if report.parts is None else results.agent_message(ids.uuid7(), report.parts)
        state = report.state or "working"
        events.append(task_log.status_event(task, state, now, message.id, said, report.metadata))
    return events


def _check_artifact(tx: Transaction, task: Task, artifact: dict[str, Any], *, append: bool) -> None:
    """Refuse a chunk without an artifact to belong to: what is in the log must always fold."""
    artifact_id = artifact.get("artifactId")
    if not isinstance(artifact_id, str):
        raise invalid("artifact", "an artifact needs its artifactId")
    if append and not tx.tasks.has_artifacts(task.key, [artifact_id]):
        raise invalid("artifact", "the first chunk of this artifact never came")


def _renew(tx: Transaction, message: Message, now: datetime) -> None:
    """At least another minute, never past the deadline."""
    until = max(message.lease_expires_at or now, now + RENEWED)
    tx.mailbox.extend(message.id, message.lease_epoch, min(until, message.deadline_at))
