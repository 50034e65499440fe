"""Items of an inbox: messages with what an agent needs to handle them, or an operator to judge them."""

from collections.abc import Sequence
from typing import Any

from molecule_platform.domain import inbox
from molecule_platform.domain.log_limits import loggable_error
from molecule_platform.domain.messages import Message
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.activity import ActivityRow
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.events import activity_writer
from molecule_platform.services.messaging.inbox.activity_polling import peers_of, wire_row
from molecule_wire import times


def lease_item(
    tx: Transaction, workspace: Workspace, base_url: str, found: Sequence[tuple[Message, str | None]]
) -> dict[str, Any]:
    """Messages, each with the token of its lease if one was taken now, and how many more there are."""
    peers = peers_of(tx, [message.caller for message, _ in found])
    items: list[dict[str, Any]] = []
    for message, token in found:
        received, said = inbox.read_stored(message)
        row = wire_row(_row_of(message, said), peers.get(message.caller), base_url, False, said)
        items.append(_item(tx, message, received, row, token))
    accepted, leased, dead = tx.mailbox.counts(workspace.id)
    return {"messages": items, "pending": accepted, "leased": leased, "dead": dead}


def _item(
    tx: Transaction, message: Message, received: dict[str, Any], row: dict[str, Any], token: str | None
) -> dict[str, Any]:
    item = inbox.inbox_item(message, received, row, token) | {"delegation": _delegation_of(tx, message)}
    if message.finished_at is not None:
        item |= {"error": message.error, "finished_at": times.format_time(message.finished_at)}
    return item


def _delegation_of(tx: Transaction, message: Message) -> dict[str, Any] | None:
    found = None if message.delegation_id is None else tx.delegations.get(message.delegation_id)
    if found is None:
        return None
    return {
        "id": found.id,
        "task": found.task,
        "deadline_at": times.format_time(found.deadline_at),
        "deliverables": list(found.deliverables),
        "chain": list(found.chain),
    }


def _row_of(message: Message, said: str) -> ActivityRow:
    problem = str((message.error or {}).get("message", "")) if message.dead_letter else ""
    return ActivityRow(
        id=message.activity_id,
        org_id=message.org_id,
        seq=message.seq,
        workspace_id=message.target_id,
        activity_type="a2a_receive",
        caller=message.caller,
        created_at=message.created_at,
        source_id=inbox.peer_of(message.caller),
        target_id=message.target_id,
        method=message.method,
        summary=activity_writer.beginning(said),
        status="error" if message.dead_letter else "pending",
        error_detail=loggable_error(problem),
        message_id=message.id,
        message=message,
    )
