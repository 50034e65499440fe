"""Delegating: a task becomes a row and a message in one commit, or a refusal that says why not."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from molecule_platform.domain import authorisation, dispatch, errors, message_access, messages, visibility
from molecule_platform.domain import delegation_views as views
from molecule_platform.domain import delegations as rules
from molecule_platform.domain.delegation_context import Context, ContextLimits
from molecule_platform.domain.delegations import Delegation
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.lifecycle import ALIVE
from molecule_platform.domain.messages import ActiveMessage, Message
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace, invalid
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.identity import authorizer, claim_window
from molecule_platform.services.messaging.delegations import delegation_context, delegation_state
from molecule_platform.services.messaging.messages import intake, wakeups
from molecule_platform.services.messaging.messages.message_service import MessageService
from molecule_platform.services.messaging.tasks import platform_tasks
from molecule_platform.services.support import last_seen
from molecule_wire import ids, jsontext

_RECORDED_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


@dataclass(frozen=True)
class DelegationRequest:
    """Work that a principal asks of a workspace, in the name of the workspace `source_id`."""

    principal: Principal
    source_id: str
    target_id: str
    task: str
    deadline_at: datetime | None = None
    idempotency_key: str | None = None
    deliverables: Sequence[Mapping[str, Any]] = ()
    context: dict[str, Any] | None = None
    context_id: str | None = None
    parent_id: str | None = None
    parent_message_id: str | None = None
    priority: int = messages.PRIORITY_PEER
    report: str = "events"
    max_attempts: int = rules.ATTEMPTS
    request_id: str | None = None
    traceparent: str | None = None
    # Whether that trace is its own: then it goes on with the trace of what it was sent for.
    begins_trace: bool = False

    @property
    def body_hash(self) -> str:
        """What makes two wishes the same: whom is asked for what."""
        written = json.dumps([self.target_id, self.task], separators=(",", ":"))
        return hashlib.sha256(written.encode()).hexdigest()


@dataclass(frozen=True)
class CreatedDelegation:
    """The delegation, whether an earlier request had made it, and what its source should know."""

    delegation: Delegation
    replayed: bool = False
    warning: str | None = None


class DelegationCreator:
    """Makes delegations."""

    def __init__(
        self, storage: Storage, clock: Clock, deliveries: MessageService, limits: ContextLimits
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._last_sent = last_seen.sent()
        self._deliveries = deliveries
        self._limits = limits

    async def delegate(self, wish: DelegationRequest) -> CreatedDelegation:
        """Accept the work, once for each key of its source: row, message and events together."""
        now = self._clock.now()
        _check(wish, now)
        return await self._storage.write(lambda tx: self._delegate(tx, wish, now))

    def _delegate(self, tx: Transaction, wish: DelegationRequest, now: datetime) -> CreatedDelegation:
        target = self._reachable(tx, wish)
        earlier = _earlier(tx, wish, now)
        if earlier is not None and not _is_key_free(earlier, now):
            return CreatedDelegation(earlier, replayed=True)
        message_access.check_budget(target)
        self._deliveries.capacity.take(tx, target, wish.principal, len(wish.task.encode()))
        working = delegation_context.in_work(tx, wish.principal, now)
        made, context = self._made(tx, wish, target, ids.uuid7(), working, now, message_id=ids.uuid7())
        if earlier is not None:
            tx.delegations.give_up_key(earlier.id)
            made = _again(made, earlier)
        tx.delegations.insert(made)
        parent = delegation_context.parent_message(tx, wish.principal, working, wish.parent_message_id)
        delivery_attempt = _message(wish, made, context, now)
        delivery_attempt = delegation_context.sent_for(
            tx, delivery_attempt, parent, begins_trace=wish.begins_trace
        )
        stored = intake.enqueue(tx, delivery_attempt, now)
        if not dispatch.speaks_tasks(target):
            platform_tasks.begin(tx, stored, now)
        wakeups.wake_target(tx, target, now)
        self._sent(tx, wish, made, now)
        return CreatedDelegation(made, warning=_warning(target))

    async def record(self, wish: DelegationRequest, delegation_id: str) -> Delegation:
        """Keep track of work that an agent handed over by itself; it ends by a word of theirs, or in time."""
        now = self._clock.now()
        if not _RECORDED_ID.fullmatch(delegation_id):
            raise invalid("delegation_id", "a delegation_id has 1 to 128 letters, digits and . _ : -")
        _check(wish, now)
        return await self._storage.write(lambda tx: self._record(tx, wish, delegation_id, now))

    def _record(
        self, tx: Transaction, wish: DelegationRequest, delegation_id: str, now: datetime
    ) -> Delegation:
        target = self._reachable(tx, wish)
        earlier = tx.delegations.get(delegation_id)
        if earlier is not None:
            if (earlier.source_id, earlier.body_hash) != (wish.source_id, wish.body_hash):
                raise _conflict("this delegation_id was used for another delegation", delegation_id)
            return earlier
        working = delegation_context.in_work(tx, wish.principal, now)
        made, _context = self._made(
            tx,
            wish,
            target,
            delegation_id,
            working,
            now,
            recorded=True,
            status="dispatched",
            dispatched_at=now,
        )
        tx.delegations.insert(made)
        self._sent(tx, wish, made, now)
        return made

    def _made(
        self,
        tx: Transaction,
        wish: DelegationRequest,
        target: Workspace,
        delegation_id: str,
        working: Sequence[ActiveMessage],
        now: datetime,
        **more: Any,
    ) -> tuple[Delegation, Context]:
        parent_id, context = delegation_context.for_delegation(
            tx, wish.principal, working, target.id, delegation_id, wish.parent_id, now, self._limits
        )
        made = Delegation(
            id=delegation_id,
            org_id=target.org_id,
            source=wish.principal.text,
            source_id=wish.source_id,
            target_id=wish.target_id,
            task=wish.task,
            body_hash=wish.body_hash,
            root_id=context.root,
            depth=context.depth,
            chain=list(context.chain),
            deadline_at=wish.deadline_at or now + timedelta(seconds=rules.DEADLINE_SECONDS),
            created_at=now,
            updated_at=now,
            seq=tx.events.last_id(),
            idempotency_key=wish.idempotency_key,
            parent_id=parent_id,
            deliverables=wish.deliverables,
            context=wish.context,
            report=wish.report,
            **more,
        )
        return made, context

    def _sent(self, tx: Transaction, wish: DelegationRequest, made: Delegation, now: datetime) -> None:
        delegation_state.notify(tx, made, delegation_state.SENT, now)
        if wish.principal.workspace_id is not None:
            self._last_sent.note(tx, wish.principal.workspace_id, now)

    def _reachable(self, tx: Transaction, wish: DelegationRequest) -> Workspace:
        """The target, if it lives and the tree lets the caller reach it."""
        principal = wish.principal
        source, target = tx.workspaces.get(wish.source_id), tx.workspaces.get(wish.target_id)
        if source is None or target is None or source.org_id != target.org_id:
            raise errors.workspace_not_found(wish.target_id)
        now = self._clock.now()
        if not visibility.is_visible_to(principal, target, now):
            raise errors.workspace_not_found(wish.target_id)
        if principal.workspace_id is not None:
            verdict = authorizer.verdict(tx, principal.workspace_id, target, self._clock)
            if not (verdict.allowed or target.removed):
                raise authorisation.hierarchy_denied(principal, target.id, verdict)
        if target.removed:
            raise errors.workspace_removed(target.id, authorizer.removed_at(target))
        for party in (source, target):
            claim_window.close_after_disclosure(tx, party, now)
        return target


def _check(wish: DelegationRequest, now: datetime) -> None:
    if wish.target_id == wish.source_id:
        raise invalid("target_id", "a workspace cannot delegate to itself: send it a message instead")
    if not wish.task.strip():
        raise invalid("task", "a delegation has a task: say what is to be done")
    rules.check_deliverables(wish.deliverables)
    if wish.report not in rules.REPORTS:
        raise invalid("report", f"report is one of {', '.join(rules.REPORTS)}")
    if not 1 <= wish.max_attempts <= rules.MAX_ATTEMPTS:
        raise invalid("max_attempts", f"max_attempts is between 1 and {rules.MAX_ATTEMPTS}")
    highest = messages.PRIORITY_USER if wish.principal.workspace_id is None else messages.PRIORITY_PEER
    if not 1 <= wish.priority <= highest:
        raise invalid("priority", f"priority is between 1 and {highest} here")
    latest = now + timedelta(seconds=rules.MAX_DEADLINE_SECONDS)
    if wish.deadline_at is not None and not now < wish.deadline_at <= latest:
        raise invalid("deadline_at", f"a deadline lies at most {rules.MAX_DEADLINE_SECONDS} seconds ahead")


def _earlier(tx: Transaction, wish: DelegationRequest, now: datetime) -> Delegation | None:
    """The delegation that holds the key, whether it still counts or not. Raises 409 for other work."""
    if wish.idempotency_key is None:
        return None
    first = tx.delegations.by_key(wish.principal.text, wish.idempotency_key)
    if first is not None and not _is_key_free(first, now) and first.body_hash != wish.body_hash:
        raise _conflict("this key was used for another task: take a new key for a new task", first.id)
    return first


def _is_key_free(first: Delegation, now: datetime) -> bool:
    """Clients make keys from the words of a task: what failed could otherwise never be tried again."""
    return first.status == "failed" or now - first.created_at >= rules.KEY_KEPT


def _again(made: Delegation, earlier: Delegation) -> Delegation:
    is_retry = earlier.status == "failed" and earlier.body_hash == made.body_hash
    return replace(made, retry_of=earlier.id) if is_retry else made


def _conflict(sentence: str, existing_id: str) -> ApiError:
    return ApiError("idempotency-conflict", sentence, existing_id=existing_id)


def _warning(target: Workspace) -> str | None:
    if target.status in ALIVE:
        return None
    return f"{target.name} is {target.status}: the task waits for it until its deadline"


def _message(wish: DelegationRequest, made: Delegation, context: Context, now: datetime) -> Message:
    """The one message that carries the delegation."""
    assert made.message_id is not None
    context_id = wish.context_id or ids.uuid7()
    return Message(
        id=made.message_id,
        org_id=made.org_id,
        seq=0,
        target_id=made.target_id,
        caller=made.source,
        caller_name=wish.principal.name,
        kind="delegation",
        method="message/send",
        dialect="0.3",
        body=_body(made, context_id),
        body_hash=made.body_hash,
        message_ref=made.id,
        context_id=context_id,
        task_id=made.message_id,
        priority=wish.priority,
        max_attempts=wish.max_attempts,
        created_at=now,
        deadline_at=made.deadline_at,
        waits_until=made.deadline_at,
        traceparent=wish.traceparent,
        request_id=wish.request_id,
        activity_id=ids.uuid7(),
        delegation_id=made.id,
        delegation=context.written(),
    )


def _body(made: Delegation, context_id: str) -> bytes:
    said: dict[str, Any] = {
        "kind": "message",
        "role": "user",
        "messageId": made.id,
        "contextId": context_id,
        "parts": [{"kind": "text", "text": made.task}],
        "metadata": views.metadata(made),
    }
    return jsontext.encode(
        {"jsonrpc": "2.0", "id": made.id, "method": "message/send", "params": {"message": said}}
    )
