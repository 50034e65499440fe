"""A sleeping agent wakes once, whoever calls it first."""

from datetime import datetime

from molecule_platform.domain.messages import Message
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.support import event_log


def wake_target(tx: Transaction, workspace: Workspace, now: datetime) -> bool:
    """Begin to wake a hibernated workspace; False when it does not sleep."""
    if workspace.status != "hibernated":
        return False
    event_log.step(tx, workspace, "wake", now, {"provision_attempts": 1}, status="provisioning")
    return True


def wake_receiver(tx: Transaction, message: Message, now: datetime) -> None:
    """Begin to wake whoever the message is for, if it sleeps."""
    workspace = tx.workspaces.get(message.target_id)
    if workspace is not None:
        wake_target(tx, workspace, now)
