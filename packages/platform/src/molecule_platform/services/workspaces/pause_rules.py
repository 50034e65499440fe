"""A pause reaches down: nothing below a paused workspace starts."""

from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.storage import Transaction


def paused_ancestor(tx: Transaction, workspace: Workspace) -> Workspace | None:
    """The nearest workspace above that is paused."""
    line = tx.workspaces.ancestors(workspace.id)
    found = tx.workspaces.many(line)
    return next((found[above] for above in line if found[above].status == "paused"), None)


def refuse_below_paused(tx: Transaction, workspace: Workspace) -> None:
    """Refuse to start what stands below a paused workspace."""
    paused = paused_ancestor(tx, workspace)
    if paused is not None:
        # One that nobody has joined may not exist for who asks.
        named = "a workspace above it" if paused.claimed_at is None else f"its parent {paused.name}"
        raise ApiError("parent-paused", f"{named} is paused: resume that one first")
