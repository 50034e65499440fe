"""Finding one another: the org tree as its members and operators see it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from molecule_platform.domain import cursors, search, visibility, workspaces
from molecule_platform.domain.access import Relation
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.ports.workspaces import PageCursor, WorkspaceFilter
from molecule_platform.services.workspaces import workspace_pages
from molecule_platform.services.workspaces.workspace_pages import Visible, VisibleWorkspaces
from molecule_wire import times


@dataclass(frozen=True)
class DirectoryQuery:
    """Which rows a caller asks for. Without a limit it gets them all."""

    limit: int | None = None
    cursor: str | None = None
    q: str | None = None
    status: str | None = None
    parent_id: str | None = None
    include_removed: bool = False

    def wanted(self) -> WorkspaceFilter:
        """The batches to walk in: one suffices unless a search passes many by."""
        batch = workspace_pages.BATCH if self.q or self.limit is None else self.limit + 1
        statuses = () if self.status is None else (self.status,)
        return WorkspaceFilter(
            batch, read_cursor(self.cursor), statuses, self.parent_id, self.include_removed
        )


@dataclass(frozen=True)
class DirectoryPage:
    """Rows, and the cursor of the rest if there is one."""

    rows: list[dict[str, Any]]
    next_cursor: str | None = None


@dataclass(frozen=True)
class _VisibleAgents:
    workspace: Workspace
    relation: Relation


class Directory:
    """Reads the tree. Every address it gives is one of the platform."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    async def listing(self, principal: Principal, asked: DirectoryQuery) -> DirectoryPage:
        """Rows of the organisation; a workspace sees itself and those it may call."""
        now = self._clock.now()

        def work(tx: Transaction) -> DirectoryPage:
            seen, more = _page(tx, workspace_pages.visible_to(tx, principal, now), asked)
            pending = tx.workspaces.pending([one.workspace.id for one in seen])
            shown = _with_known_parents(tx, principal, [one.workspace for one in seen], now)
            return DirectoryPage([_row_for(principal, one, pending.get(one.id, 0)) for one in shown], more)

        return await self._storage.read(work)

    async def peers(
        self,
        workspace: Workspace,
        base_url: str,
        asked: DirectoryQuery,
        relation: Relation | None = None,
        by: Principal | None = None,
    ) -> DirectoryPage:
        """Exactly the workspaces that the tree lets this one call, as far as they exist for who asks.

        That is the workspace itself, unless it is said otherwise.
        """
        now = self._clock.now()
        relations = workspace_pages.PEERS if relation is None else (relation,)
        reach = VisibleWorkspaces(workspace, relations, now, visibility.hidden_from(by, now))

        def work(tx: Transaction) -> DirectoryPage:
            seen, more = _page(tx, reach, asked)
            shown = _with_known_parents(tx, by, [one.workspace for one in seen], now)
            relation_of = {one.workspace.id: one.relation for one in seen}
            return DirectoryPage([_peer(one, relation_of[one.id], base_url) for one in shown], more)

        return await self._storage.read(work)

    async def row(self, principal: Principal, workspace: Workspace) -> dict[str, Any]:
        """One workspace, reduced for a peer."""
        now = self._clock.now()

        def work(tx: Transaction) -> dict[str, Any]:
            [shown] = _with_known_parents(tx, principal, [workspace], now)
            return _row_for(principal, shown, tx.workspaces.pending([shown.id]).get(shown.id, 0))

        return await self._storage.read(work)

    async def state(self, workspace: Workspace) -> dict[str, Any]:
        """What a remote agent asks to know whether it should go on."""
        pending = await self._storage.read(lambda tx: tx.workspaces.pending([workspace.id]))
        return {
            "workspace_id": workspace.id,
            "status": workspace.status,
            "paused": workspace.status == "paused",
            "deleted": False,
            "pending": pending.get(workspace.id, 0),
            "needs_restart": workspace.needs_restart,
        }

    async def delivery_mode(self, workspace_id: str) -> str:
        """How a workspace gets its messages."""
        workspace = await self._storage.read(lambda tx: tx.workspaces.get(workspace_id))
        return "poll" if workspace is None else workspace.delivery_mode


def _page(
    tx: Transaction, visible: Visible, asked: DirectoryQuery
) -> tuple[list[_VisibleAgents], str | None]:
    """As many as asked for of those that the question fits, and the cursor if there are more."""
    page: list[_VisibleAgents] = []
    for one in _fitting(tx, visible, asked):
        if len(page) == asked.limit:
            last = page[-1].workspace
            return page, cursors.written(last.created_at.isoformat(), last.id)
        page.append(one)
    return page, None


def _fitting(tx: Transaction, visible: Visible, asked: DirectoryQuery) -> Iterator[_VisibleAgents]:
    for batch in workspace_pages.iterate(tx, visible, asked.wanted()):
        rows = tx.workspaces.many([found.place.id for found in batch])
        for found in batch:
            workspace = rows[found.place.id]
            if not asked.q or search.mentions(workspace.name, workspace.role, workspace.agent_card, asked.q):
                yield _VisibleAgents(workspace, found.relation)


def _with_known_parents(
    tx: Transaction, by: Principal | None, seen: list[Workspace], now: datetime
) -> list[Workspace]:
    """The same, without the ids of parents that do not exist for who asks."""
    unclaimed = visibility.hidden_from(by, now)
    if unclaimed is None:
        return seen
    hidden = tx.workspaces.unclaimed({one.parent_id for one in seen if one.parent_id}, unclaimed)
    return [one.but(parent_id=None) if one.parent_id in hidden else one for one in seen]


def read_cursor(cursor: str | None) -> PageCursor | None:
    """The place where the last page ended."""
    if cursor is None:
        return None
    created_at, workspace_id = cursors.read(cursor, 2)
    try:
        return PageCursor(times.parse_time(created_at), workspace_id)
    except ValueError as problem:
        raise cursors.unknown() from problem


def discovered(workspace: Workspace, base_url: str) -> dict[str, Any]:
    """Where a workspace is reached: always through the platform."""
    return {
        "id": workspace.id,
        "name": workspace.name,
        "url": platform_path(base_url, workspace.id),
        "status": workspace.status,
        "delivery_mode": workspace.delivery_mode,
        "agent_url": f"{base_url}/agents/{workspace.id}/",
        "card_url": f"{base_url}/agents/{workspace.id}/.well-known/agent-card.json",
    }


def platform_path(base_url: str, workspace_id: str) -> str:
    """The URL at which everyone calls a workspace."""
    return f"{base_url}/workspaces/{workspace_id}/a2a"


def _peer(workspace: Workspace, relation: str, base_url: str) -> dict[str, Any]:
    return {
        "id": workspace.id,
        "name": workspace.name,
        "tier": workspace.tier,
        "status": workspace.status,
        "url": platform_path(base_url, workspace.id),
        "parent_id": workspace.parent_id,
        "active_tasks": workspace.active_tasks,
        "max_concurrent_tasks": workspace.concurrent_tasks,
        "role": workspace.role,
        "agent_card": workspace.agent_card or {},
        "relation": relation,
        "delivery_mode": workspace.delivery_mode,
        "agent_url": f"{base_url}/agents/{workspace.id}/",
    }


def _row_for(principal: Principal, workspace: Workspace, pending: int) -> dict[str, Any]:
    theirs = principal.workspace_id is not None and principal.workspace_id != workspace.id
    return workspaces.peer_row(workspace, pending) if theirs else workspaces.full_row(workspace, pending)
