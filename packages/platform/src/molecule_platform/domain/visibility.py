"""Which workspaces exist for a principal.

Another organisation's do not. Nor does one that can still be claimed, for anyone without `org.write`:
whoever knows its id can claim it, so to everybody else it is an unknown id, in lists, events, explanations
and errors.
"""

from datetime import datetime

from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace


def exists_for(principal: Principal, workspace: Workspace, now: datetime) -> bool:
    """Whether the principal may know that there is such a workspace."""
    if not (workspace.org_id == principal.org_id or principal.is_admin):
        return False
    if not workspace.can_be_claimed(now) or principal.workspace_id == workspace.id:
        return True
    return sees_claimable(principal)


def sees_claimable(principal: Principal) -> bool:
    """Whether workspaces that can still be claimed exist for the principal."""
    return principal.may("org.write")
