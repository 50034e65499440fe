"""Delivery: a message is a row before anyone sees it, and its sender learns the outcome."""

import asyncio
import hashlib
import json
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from molecule_platform.domain import dispatch, message_access, messages, results
from molecule_platform.domain import errors as domain_errors
from molecule_platform.domain.delegation_context import ContextLimits
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.messages import Message
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.tasks import Task
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.mailbox import Load
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.identity import authorizer
from molecule_platform.services.messaging.delegations import delegation_context
from molecule_platform.services.messaging.messages import intake, settlement, wakeups
from molecule_platform.services.messaging.messages.mailbox_capacity import CapacityLimits, MailboxCapacity
from molecule_platform.services.messaging.messages.new_message import AcceptedMessage, NewMessage
from molecule_platform.services.messaging.tasks import platform_tasks, task_log
from molecule_platform.services.support import last_seen, signals
from molecule_platform.services.support.outcome_waiters import OutcomeWaiters, Waiter
from molecule_platform.services.support.signals import Signals
from molecule_platform.services.support.worker_thread import LARGE_BYTES
from molecule_wire import ids
from molecule_wire.a2a import errors, text
from molecule_wire.a2a.envelopes import A2ARequest


@dataclass(frozen=True)
class DeliveryLimits:
    """The bounds an operator sets."""

    hold_seconds: float = 25.0
    ttl_seconds: int = 86_400
    run_seconds: int = 1800
    run_seconds_for_users: int = 7200
    capacity: CapacityLimits = field(default_factory=CapacityLimits)
    max_attempts: int = 5
    idle_seconds: int = 300
    delegation: ContextLimits = field(default_factory=ContextLimits)


class MessageDispatcher(Protocol):
    """Who carries messages to agents that have a URL."""

    @property
    def is_stopping(self) -> bool:
        """Whether nothing new is carried."""
        ...

    def start(self, message: Message, workspace: Workspace) -> None:
        """Carry a message that this replica has leased."""
        ...


class MessageService:
    """Accepts messages and tells their senders how they ended."""

    def __init__(
        self,
        storage: Storage,
        signals: Signals,
        clock: Clock,
        replica_id: str,
        limits: DeliveryLimits,
        waiters: OutcomeWaiters,
        dispatcher: MessageDispatcher,
    ) -> None:
        self._storage = storage
        self._signals = signals
        self._clock = clock
        self._received, self._sent = last_seen.received(), last_seen.sent()
        self._replica_id = replica_id
        self._waiters = waiters
        self._dispatcher = dispatcher
        self.limits = limits
        self.capacity = MailboxCapacity(limits.capacity)

    async def accept(self, submission: NewMessage) -> AcceptedMessage:
        """Make the message durable, once: a repeat of the same request attaches to the first.

        Where the agent is free the same commit leases it, and it is on its way when this returns.
        """
        now = self._clock.now()
        message = self._message(submission, now)
        if len(message.body) > LARGE_BYTES:
            # A body that nobody has room for need not wait for the writer.
            await self._storage.glance(lambda tx: self._check_room(tx, submission, message, now))
        slot = self._waiters.register(message.id) if submission.hold_seconds > 0 else None
        try:
            receipt = await self._storage.write(lambda tx: self._accept(tx, submission, message, slot, now))
        except ApiError as refusal:
            if refusal.code == "budget-exceeded":
                sentence = refusal.sentence
                await self._storage.write(lambda tx: intake.log_refused(tx, message, sentence, now))
            if refusal.code == "peer-waking":
                await self._storage.write(lambda tx: wakeups.wake_receiver(tx, message, now))
            raise
        if receipt.target is not None and receipt.message.status == "leased":
            self._dispatcher.start(receipt.message, receipt.target)
        return receipt

    async def preview(self, submission: NewMessage) -> tuple[Message, Workspace]:
        """The message as it would be accepted now, in the work it is part of, and its target; not kept."""
        now = self._clock.now()
        message = self._message(submission, now)

        def work(tx: Transaction) -> tuple[Message, Workspace]:
            target, _ = self._standing(tx, submission.target)
            message_access.check_budget(target)
            return self._in_context(tx, submission, message, now), target

        return await self._storage.read(work)

    def _check_room(self, tx: Transaction, submission: NewMessage, message: Message, now: datetime) -> None:
        if _first_of_repeat(tx, submission, message, now) is None:
            target, load = self._standing(tx, submission.target)
            self.capacity.check(tx, target, submission.principal, len(message.body), load)

    def _accept(
        self, tx: Transaction, submission: NewMessage, message: Message, slot: Waiter | None, now: datetime
    ) -> AcceptedMessage:
        first = _first_of_repeat(tx, submission, message, now)
        if first is None:
            first = self._accept_new(tx, submission, message, slot, now)
        elif submission.hold_seconds > 0 and first.message.is_open:
            until = now + timedelta(seconds=submission.hold_seconds)
            tx.mailbox.hold(first.message.id, self._holder(submission), until)
        if submission.principal.workspace_id is not None:
            self._sent.note(tx, submission.principal.workspace_id, now)
        return first

    def _accept_new(
        self, tx: Transaction, submission: NewMessage, message: Message, slot: Waiter | None, now: datetime
    ) -> AcceptedMessage:
        target, load = self._standing(tx, submission.target)
        if submission.continues is not None:
            _check_goes_on(tx, submission.continues)
        message_access.check_budget(target)
        if submission.never_queue:
            dispatch.refuse_to_wait(target, load.accepted + load.leased)
        self.capacity.take(tx, target, submission.principal, len(message.body), load)
        message = self._in_context(tx, submission, message, now)
        if self._is_free(tx, submission, target, load):
            message = messages.leased_at_once(message, self._replica_id, now)
        elif submission.never_queue and dispatch.is_dispatchable(target):
            raise dispatch.busy(target)
        if not dispatch.speaks_tasks(target):
            message = message.but(task_state="submitted")
        said = text.text_of_message(submission.request.message)
        stored = intake.enqueue(tx, message, now, said, self._received)
        if submission.also is not None:
            submission.also(tx, stored, now)
        if submission.continues is not None or not dispatch.speaks_tasks(target):
            platform_tasks.begin(tx, stored, now)
        wakeups.wake_target(tx, target, now)
        return AcceptedMessage(stored, target=target, slot=slot)

    def _standing(self, tx: Transaction, known: Workspace) -> tuple[Workspace, Load]:
        """The target as it is now, and what it has before it."""
        target = tx.workspaces.standing(known)
        if target is None or target.removed:
            raise domain_errors.workspace_removed(known.id, None)
        return target, tx.mailbox.load(known.id)

    def _in_context(
        self, tx: Transaction, submission: NewMessage, message: Message, now: datetime
    ) -> Message:
        """The message with what it was sent for, and the delegation of its task or of its sender's work."""
        principal, named = submission.principal, delegation_context.named_parent(submission.request.message)
        working = delegation_context.in_work(tx, principal, now)
        if working or named:
            parent = delegation_context.parent_message(tx, principal, working, named)
            message = delegation_context.sent_for(tx, message, parent, begins_trace=submission.begins_trace)
        if submission.continues is not None:
            before = tx.mailbox.get(submission.continues.message_id)
            if before is not None and before.delegation_id is not None:
                return message.but(delegation=before.delegation, delegation_id=before.delegation_id)
        context = delegation_context.for_send(working, message.target_id, self.limits.delegation)
        return message if context is None else message.but(delegation=context)

    def _is_free(self, tx: Transaction, submission: NewMessage, target: Workspace, load: Load) -> bool:
        """Whether the agent takes the message now, before anybody who waits and beside nobody it must not."""
        if self._dispatcher.is_stopping or load.accepted or not dispatch.is_dispatchable(target):
            return False
        named = submission.request.context_id or submission.continues
        if named and tx.mailbox.is_context_open(target.id, self._context_of(submission, "")):
            return False
        return dispatch.capacity(target, load.leased) > 0

    def _context_of(self, submission: NewMessage, otherwise: str) -> str:
        if submission.continues is not None:
            return submission.continues.context_id
        return submission.request.context_id or otherwise

    def _message(self, submission: NewMessage, now: datetime) -> Message:
        request, target, principal = submission.request, submission.target, submission.principal
        is_user = principal.workspace_id is None
        seconds = submission.timeout_seconds
        until = now + timedelta(seconds=seconds or self.limits.ttl_seconds)
        message_id = ids.uuid7()
        held = submission.hold_seconds > 0
        return messages.new_message(
            id=message_id,
            org_id=target.org_id,
            seq=0,
            target_id=target.id,
            caller=principal.text,
            caller_name=principal.name,
            kind="message",
            method=request.method,
            dialect=request.dialect,
            body=request.body,
            body_hash=body_hash(request) if submission.may_repeat else "",
            message_ref=request.message_id or message_id,
            context_id=self._context_of(submission, message_id),
            task_id=submission.continues.id if submission.continues else message_id,
            tenant=submission.tenant,
            priority=messages.PRIORITY_USER if is_user else messages.PRIORITY_PEER,
            max_attempts=self.limits.max_attempts,
            created_at=now,
            deadline_at=until,
            waits_until=until,
            run_limit_seconds=None if seconds else self._run_limit(is_user),
            idempotency_key=submission.idempotency_key,
            traceparent=submission.traceparent,
            request_id=submission.request_id,
            extensions=submission.extensions,
            held_by=self._holder(submission) if held else None,
            held_until=now + timedelta(seconds=submission.hold_seconds) if held else None,
            activity_id=ids.uuid7(),
        )

    def as_reply(self, submission: NewMessage, now: datetime) -> Message:
        """The same message as an item that needs no answer."""
        return replace(self._message(submission, now), kind="reply", run_limit_seconds=None)

    def _run_limit(self, is_user: bool) -> int:
        return self.limits.run_seconds_for_users if is_user else self.limits.run_seconds

    async def outcome(self, message_id: str, seconds: float) -> Message:
        """The message once it has ended, or as it stands when the time is over."""
        slot, time = self._waiters.place(message_id), asyncio.get_running_loop().time
        until = time() + seconds
        heard = slot.rings
        while await self._is_awaited(slot, message_id):
            left = until - time()
            if left <= 0 or self._signals.is_hushed:
                break
            await slot.wait(heard, min(left, signals.LOOK_AGAIN_SECONDS))
            heard = slot.rings
        return slot.ended or await self.get(message_id)

    async def _is_awaited(self, slot: Waiter, message_id: str) -> bool:
        """Whether the message has no outcome yet, neither here nor from elsewhere."""
        if slot.ended is not None:
            return False
        is_fresh, slot.is_fresh = slot.is_fresh, False
        return is_fresh or await self._storage.glance(lambda tx: tx.mailbox.is_open(message_id))

    def _holder(self, submission: NewMessage) -> str:
        return f"{self._replica_id}/{submission.holder}"

    async def stop_waiting(self, message_id: str, submission: NewMessage) -> Message:
        """The caller no longer waits here: the answer must find it another way, or its deadline is here."""
        now = self._clock.now()

        def work(tx: Transaction) -> Message:
            tx.mailbox.end_hold(message_id, self._holder(submission))
            message = _existing(tx, message_id)
            if message.deadline_at > now:
                return message
            return settlement.settle(tx, message_id, settlement.at_deadline(tx, message), now) or message

        return await self._storage.write(work)

    async def show(self, message_id: str) -> tuple[Message, dict[str, Any]]:
        """The message, and its task under a name that will stay: somebody is about to be told of it."""
        now = self._clock.now()

        def work(tx: Transaction) -> tuple[Message, dict[str, Any]]:
            message = _existing(tx, message_id)
            task = (
                platform_tasks.begin(tx, message, now) if message.is_open else task_log.task_of(tx, message)
            )
            whole = results.snapshot(message, "1.0") if task is None else task_log.folded(tx, task)
            return message, whole

        return await self._storage.write(work)

    async def get(self, message_id: str) -> Message:
        """The message. Raises 404 when there is none."""
        return await self._storage.glance(lambda tx: _existing(tx, message_id))

    async def visible(self, principal: Principal, message_id: str) -> Message:
        """The message, for its parties and the organisation's readers; for others it does not exist."""
        now = self._clock.now()

        def work(tx: Transaction) -> Message:
            message = _existing(tx, message_id)
            if not authorizer.may_read(tx, principal, message, now):
                raise message_access.message_not_found(message_id)
            return message

        return await self._storage.glance(work)

    async def queue_depth(self, target_id: str) -> int:
        """How many open messages a workspace has."""
        return await self._storage.read(lambda tx: tx.mailbox.open_count(target_id))


def body_hash(request: A2ARequest) -> str:
    """What makes two requests the same: method and params, without the ids that were made for this try."""
    params = request.params
    if request.message is not None and not request.given_message_id:
        said = {name: value for name, value in request.message.items() if name != "messageId"}
        params = {**params, "message": said}
    canonical = json.dumps([request.method, params], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _existing(tx: Transaction, message_id: str) -> Message:
    message = tx.mailbox.get(message_id)
    if message is None:
        raise message_access.message_not_found(message_id)
    return message


def _check_goes_on(tx: Transaction, known: Task) -> None:
    """Refuse a message to a task that has ended since the sender was told that it goes on."""
    task = tx.tasks.get(known.key)
    if task is None or task.is_over:
        state = "gone" if task is None else task.state
        sentence = f"The task is {state}: send a new message without its taskId"
        raise errors.protocol_error(errors.UNSUPPORTED_OPERATION, sentence)


def _first_of_repeat(
    tx: Transaction, submission: NewMessage, message: Message, now: datetime
) -> AcceptedMessage | None:
    if submission.idempotency_key is not None:
        first = tx.mailbox.by_key(message.caller, message.target_id, submission.idempotency_key)
        if first is not None and first.body_hash != message.body_hash:
            raise ApiError(
                "idempotency-conflict", "this key was used for another request", existing_id=first.id
            )
        return None if first is None else AcceptedMessage(first, True)
    if not (submission.request.given_message_id and submission.repeat_by_reference):
        return None
    since = now - messages.REPEAT_WINDOW
    first = tx.mailbox.by_reference(
        message.caller, message.target_id, message.message_ref, message.body_hash, since
    )
    return None if first is None else AcceptedMessage(first, True)
