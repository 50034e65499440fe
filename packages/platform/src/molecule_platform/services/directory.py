"""Finding one another: the org tree as its members and operators see it."""

from typing import Any

from molecule_platform.domain import access, refusals, workspaces
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction


class Directory:
    """Reads the tree. Every address it gives is one of the platform."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    async def listing(self, principal: Principal, wanted: dict[str, str]) -> list[dict[str, Any]]:
        """Rows of the organisation; a workspace sees itself and those it may call."""
        include_removed = wanted.get("include_removed") in ("1", "true")

        def work(tx: Transaction) -> list[dict[str, Any]]:
            everyone = tx.workspaces.all_of(principal.org_id, include_removed=include_removed)
            visible = [w for w in self._visible(tx, principal, everyone) if _matches(w, wanted)]
            pending = tx.workspaces.pending([w.id for w in visible])
            return [_row_for(principal, w, pending.get(w.id, 0)) for w in visible]

        return await self._storage.read(work)

    def _visible(self, tx: Transaction, principal: Principal, everyone: list[Workspace]) -> list[Workspace]:
        if principal.workspace_id is None:
            return everyone
        reachable = self._reachable(tx, principal.workspace_id, everyone)
        return [w for w in everyone if w.id == principal.workspace_id or w.id in reachable]

    def _reachable(
        self, tx: Transaction, caller_id: str, everyone: list[Workspace]
    ) -> dict[str, access.Relation]:
        members = {w.id: w.as_member() for w in everyone}
        parents = {w.id: w.parent_id for w in everyone}
        granted = tx.workspaces.granted_from(caller_id, self._clock.now())
        return access.reachable(members[caller_id], members.values(), parents, granted)

    async def row(self, principal: Principal, workspace: Workspace) -> dict[str, Any]:
        """One workspace, reduced for a peer."""
        pending = await self._storage.read(lambda tx: tx.workspaces.pending([workspace.id]))
        return _row_for(principal, workspace, pending.get(workspace.id, 0))

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

    async def peers(
        self, workspace: Workspace, base_url: str, query: str | None, relation: str | None
    ) -> list[dict[str, Any]]:
        """Exactly the workspaces that the tree lets this one call."""

        def work(tx: Transaction) -> list[dict[str, Any]]:
            everyone = tx.workspaces.all_of(workspace.org_id)
            if all(w.id != workspace.id for w in everyone):
                raise refusals.workspace_not_found(workspace.id)
            reachable = self._reachable(tx, workspace.id, everyone)
            return [
                _peer(w, reachable[w.id], base_url)
                for w in everyone
                if w.id in reachable and _mentions(w, query) and (relation in (None, "", reachable[w.id]))
            ]

        return await self._storage.read(work)


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
        "max_concurrent_tasks": workspace.max_concurrent_tasks,
        "role": workspace.role,
        "agent_card": workspace.agent_card or {},
        "relation": relation,
        "delivery_mode": workspace.delivery_mode,
        "agent_url": f"{base_url}/agents/{workspace.id}/",
    }


def _mentions(workspace: Workspace, query: str | None) -> bool:
    if not query:
        return True
    skills = (workspace.agent_card or {}).get("skills")
    named = [s.get("name") for s in skills if isinstance(s, dict)] if isinstance(skills, list) else []  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    texts = [workspace.name, workspace.role, *(str(name) for name in named if name)]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return any(query.casefold() in text.casefold() for text in texts)


def _matches(workspace: Workspace, wanted: dict[str, str]) -> bool:
    status, parent_id = wanted.get("status"), wanted.get("parent_id")
    if status and workspace.status != status:
        return False
    if parent_id and workspace.parent_id != parent_id:
        return False
    return _mentions(workspace, wanted.get("q"))


def _row_for(principal: Principal, workspace: Workspace, pending: int) -> dict[str, Any]:
    theirs = principal.workspace_id is not None and principal.workspace_id != workspace.id
    return workspaces.peer_row(workspace, pending) if theirs else workspaces.full_row(workspace, pending)
