"""Which workspaces exist for a principal.

Another organisation's do not. Nor does one that can still be claimed, for anyone who could gain by a claim:
whoever knows its id can claim it, so to them it is an unknown id, in lists, events, explanations and errors.
Operators see it, but those without `org.secrets` only if its claim gives a token that reads no secrets.
"""

from dataclasses import dataclass
from datetime import datetime

from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace


@dataclass(frozen=True)
class Unclaimed:
    """The workspaces that can be claimed at a time: all, or those whose claim lets an agent read secrets."""

    at: datetime
    only_with_secrets: bool = False

    def covers(self, workspace: Workspace) -> bool:
        """Whether a workspace is one of them."""
        return workspace.can_be_claimed(self.at) and (
            workspace.claim_reads_secrets or not self.only_with_secrets
        )


def hidden_from(principal: Principal | None, now: datetime) -> Unclaimed | None:
    """The unclaimed workspaces that do not exist for the principal; None when all of them do."""
    if principal is None or not is_operator(principal):
        return Unclaimed(now)
    return None if principal.may("org.secrets") else Unclaimed(now, only_with_secrets=True)


def is_operator(principal: Principal) -> bool:
    """Whether the principal may change the organisation."""
    return principal.may("org.write")


def is_visible_to(principal: Principal, workspace: Workspace, now: datetime) -> bool:
    """Whether the principal may know that there is such a workspace."""
    if not (workspace.org_id == principal.org_id or principal.is_admin):
        return False
    if not workspace.can_be_claimed(now) or principal.workspace_id == workspace.id:
        return True
    hidden = hidden_from(principal, now)
    return hidden is None or not hidden.covers(workspace)
