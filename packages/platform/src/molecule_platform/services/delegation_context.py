"""The one place where a delegation context is made, whatever the way in which work is passed on.

Nobody says where they stand: the platform knows it from the messages that a workspace holds. Of several the
deepest counts, unless a delegation names its parent, so a workspace cannot shorten its chain.
"""

from datetime import datetime
from typing import Any

from molecule_platform.domain import delegation_context, delegations
from molecule_platform.domain.delegation_context import Context, ContextLimits
from molecule_platform.domain.delegations import Delegation
from molecule_platform.domain.principals import Principal
from molecule_platform.ports.storage import Transaction

DEFAULT_LIMITS = ContextLimits()


def for_send(
    tx: Transaction,
    principal: Principal,
    target_id: str,
    now: datetime,
    limits: ContextLimits = DEFAULT_LIMITS,
) -> dict[str, Any] | None:
    """The context that a plain message inherits from the work of its sender. Raises 409 at a limit."""
    mine = _deepest(in_work(tx, principal, now))
    return None if mine is None else mine.step_to(target_id, limits).written()


def for_delegation(
    tx: Transaction,
    principal: Principal,
    target_id: str,
    delegation_id: str,
    parent_id: str | None,
    now: datetime,
    limits: ContextLimits,
) -> tuple[str | None, Context]:
    """The parent of a new delegation, and its context. Raises 409 at a limit, 404 for a wrong parent."""
    working = in_work(tx, principal, now)
    mine = _deepest(working) if parent_id is None else _named(tx, principal, working, parent_id)
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


def in_work(tx: Transaction, principal: Principal, now: datetime) -> list[Context]:
    """The contexts of the messages that the principal is working on; only workspaces work."""
    if principal.workspace_id is None:
        return []
    return [Context.read(kept) for kept in tx.delegations.contexts_in_work(principal.workspace_id, now)]


def _deepest(contexts: list[Context]) -> Context | None:
    return max(contexts, key=lambda one: one.depth, default=None)


def _named(tx: Transaction, principal: Principal, working: list[Context], parent_id: str) -> Context:
    held = _deepest([one for one in working if one.id == parent_id])
    if held is not None:
        return held
    parent = tx.delegations.get(parent_id)
    if parent is None or not parent.is_open or parent.target_id != principal.workspace_id:
        raise delegations.not_found(parent_id)
    return Context(parent.id, parent.root_id, parent.depth, 0, tuple(parent.chain))
