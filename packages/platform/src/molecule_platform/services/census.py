"""Walking through the workspaces that a principal may see, in the order of creation, batch by batch."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from molecule_platform.domain import refusals, visibility
from molecule_platform.domain.access import Relation
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.storage import Transaction
from molecule_platform.ports.workspaces import Found, Wanted

PEERS: tuple[Relation, ...] = ("parent", "sibling", "child", "ancestor", "descendant", "grant")
ITSELF_AND_PEERS: tuple[Relation, ...] = ("self", *PEERS)
BATCH = 500


@dataclass(frozen=True)
class WholeOrg:
    """All workspaces of an organisation, but for those that can be claimed at `unclaimable_at`, if given."""

    org_id: str
    unclaimable_at: datetime | None

    def look(self, tx: Transaction, wanted: Wanted) -> list[Found]:
        """A page of them."""
        return tx.workspaces.in_org(self.org_id, replace(wanted, unclaimable_at=self.unclaimable_at))


@dataclass(frozen=True)
class Reach:
    """The workspaces that a caller may reach and that are one of `relations` to it; none is removed."""

    caller: Workspace
    relations: Collection[Relation]
    now: datetime
    unclaimable_at: datetime | None

    def look(self, tx: Transaction, wanted: Wanted) -> list[Found]:
        """A page of them."""
        living = replace(wanted, include_removed=False, unclaimable_at=self.unclaimable_at)
        return tx.workspaces.in_reach(self.caller, living, self.relations, self.now)


Visible = WholeOrg | Reach


def visible_to(tx: Transaction, principal: Principal, now: datetime) -> Visible:
    """An operator sees the organisation, a workspace itself and those it may call."""
    if principal.workspace_id is None:
        return WholeOrg(principal.org_id, unclaimable_at(principal, now))
    caller = tx.workspaces.get(principal.workspace_id)
    if caller is None:
        raise refusals.workspace_not_found(principal.workspace_id)
    return Reach(caller, ITSELF_AND_PEERS, now, unclaimable_at(principal, now))


def unclaimable_at(by: Principal | None, now: datetime) -> datetime | None:
    """The time at which nothing that somebody sees may be open to a claim; None when they may see all."""
    return None if by is not None and visibility.sees_claimable(by) else now


def walk(tx: Transaction, visible: Visible, wanted: Wanted) -> Iterator[list[Found]]:
    """Everyone after the place that `wanted` names, `wanted.limit` at a time."""
    while True:
        batch = visible.look(tx, wanted)
        yield batch
        if len(batch) < wanted.limit:
            return
        wanted = replace(wanted, after=batch[-1].place)
