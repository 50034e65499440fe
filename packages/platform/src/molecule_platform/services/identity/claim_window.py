"""The end of the time in which a workspace can be claimed: somebody has it, or its id is a secret no more."""

from datetime import datetime

from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.storage import Transaction


def close_after_use(tx: Transaction, workspace_id: str, now: datetime) -> None:
    """Whoever uses a token of a workspace has it: nobody else can claim it from then on."""
    workspace = tx.workspaces.get(workspace_id)
    if workspace is not None and workspace.claimed_at is None:
        tx.workspaces.touch(workspace_id, claimed_at=now, version=workspace.version + 1)


def close_after_disclosure(tx: Transaction, workspace: Workspace, now: datetime) -> None:
    """An operator lets a workspace act, or be asked by another one: from then on others know its id."""
    if workspace.can_be_claimed(now):
        tx.workspaces.touch(workspace.id, claim_until=None, version=workspace.version + 1)
