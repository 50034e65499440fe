"""Telling an agent by its inbox how a delegation ended: ids, status and summary, the body by a link.

What the other agent wrote is not repeated: words from elsewhere do not enter a conversation unasked.
"""

from datetime import datetime, timedelta
from typing import Any

from molecule_platform.domain import delegation_views as views
from molecule_platform.domain import messages
from molecule_platform.domain.delegations import Delegation
from molecule_platform.domain.messages import Message
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.messaging.delegations import delegation_context
from molecule_platform.services.messaging.messages import intake, wakeups
from molecule_wire import JSONObject, ids, jsontext

CALLER, CALLER_NAME = "system:delegations", "Molecule"
KEPT = timedelta(days=1)
ATTEMPTS = 5


def put(tx: Transaction, delegation: Delegation, now: datetime) -> None:
    """Put the report into the inbox of the source; it is owed, so a full mailbox takes it too."""
    source = tx.workspaces.get(delegation.source_id)
    if source is None or source.removed:
        return
    delivery_attempt = None if delegation.message_id is None else tx.mailbox.get(delegation.message_id)
    report = _report(delegation, now)
    intake.enqueue(
        tx, report if delivery_attempt is None else report.but(traceparent=delivery_attempt.traceparent), now
    )
    wakeups.wake_target(tx, source, now)


def _report(delegation: Delegation, now: datetime) -> Message:
    message_id, context_id = ids.uuid7(), ids.uuid7()
    body = _body(delegation, message_id, context_id)
    return Message(
        id=message_id,
        org_id=delegation.org_id,
        seq=0,
        target_id=delegation.source_id,
        caller=CALLER,
        caller_name=CALLER_NAME,
        kind="delegation_result",
        method="message/send",
        dialect="0.3",
        body=body,
        body_hash="",
        message_ref=message_id,
        context_id=context_id,
        task_id=message_id,
        priority=messages.PRIORITY_PEER,
        max_attempts=ATTEMPTS,
        created_at=now,
        deadline_at=now + KEPT,
        waits_until=now + KEPT,
        activity_id=ids.uuid7(),
        delegation_id=delegation.id,
        delegation=delegation_context.for_report(delegation),
    )


def _body(delegation: Delegation, message_id: str, context_id: str) -> bytes:
    link = f"/delegations/{delegation.id}"
    words = f"Delegation {delegation.id} to {delegation.target_id} ended: {delegation.outcome}."
    summary = {"summary": views.summary(delegation), "url": link}
    said: dict[str, Any] = {
        "kind": "message",
        "role": "user",
        "messageId": message_id,
        "contextId": context_id,
        "parts": [{"kind": "text", "text": f"{words} GET {link} has the result."}],
        "metadata": {"delegation_result": views.outcome_view(delegation) | summary},
    }
    envelope: JSONObject = {
        "jsonrpc": "2.0",
        "id": message_id,
        "method": "message/send",
        "params": {"message": said},
    }
    return jsontext.encode(envelope)
