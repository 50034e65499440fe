"""The end of a workspace: what it takes along, what stays, and what is erased."""

from datetime import datetime
from typing import Any

from molecule_platform.domain import messages
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.messaging.delegations import delegation_state
from molecule_platform.services.messaging.messages import settlement
from molecule_platform.services.support import event_log, signals

CHILDREN_SHOWN = 100

_ERASED: dict[str, Any] = {
    "name": "",
    "role": "",
    "status_reason": "",
    "agent_card": None,
    "card_signature": "unsigned",
    "protocols": None,
    "dispatch_secret_sealed": None,
    "workspace_dir": None,
    "capabilities": None,
    "runtime_metadata": None,
    "current_task": "",
    "last_sample_error": "",
    "restart_reason": None,
    "restart_owed": None,
}


def remove(tx: Transaction, member: Workspace, now: datetime, cascade: int) -> Workspace:
    """Remove one workspace: its tokens end, and the senders of its open mail learn that it is gone."""
    tx.signal(signals.card(member.id))
    after = event_log.step(tx, member, "delete", now, {"removed_at": now}, cascade_deleted=cascade)
    tx.tokens.revoke_all(member.id, now, "workspace-removed")
    outcome = messages.cancellation("workspace-removed", f"workspace {member.name} was removed")
    for waiting in tx.mailbox.waiting(member.id):
        settlement.settle(tx, waiting.id, outcome, now)
    delegation_state.workspace_removed(tx, member, now)
    return after


def purge(tx: Transaction, removed: Workspace) -> None:
    """Erase its data. A tombstone stays: its id and place, when it went, the digests of its tokens.

    Who could reach it may learn of its end, and nobody else: that is decided by where it stood.
    """
    tx.upkeep.erase(removed.id)
    current = tx.workspaces.get(removed.id) or removed
    tx.workspaces.touch(removed.id, version=current.version + 1, **_ERASED)
    tx.signal(signals.card(removed.id))


def confirmation_required(children: list[Workspace], count: int) -> ApiError:
    """Removing a parent says first what it will take along, and names what may be known of it."""
    listed: list[Any] = [{"id": child.id, "name": child.name} for child in children[:CHILDREN_SHOWN]]
    sentence = f"this also removes {count} workspaces below it: repeat with confirm=true"
    return ApiError(
        "confirmation-required",
        sentence,
        status="confirmation_required",
        message=sentence,
        children=listed,
        children_count=count,
    )
