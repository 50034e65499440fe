"""The one place where a delegation context is made, whatever the way in which work is passed on.

Nobody says where they stand: the platform knows it from the messages that a workspace holds. Of several the
deepest counts, unless a delegation names its parent, so a workspace cannot shorten its chain.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from molecule_platform.domain import delegation_context, delegations, traces
from molecule_platform.domain.delegation_context import Context, ContextLimits
from molecule_platform.domain.delegations import Delegation
from molecule_platform.domain.messages import ActiveMessage, Message
from molecule_platform.domain.principals import Principal
from molecule_platform.ports.mailbox import TraceFilter
from molecule_platform.ports.storage import Transaction
from molecule_wire import JSONObject

DEFAULT_LIMITS = ContextLimits()
MAX_LOOKED_AT = 200
"""How many of a workspace's newest delegations are looked through for one that it let go of."""


def for_send(
    working: Sequence[ActiveMessage], target_id: str, limits: ContextLimits = DEFAULT_LIMITS
) -> dict[str, Any] | None:
    """The context that a plain message inherits from the work of its sender. Raises 409 at a limit."""
    mine = _deepest(_contexts(working))
    return None if mine is None else mine.step_to(target_id, limits).written()


def for_delegation(
    tx: Transaction,
    principal: Principal,
    working: Sequence[ActiveMessage],
    target_id: str,
    delegation_id: str,
    parent_id: str | None,
    now: datetime,
    limits: ContextLimits,
) -> tuple[str | None, Context]:
    """The parent of a new delegation, and its context. Raises 409 at a limit, 404 for a wrong parent."""
    _check_not_back(tx, principal, working, target_id, now, limits)
    contexts = _contexts(working)
    mine = _deepest(contexts) if parent_id is None else _named(tx, principal, contexts, parent_id)
    if mine is None:
        return None, delegation_context.first(delegation_id, principal.workspace_id, target_id, limits)
    there = mine.step_to(target_id, limits)
    calls = tx.delegations.count_call(mine.root) or limits.calls - mine.calls_left + 1
    counted = there.counted(calls, limits)
    return mine.id, Context(delegation_id, counted.root, counted.depth, counted.calls_left, counted.chain)


def for_report(delegation: Delegation, limits: ContextLimits = DEFAULT_LIMITS) -> dict[str, Any]:
    """Where whoever asked stands when it is told of the outcome: where it stood when it asked."""
    chain = tuple(delegation.chain[:-1]) or (delegation.source_id,)
    left = max(limits.calls - delegation.calls, 0)
    name = delegation.parent_id or delegation.id
    return Context(name, delegation.root_id, delegation.depth - 1, left, chain).written()


def in_work(tx: Transaction, principal: Principal, now: datetime) -> list[ActiveMessage]:
    """The messages that the principal is working on; only workspaces work."""
    return [] if principal.workspace_id is None else tx.mailbox.in_work(principal.workspace_id, now)


def named_parent(message: JSONObject | None) -> str | None:
    """The message for which the sender of another says that it sends it."""
    metadata = (message or {}).get("metadata")
    named = metadata.get("parent_message_id") if isinstance(metadata, dict) else None
    return named if isinstance(named, str) else None


def parent_message(
    tx: Transaction, principal: Principal, working: Sequence[ActiveMessage], named: str | None
) -> str | None:
    """The message for which the principal sends another; None when that cannot be told.

    It is the one it names, if that was addressed to it; else the one that brought the deepest delegation in
    its work; else the only one that it has.
    """
    if named is not None and principal.workspace_id is not None:
        if any(one.id == named for one in working):
            return named
        [*found] = tx.mailbox.trace(TraceFilter(ids=(named,)), 1)
        if found and found[0].target_id == principal.workspace_id:
            return named
    delegated = [(Context.read(one.delegation).depth, one.id) for one in working if one.delegation]
    if delegated:
        return max(delegated, key=lambda one: one[0])[1]
    return working[0].id if len(working) == 1 else None


def sent_for(tx: Transaction, message: Message, parent: str | None, *, begins_trace: bool) -> Message:
    """The message with the one it was sent for, whose trace it goes on with unless it is in another."""
    above = tx.mailbox.get(parent) if parent is not None and begins_trace else None
    trace = message.traceparent if above is None else traces.within(above.traceparent, message.traceparent)
    return message.but(parent_message_id=parent, traceparent=trace)


def _check_not_back(
    tx: Transaction,
    principal: Principal,
    working: Sequence[ActiveMessage],
    target_id: str,
    now: datetime,
    limits: ContextLimits,
) -> None:
    """Refuse to pass work back to who takes part in it, also when it was given back or acknowledged first.

    What was acknowledged counts while the workspace holds nothing else that the new work could be for.
    """
    if principal.workspace_id is None:
        return
    for name, chain in tx.delegations.chains_to(principal.workspace_id, now, MAX_LOOKED_AT).items():
        if target_id not in chain[:-1]:
            continue
        earlier = tx.delegations.get(name)
        if earlier is not None and _was_let_go(tx, earlier, is_idle=not working):
            _context_of(earlier).step_to(target_id, limits)


def _was_let_go(tx: Transaction, delegation: Delegation, *, is_idle: bool) -> bool:
    """Whether the target had the work in its hands and let go of it without words."""
    if delegation.is_open:
        message = None if delegation.message_id is None else tx.mailbox.get(delegation.message_id)
        return message is not None and message.status == "accepted" and message.lease_epoch > 0
    said = delegation.result or {}
    is_silent = delegation.outcome == "completed" and not (said.get("text") or said.get("artifacts"))
    return is_idle and is_silent and not said.get("parts")


def _context_of(delegation: Delegation) -> Context:
    return Context(delegation.id, delegation.root_id, delegation.depth, 0, tuple(delegation.chain))


def _contexts(working: Sequence[ActiveMessage]) -> list[Context]:
    return [Context.read(one.delegation) for one in working if one.delegation]


def _deepest(contexts: list[Context]) -> Context | None:
    return max(contexts, key=lambda one: one.depth, default=None)


def _named(tx: Transaction, principal: Principal, working: list[Context], parent_id: str) -> Context:
    held = _deepest([one for one in working if one.id == parent_id])
    if held is not None:
        return held
    parent = tx.delegations.get(parent_id)
    if parent is None or not parent.is_open or parent.target_id != principal.workspace_id:
        raise delegations.not_found(parent_id)
    return _context_of(parent)
