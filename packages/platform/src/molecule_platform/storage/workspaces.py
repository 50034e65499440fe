"""The org tree in SQL."""

from collections.abc import Collection
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, insert, or_, select, update

from molecule_platform.domain.lifecycle import ALIVE
from molecule_platform.domain.messages import OPEN
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.storage.tables import access_grants, messages, workspaces


class SqlWorkspaces:
    """See `ports.workspaces.Workspaces`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert(self, workspace: Workspace) -> None:
        """Keep a new workspace."""
        self._connection.execute(insert(workspaces).values(asdict(workspace)))

    def get(self, workspace_id: str) -> Workspace | None:
        """The workspace, removed ones too."""
        row = (
            self._connection.execute(select(workspaces).where(workspaces.c.id == workspace_id))
            .mappings()
            .first()
        )
        return None if row is None else Workspace(**row)

    def all_of(self, org_id: str, *, include_removed: bool = False) -> list[Workspace]:
        """Every workspace of an organisation, oldest first."""
        wanted = select(workspaces).where(workspaces.c.org_id == org_id)
        if not include_removed:
            wanted = wanted.where(workspaces.c.status != "removed")
        rows = self._connection.execute(wanted.order_by(workspaces.c.created_at, workspaces.c.id)).mappings()
        return [Workspace(**row) for row in rows]

    def update(self, workspace: Workspace) -> bool:
        """Write over the version before it."""
        before = workspaces.c.version == workspace.version - 1
        statement = (
            update(workspaces).where(workspaces.c.id == workspace.id, before).values(asdict(workspace))
        )
        return self._connection.execute(statement).rowcount == 1

    def touch(self, workspace_id: str, **columns: Any) -> None:
        """Set columns without a new version."""
        self._connection.execute(update(workspaces).where(workspaces.c.id == workspace_id).values(columns))

    def stale(self, now: datetime, limit: int) -> list[Workspace]:
        """Alive in name only."""
        wanted = select(workspaces).where(
            workspaces.c.status.in_(sorted(ALIVE)), workspaces.c.liveness_expires_at < now
        )
        return [Workspace(**row) for row in self._connection.execute(wanted.limit(limit)).mappings()]

    def parents(self, org_id: str) -> dict[str, str | None]:
        """The shape of the tree."""
        living = workspaces.c.status != "removed"
        wanted = select(workspaces.c.id, workspaces.c.parent_id).where(workspaces.c.org_id == org_id, living)
        return {row.id: row.parent_id for row in self._connection.execute(wanted)}

    def parent_of(self, workspace_id: str) -> str | None:
        """The parent."""
        wanted = select(workspaces.c.parent_id).where(workspaces.c.id == workspace_id)
        return self._connection.execute(wanted).scalar_one_or_none()

    def granted_from(self, caller_id: str, now: datetime) -> frozenset[str]:
        """Where grants lead, forwards and, when they run both ways, backwards."""
        grant = access_grants.c
        involved = or_(grant.from_id == caller_id, (grant.to_id == caller_id) & grant.bidirectional)
        live = (grant.expires_at > now) & grant.revoked_at.is_(None)
        rows = self._connection.execute(select(grant.from_id, grant.to_id).where(involved, live))
        return frozenset(row.to_id if row.from_id == caller_id else row.from_id for row in rows)

    def pending(self, workspace_ids: Collection[str]) -> dict[str, int]:
        """Open messages of each."""
        wanted = (
            select(messages.c.target_id, func.count().label("open"))
            .where(messages.c.target_id.in_(workspace_ids), messages.c.status.in_(sorted(OPEN)))
            .group_by(messages.c.target_id)
        )
        return {row.target_id: row.open for row in self._connection.execute(wanted)}
