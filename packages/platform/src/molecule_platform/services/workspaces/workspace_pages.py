"""Walking through the workspaces that a principal may see, in the order of creation, batch by batch."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from molecule_platform.domain import errors, visibility
from molecule_platform.domain.access import Relation
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.visibility import Unclaimed
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.storage import Transaction
from molecule_platform.ports.workspaces import WorkspaceFilter, WorkspaceMatch

PEERS: tuple[Relation, ...] = ("parent", "sibling", "child", "ancestor", "descendant", "grant")
ITSELF_AND_PEERS: tuple[Relation, ...] = ("self", *PEERS)
BATCH = 500


@dataclass(frozen=True)
class OrganisationScope:
    """All workspaces of an organisation but the hidden ones."""

    org_id: str
    hidden: Unclaimed | None

    def look(self, tx: Transaction, wanted: WorkspaceFilter) -> list[WorkspaceMatch]:
        """A page of them."""
        return tx.workspaces.in_org(self.org_id, replace(wanted, hidden=self.hidden))


@dataclass(frozen=True)
class VisibleWorkspaces:
    """Those that a caller may reach and that are one of `relations` to it, but the removed and the hidden."""

    caller: Workspace
    relations: Collection[Relation]
    now: datetime
    hidden: Unclaimed | None

    def look(self, tx: Transaction, wanted: WorkspaceFilter) -> list[WorkspaceMatch]:
        """A page of them."""
        living = replace(wanted, include_removed=False, hidden=self.hidden)
        return tx.workspaces.in_reach(self.caller, living, self.relations, self.now)


Visible = OrganisationScope | VisibleWorkspaces


def visible_to(tx: Transaction, principal: Principal, now: datetime) -> Visible:
    """An operator sees the organisation, a workspace itself and those it may call."""
    if principal.workspace_id is None:
        return OrganisationScope(principal.org_id, visibility.hidden_from(principal, now))
    caller = tx.workspaces.get(principal.workspace_id)
    if caller is None:
        raise errors.workspace_not_found(principal.workspace_id)
    return VisibleWorkspaces(caller, ITSELF_AND_PEERS, now, visibility.hidden_from(principal, now))


def iterate(tx: Transaction, visible: Visible, wanted: WorkspaceFilter) -> Iterator[list[WorkspaceMatch]]:
    """Everyone after the place that `wanted` names, `wanted.limit` at a time."""
    while True:
        batch = visible.look(tx, wanted)
        yield batch
        if len(batch) < wanted.limit:
            return
        wanted = replace(wanted, after=batch[-1].place)
