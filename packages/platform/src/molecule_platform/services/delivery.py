"""Delivery: a message is a row before anyone sees it, and its sender learns the outcome."""

import hashlib
import json
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from molecule_platform.domain import dispatch, inbox, messages, refusals
from molecule_platform.domain.messages import Message
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.refusals import Refusal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.activity import ActivityRow
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services import bells, logbook, settlement, waking
from molecule_platform.services.bells import Bells
from molecule_wire import ids
from molecule_wire.a2a import text
from molecule_wire.a2a.envelopes import Request

FULL_RETRY_SECONDS = 5


@dataclass(frozen=True)
class DeliveryLimits:
    """The bounds an operator sets."""

    hold_seconds: float = 25.0
    ttl_seconds: int = 86_400
    run_seconds: int = 1800
    run_seconds_for_users: int = 7200
    max_open: int = 1000
    max_attempts: int = 5
    idle_seconds: int = 300


@dataclass(frozen=True)
class Submission:
    """A message somebody wants delivered."""

    principal: Principal
    target: Workspace
    request: Request
    idempotency_key: str | None = None
    timeout_seconds: int | None = None
    hold_seconds: float = 0.0
    never_queue: bool = False
    traceparent: str | None = None
    holder: str = field(default_factory=ids.uuid7)


@dataclass(frozen=True)
class Receipt:
    """The message as accepted, and whether an earlier request had already brought it."""

    message: Message
    replayed: bool = False


class Delivery:
    """Accepts messages and tells their senders how they ended."""

    def __init__(
        self, storage: Storage, bells: Bells, clock: Clock, replica_id: str, limits: DeliveryLimits
    ) -> None:
        self._storage = storage
        self._bells = bells
        self._clock = clock
        self._replica_id = replica_id
        self.limits = limits

    async def accept(self, submission: Submission) -> Receipt:
        """Make the message durable, once: a repeat of the same request attaches to the first."""
        now = self._clock.now()
        message = self._message(submission, now)
        try:
            return await self._storage.write(lambda tx: self._accept(tx, submission, message, now))
        except Refusal as refusal:
            if refusal.code == "budget-exceeded":
                sentence = refusal.sentence
                await self._storage.write(lambda tx: _log_refused(tx, message, sentence, now))
            raise

    def _accept(self, tx: Transaction, submission: Submission, message: Message, now: datetime) -> Receipt:
        first = _first_of_repeat(tx, submission, message, now)
        if first is None:
            target = _living(tx, message.target_id)
            check_budget(target)
            self._check_capacity(tx, submission, target)
            store(tx, message, now)
            waking.wake(tx, target, now)
            first = Receipt(message)
        if submission.hold_seconds > 0 and first.message.is_open:
            until = now + timedelta(seconds=submission.hold_seconds)
            tx.mailbox.hold(first.message.id, self._holder(submission), until)
        if submission.principal.workspace_id is not None:
            tx.workspaces.touch(submission.principal.workspace_id, last_outbound_at=now)
        return first

    def _check_capacity(self, tx: Transaction, submission: Submission, target: Workspace) -> None:
        open_messages = tx.mailbox.open_count(target.id)
        if submission.never_queue:
            dispatch.refuse_to_wait(target, open_messages)
        if open_messages >= self.limits.max_open:
            raise mailbox_full(target)

    def has_room(self, tx: Transaction, target_id: str) -> bool:
        """Whether a workspace's mailbox takes one more item."""
        return tx.mailbox.open_count(target_id) < self.limits.max_open

    def _message(self, submission: Submission, now: datetime) -> Message:
        request, target, principal = submission.request, submission.target, submission.principal
        is_user = principal.workspace_id is None
        seconds = submission.timeout_seconds
        until = now + timedelta(seconds=seconds or self.limits.ttl_seconds)
        message_id = ids.uuid7()
        return Message(
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
            body_hash=body_hash(request),
            message_ref=request.message_id or message_id,
            context_id=request.context_id or ids.uuid7(),
            task_id=message_id,
            priority=messages.PRIORITY_USER if is_user else messages.PRIORITY_PEER,
            max_attempts=self.limits.max_attempts,
            created_at=now,
            deadline_at=until,
            waits_until=until,
            run_limit_seconds=None if seconds else self._run_limit(is_user),
            idempotency_key=submission.idempotency_key,
            traceparent=submission.traceparent,
            activity_id=ids.uuid7(),
        )

    def as_reply(self, submission: Submission, now: datetime) -> Message:
        """The same message as an item that needs no answer."""
        return replace(self._message(submission, now), kind="reply", run_limit_seconds=None)

    def _run_limit(self, is_user: bool) -> int:
        return self.limits.run_seconds_for_users if is_user else self.limits.run_seconds

    async def outcome(self, message_id: str, seconds: float) -> Message:
        """The message once it has ended, or as it stands when the time is over."""

        async def look() -> bool | None:
            return None if await self._storage.read(lambda tx: tx.mailbox.is_open(message_id)) else True

        await self._bells.wait_for(bells.settled(message_id), look, seconds)
        return await self.get(message_id)

    def _holder(self, submission: Submission) -> str:
        return f"{self._replica_id}/{submission.holder}"

    async def let_go(self, message_id: str, submission: Submission) -> Message:
        """The caller no longer waits here: the answer must find it another way, or its deadline is here."""
        now = self._clock.now()

        def work(tx: Transaction) -> Message:
            tx.mailbox.end_hold(message_id, self._holder(submission))
            message = _existing(tx, message_id)
            if message.deadline_at > now:
                return message
            return settlement.settle(tx, message_id, settlement.at_deadline(tx, message), now) or message

        return await self._storage.write(work)

    async def get(self, message_id: str) -> Message:
        """The message. Raises 404 when there is none."""
        return await self._storage.read(lambda tx: _existing(tx, message_id))

    async def visible(self, principal: Principal, message_id: str) -> Message:
        """The message, for its parties and the organisation's readers; for others it does not exist."""
        message = await self.get(message_id)
        if not may_see(principal, message):
            raise message_not_found(message_id)
        return message

    async def queue_depth(self, target_id: str) -> int:
        """How many open messages a workspace has."""
        return await self._storage.read(lambda tx: tx.mailbox.open_count(target_id))


def store(tx: Transaction, message: Message, now: datetime) -> Message:
    """Write a new message with its activity row, and ring for its target."""
    seq = tx.activity.next_seq()
    numbered = replace(message, seq=seq)
    tx.mailbox.insert(numbered)
    peer = message.caller.removeprefix("workspace:") if message.caller.startswith("workspace:") else ""
    logbook.write(
        tx,
        ActivityRow(
            id=message.activity_id,
            org_id=message.org_id,
            seq=seq,
            workspace_id=message.target_id,
            activity_type="a2a_receive",
            caller=message.caller,
            created_at=now,
            source_id=peer,
            target_id=message.target_id,
            method=message.method,
            summary=said_in(message),
            status="pending",
            message_id=message.id,
        ),
    )
    tx.workspaces.touch(message.target_id, last_activity_at=now)
    tx.signal(bells.mail(message.target_id))
    tx.signal(bells.EVENTS)
    return numbered


def _log_refused(tx: Transaction, message: Message, sentence: str, now: datetime) -> None:
    logbook.write(
        tx,
        ActivityRow(
            id=message.activity_id,
            org_id=message.org_id,
            seq=tx.activity.next_seq(),
            workspace_id=message.target_id,
            activity_type="error",
            caller=message.caller,
            created_at=now,
            source_id=inbox.peer_of(message.caller),
            target_id=message.target_id,
            method=message.method,
            summary=said_in(message),
            status="error",
            error_detail=sentence,
        ),
    )


def said_in(message: Message) -> str:
    """The words of a stored message, as far as a log keeps them."""
    return text.text_of_message(inbox.received_message(message))


def body_hash(request: Request) -> str:
    """What makes two requests the same: method and params, without the ids that were made for this try."""
    params = request.params
    if request.message is not None and not request.given_message_id:
        said = {name: value for name, value in request.message.items() if name != "messageId"}
        params = {**params, "message": said}
    canonical = json.dumps([request.method, params], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def may_see(principal: Principal, message: Message) -> bool:
    """Whether the principal is a party to the message or may read its organisation."""
    if principal.workspace_id is not None:
        return principal.text == message.caller or principal.workspace_id == message.target_id
    mine = principal.org_id == message.org_id or principal.is_admin
    return mine and (principal.text == message.caller or principal.may("org.read"))


def message_not_found(message_id: str) -> Refusal:
    """The one answer for an unknown message and for somebody else's."""
    return Refusal("message-not-found", f"there is no message {message_id} here")


def mailbox_full(target: Workspace) -> Refusal:
    """The mailbox has as many open messages as it may."""
    sentence = f"the mailbox of {target.name} is full: try again later"
    return Refusal("mailbox-full", sentence, retry_after=FULL_RETRY_SECONDS)


def check_budget(target: Workspace) -> None:
    """Refuse work for a workspace that has spent its budget."""
    if target.budget_limit is not None and target.monthly_spend >= target.budget_limit:
        raise Refusal(
            "budget-exceeded",
            f"{target.name} has spent its budget of this month",
            budget_limit=target.budget_limit,
            monthly_spend=target.monthly_spend,
        )


def _existing(tx: Transaction, message_id: str) -> Message:
    message = tx.mailbox.get(message_id)
    if message is None:
        raise message_not_found(message_id)
    return message


def _first_of_repeat(
    tx: Transaction, submission: Submission, message: Message, now: datetime
) -> Receipt | None:
    if submission.idempotency_key is not None:
        first = tx.mailbox.by_key(message.caller, message.target_id, submission.idempotency_key)
        if first is not None and first.body_hash != message.body_hash:
            raise Refusal(
                "idempotency-conflict", "this key was used for another request", existing_id=first.id
            )
        return None if first is None else Receipt(first, True)
    if not submission.request.given_message_id:
        return None
    since = now - messages.REPEAT_WINDOW
    first = tx.mailbox.by_reference(
        message.caller, message.target_id, message.message_ref, message.body_hash, since
    )
    return None if first is None else Receipt(first, True)


def _living(tx: Transaction, target_id: str) -> Workspace:
    target = tx.workspaces.get(target_id)
    if target is None or target.removed:
        raise refusals.workspace_removed(target_id, None)
    return target
