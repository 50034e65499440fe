"""Tasks, as those see them who may: one rule for every operation; for anyone else a task does not exist."""

from dataclasses import dataclass
from typing import Any

from molecule_platform.domain import message_access, messages, results
from molecule_platform.domain.messages import Message
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.tasks import Task, TaskKey
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.messaging.messages import message_service
from molecule_platform.services.messaging.messages.message_service import MessageService
from molecule_platform.services.messaging.tasks import task_log
from molecule_wire.a2a import errors
from molecule_wire.a2a.envelopes import A2ARequest
from molecule_wire.a2a.server import resumption
from molecule_wire.values import value

SEE, STEER = "org.read", "org.send"
"""What somebody of the organisation needs for looking at a task, and for changing its course."""


@value
class TaskQuery:
    """Who asks, and in which agent and tenant."""

    principal: Principal
    workspace: Workspace
    tenant: str = ""


@dataclass(frozen=True)
class ResumedStream:
    """Where a follower comes in: the task it is shown first, and the number after which it goes on.

    `is_all` tells that nothing can follow.
    """

    key: TaskKey
    shown: dict[str, Any] | None
    number: int
    is_all: bool = False


class TaskService:
    """Finds tasks and reads them."""

    def __init__(self, storage: Storage, clock: Clock, deliveries: MessageService) -> None:
        self._storage = storage
        self._clock = clock
        self._deliveries = deliveries

    async def find(self, asking: TaskQuery, name: str, scope: str = SEE) -> Task:
        """A task by any of its names. Raises -32001 for strangers as for a name that nobody has."""
        found = await self._storage.read(lambda tx: _named(tx, asking, name, scope))
        if isinstance(found, Message):
            found = await self._begun(asking, found)
        if found is None:
            raise errors.protocol_error(errors.TASK_NOT_FOUND)
        return found

    async def _begun(self, asking: TaskQuery, message: Message) -> Task | None:
        """The task of a message that nobody was told of yet: from now on somebody is."""
        if message.is_open:
            await self._deliveries.show(message.id)
        return await self._storage.read(
            lambda tx: tx.tasks.named(asking.workspace.id, asking.tenant, message.id)
        )

    async def get(self, asking: TaskQuery, name: str) -> dict[str, Any]:
        """The whole task, in 1.0."""

        def work(tx: Transaction) -> dict[str, Any] | None:
            found = _named(tx, asking, name, SEE)
            if found is None:
                return None
            return (
                results.snapshot(found, "1.0") if isinstance(found, Message) else task_log.folded(tx, found)
            )

        whole = await self._storage.read(work)
        if whole is None:
            raise errors.protocol_error(errors.TASK_NOT_FOUND)
        return whole

    async def whole(self, key: TaskKey) -> tuple[dict[str, Any], int]:
        """The task as it stands, in 1.0, and the number of its newest event."""

        def work(tx: Transaction) -> tuple[dict[str, Any], int]:
            task = _existing(tx, key)
            return task_log.folded(tx, task), task.last_seq

        return await self._storage.read(work)

    async def of_message(self, message: Message) -> dict[str, Any] | None:
        """The whole task of a message, in 1.0; None when there is none."""

        def work(tx: Transaction) -> dict[str, Any] | None:
            task = task_log.task_of(tx, message)
            return None if task is None else task_log.folded(tx, task)

        return await self._storage.read(work)

    async def waits_since(self, key: TaskKey, seq: int) -> bool:
        """Whether nothing has come after an event, and no message is on its way that it could come from."""

        def work(tx: Transaction) -> bool:
            # In this order: what a message ends with is there before it is seen to have ended.
            message = tx.mailbox.by_task(key.workspace_id, key.id)
            if message is not None and message.is_open:
                return False
            return tx.tasks.newest([key]).get(key, seq) <= seq

        return await self._storage.read(work)

    # Going on with a task

    async def continued(
        self, asking: TaskQuery, request: A2ARequest, idempotency_key: str | None, by_reference: bool
    ) -> Task | None:
        """The task that a message goes on with; None for a new one. Raises what keeps it from going on."""
        if request.task_id is None:
            return None
        task = await self.find(asking, request.task_id, STEER)
        if request.context_id not in (None, task.context_id):
            sentence = "is not the context of the task: leave it out, or send the task's own"
            raise errors.invalid_params(errors.Violation("message.contextId", sentence))
        if task.is_over and not await self._is_repeat(asking, request, idempotency_key, by_reference):
            sentence = f"The task is {task.state}: send a new message without its taskId"
            raise errors.protocol_error(errors.UNSUPPORTED_OPERATION, sentence)
        return task

    async def _is_repeat(
        self, asking: TaskQuery, request: A2ARequest, idempotency_key: str | None, by_reference: bool
    ) -> bool:
        """Whether the message was accepted before: then it has its outcome, whatever became of the task."""
        caller, target = asking.principal.text, asking.workspace.id

        def work(tx: Transaction) -> Message | None:
            if idempotency_key is not None:
                return tx.mailbox.by_key(caller, target, idempotency_key)
            if not (by_reference and request.given_message_id and request.message_id):
                return None
            since = self._clock.now() - messages.REPEAT_WINDOW
            digest = message_service.body_hash(request)
            return tx.mailbox.by_reference(caller, target, request.message_id, digest, since)

        return await self._storage.read(work) is not None

    # Following

    async def rejoin(self, task: Task, last_seen: str | None) -> ResumedStream:
        """Where a follower comes in that has seen the events up to a number, or none."""
        return await self._storage.read(lambda tx: _rejoined(tx, task.key, last_seen))


def may(principal: Principal, task: Task, scope: str) -> bool:
    """Whether a task exists for a principal of its organisation: its creator's, its agent's, and by scope."""
    if principal.text == task.owner:
        return True
    if principal.workspace_id is not None:
        return principal.workspace_id == task.workspace_id
    return principal.may(scope)


def _named(tx: Transaction, asking: TaskQuery, name: str, scope: str) -> Task | Message | None:
    """The task of that name, or a message that has none yet, if the principal may know of it."""
    task = tx.tasks.named(asking.workspace.id, asking.tenant, name)
    if task is not None:
        return task if may(asking.principal, task, scope) else None
    message = tx.mailbox.by_task(asking.workspace.id, name)
    if message is None or message.tenant != asking.tenant:
        return None
    return message if message_access.may_see(asking.principal, message) else None


def _existing(tx: Transaction, key: TaskKey) -> Task:
    task = tx.tasks.get(key)
    if task is None:
        raise errors.protocol_error(errors.TASK_NOT_FOUND)
    return task


def _rejoined(tx: Transaction, key: TaskKey, last_seen: str | None) -> ResumedStream:
    task = _existing(tx, key)
    if last_seen is None:
        if task.is_over:
            raise resumption.nothing_follows(task.state)
        return ResumedStream(key, task_log.folded(tx, task), task.last_seq)
    seen = resumption.last_seen(last_seen, task.last_seq)
    if seen == task.last_seq and task.is_over:
        raise resumption.nothing_follows(task.state)
    oldest = tx.tasks.oldest_seq(key)
    if seen < task.last_seq and (oldest is None or seen + 1 < oldest):
        return ResumedStream(key, task_log.folded(tx, task), task.last_seq, is_all=task.is_over)
    return ResumedStream(key, _thin(tx, task, seen), seen)


def _thin(tx: Transaction, task: Task, seen: int) -> dict[str, Any] | None:
    """The task as far as a follower needs it to go on; None for one that has seen nothing."""
    status = _status_at(tx, task, seen) if seen else None
    if status is None:
        return None
    return resumption.resumed_task(task.id, task.context_id, status, seen)


def _status_at(tx: Transaction, task: Task, seen: int) -> dict[str, Any] | None:
    found = tx.tasks.last_status(task.key, seen)
    if found is None:
        return None
    (body,) = task_log.modern(found).values()
    return body["status"]
