"""What becomes of delegations: each follows its message, ends once, and its source always learns how."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from molecule_platform.domain import delegation_views as views
from molecule_platform.domain import delegations as rules
from molecule_platform.domain import messages
from molecule_platform.domain.delegations import Delegation
from molecule_platform.domain.events import Event
from molecule_platform.domain.messages import Message, MessageOutcome
from molecule_platform.domain.tasks import TaskEvent
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.messaging.delegations import delegation_reports
from molecule_platform.services.messaging.messages import settlement
from molecule_platform.services.messaging.tasks import task_log
from molecule_platform.services.support import signals

SENT, STATUS = "DELEGATION_SENT", "DELEGATION_STATUS"
COMPLETE, FAILED = "DELEGATION_COMPLETE", "DELEGATION_FAILED"
EVENTS = frozenset({SENT, STATUS, COMPLETE, FAILED})


def message_moved(tx: Transaction, message: Message, now: datetime) -> None:
    """Let a delegation follow a message of its task, in the transaction that moved the message."""
    delegation = None if message.delegation_id is None else tx.delegations.get(message.delegation_id)
    if delegation is None or not delegation.is_open or delegation.recorded:
        return
    status, outcome = rules.followed(delegation, message)
    if outcome is None:
        _step(tx, delegation, message, status, now)
        return
    attempts = message.attempts if message.id == delegation.message_id else delegation.attempts
    end(tx, delegation, outcome, now, rules.result_of(message), message.error, attempts)


def progressed(tx: Transaction, message: Message, events: Sequence[TaskEvent], now: datetime) -> None:
    """Tell what an agent says on the way of the work that somebody delegated to it."""
    delegation = None if message.delegation_id is None else tx.delegations.get(message.delegation_id)
    if delegation is None or not delegation.is_open:
        return
    for event in task_log.readable(events):
        told = views.progress(event)
        if told is not None:
            notify(tx, delegation, STATUS, now, progress=told)


def _step(tx: Transaction, delegation: Delegation, message: Message, status: str, now: datetime) -> None:
    values: dict[str, Any] = {"status": status, "updated_at": now}
    if message.id == delegation.message_id:
        values["attempts"] = message.attempts
    if status == "dispatched" and delegation.dispatched_at is None:
        values["dispatched_at"] = now
    changed = tx.delegations.change(delegation.id, **values)
    if changed is not None and changed.status != delegation.status:
        notify(tx, changed, STATUS, now)


def end(
    tx: Transaction,
    delegation: Delegation,
    outcome: str,
    now: datetime,
    result: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None,
    attempts: int | None = None,
) -> Delegation | None:
    """Write the outcome of an open delegation and tell it; None when it has one already."""
    shown = tx.delegations.evidence(delegation.id) if delegation.deliverables else []
    missing = rules.missing(delegation.deliverables, shown) if outcome == "completed" else []
    ended = tx.delegations.change(
        delegation.id,
        status=rules.status_of(outcome),
        outcome=outcome,
        result=result,
        error=error if outcome != "completed" else None,
        missing=missing or None,
        attempts=delegation.attempts if attempts is None else attempts,
        updated_at=now,
        finished_at=now,
        reported_at=now,
    )
    if ended is None:
        return None
    notify(tx, ended, COMPLETE if outcome == "completed" else FAILED, now)
    if ended.report == "inbox":
        delegation_reports.put(tx, ended, now)
    return ended


def notify(tx: Transaction, delegation: Delegation, event_type: str, now: datetime, **more: Any) -> None:
    """Write an event on both sides, and wake whoever waits for the delegation."""
    payload = views.outcome_view(delegation, **more)
    for workspace_id in (delegation.source_id, delegation.target_id):
        tx.events.append(Event(event_type, delegation.org_id, workspace_id, payload, now))
    tx.signal(signals.EVENTS)
    tx.signal(signals.delegation(delegation.id))


def cancel(tx: Transaction, delegation: Delegation, called_off: MessageOutcome, now: datetime) -> None:
    """Call off a delegation, the message that carries it, and all that came of it."""
    if delegation.message_id is not None:
        tx.mailbox.ask_to_stop(delegation.message_id)
    close(tx, delegation, called_off, "cancelled", now)
    for child in tx.delegations.open_children(delegation.id):
        cancel(tx, child, called_off, now)


def expire(tx: Transaction, delegation: Delegation, now: datetime) -> None:
    """End a delegation whose deadline has passed, together with its message if that is still open."""
    carried = None if delegation.message_id is None else tx.mailbox.get(delegation.message_id)
    if carried is not None and carried.is_open:
        close(tx, delegation, settlement.at_deadline(tx, carried), "expired", now)
        return
    sentence = "the deadline passed before the work was done"
    error = {"code": "deadline-exceeded", "message": sentence, "retryable": False}
    end(tx, delegation, "expired", now, error=error)


def close(
    tx: Transaction,
    delegation: Delegation,
    how: MessageOutcome,
    outcome: str,
    now: datetime,
    result: dict[str, Any] | None = None,
) -> None:
    """End a delegation by ending its message; by itself where no open message carries it."""
    if delegation.message_id is not None:
        settlement.settle(tx, delegation.message_id, how, now)
    current = tx.delegations.get(delegation.id)
    if current is not None and current.is_open:
        end(tx, current, outcome, now, result, how.error)


def workspace_removed(tx: Transaction, workspace: Workspace, now: datetime) -> None:
    """Whoever is gone neither asks nor works: what was open between it and others is called off."""
    called_off = messages.cancellation("workspace-removed", f"workspace {workspace.name} was removed")
    for delegation in tx.delegations.open_of(workspace.id):
        cancel(tx, delegation, called_off, now)
