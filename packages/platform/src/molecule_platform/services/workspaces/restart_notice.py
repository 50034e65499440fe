"""What a restarted agent is told: why, since when, and which variables it finds. Names, never values."""

import hashlib
from datetime import datetime, timedelta
from typing import Any

from molecule_platform.domain import lifecycle, messages
from molecule_platform.domain.environment import environment_of
from molecule_platform.domain.messages import Message
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.messaging.messages import intake
from molecule_wire import ids, jsontext, times

CALLER = "system:restart-context"
METADATA = {"source": "platform", "kind": "restart_context", "layer": 1, "restart_context": True}
LIFE = timedelta(days=1)


def send_restart_notice(tx: Transaction, before: Workspace, after: Workspace, now: datetime) -> None:
    """Store the message once a restarted agent is online again; a reset one is told nothing of its past."""
    if (before.status, after.status) != ("provisioning", "online") or before.restart_reason is None:
        return
    tx.workspaces.touch(after.id, restart_reason=None)
    if before.restart_reason != lifecycle.RESET:
        intake.enqueue(tx, _message(after, _said(tx, before), now), now)


def _said(tx: Transaction, workspace: Workspace) -> str:
    kept = [*tx.secrets.all_of(workspace.org_id, ""), *tx.secrets.all_of(workspace.org_id, workspace.id)]
    names = sorted({*environment_of(workspace), *(secret.key for secret in kept)})
    ended = workspace.session_ended_at
    since = "" if ended is None else f" The session before it ended at {times.format_time(ended)}."
    return (
        f"This workspace was restarted ({workspace.restart_reason}).{since} "
        f"Environment variables that are set: {', '.join(names)}."
    )


def _message(workspace: Workspace, said: str, now: datetime) -> Message:
    message_id = ids.uuid7()
    content: dict[str, Any] = {
        "kind": "message",
        "messageId": message_id,
        "role": "user",
        "parts": [{"kind": "text", "text": said}],
        "metadata": METADATA,
    }
    body: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": message_id,
        "method": "message/send",
        "params": {"message": content},
    }
    encoded = jsontext.encode(body)
    return Message(
        id=message_id,
        org_id=workspace.org_id,
        seq=0,
        target_id=workspace.id,
        caller=CALLER,
        caller_name="restart context",
        kind="system",
        method="message/send",
        dialect="0.3",
        body=encoded,
        body_hash=hashlib.sha256(encoded).hexdigest(),
        message_ref=message_id,
        context_id=ids.uuid7(),
        task_id=message_id,
        priority=messages.PRIORITY_SYSTEM,
        max_attempts=5,
        created_at=now,
        deadline_at=now + LIFE,
        waits_until=now + LIFE,
        activity_id=ids.uuid7(),
    )
