"""The org tree in SQL."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, fields
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    bindparam,
    func,
    insert,
    or_,
    select,
    update,
)

from molecule_platform.domain import access
from molecule_platform.domain.access import Relation, TreeMember
from molecule_platform.domain.lifecycle import ALIVE
from molecule_platform.domain.messages import OPEN
from molecule_platform.domain.visibility import Unclaimed
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.workspaces import (
    PRESENCE,
    UNVERSIONED,
    PageCursor,
    Profile,
    WorkspaceFilter,
    WorkspaceMatch,
)
from molecule_platform.storage import ancestors as storage_ancestors
from molecule_platform.storage import tree_pages, workspace_cache
from molecule_platform.storage.columns import StringList
from molecule_platform.storage.prepared import Prepared
from molecule_platform.storage.tables import access_grants, messages, workspaces
from molecule_platform.storage.tables import lineage as lineage_table

_ALL = [workspaces.c[field.name] for field in fields(Workspace) if field.init]
_GET = Prepared(select(*_ALL).where(workspaces.c.id == bindparam("workspace")), _ALL)
_MEMBER = [workspaces.c[name] for name in ("id", "org_id", "parent_id", "isolated", "status")]
_GET_MEMBER = Prepared(select(*_MEMBER).where(workspaces.c.id == bindparam("workspace")), _MEMBER)
_CHANGING = [workspaces.c[name] for name in ("version", *UNVERSIONED)]
_STANDING = Prepared(select(*_CHANGING).where(workspaces.c.id == bindparam("workspace")), _CHANGING)
_DONE = Prepared(
    update(workspaces)
    .where(workspaces.c.id == bindparam("workspace"), workspaces.c.active_tasks > 0)
    .values(active_tasks=workspaces.c.active_tasks - 1)
)
_grant = access_grants.c
_CALLER = bindparam("caller", type_=StringList())
_GRANTED = Prepared(
    select(_grant.from_id, _grant.to_id).where(
        or_(_grant.from_id == _CALLER, (_grant.to_id == _CALLER) & _grant.bidirectional),
        (_grant.expires_at > bindparam("now")) & _grant.revoked_at.is_(None),
    ),
    [_grant.from_id, _grant.to_id],
)
_PROFILE = [workspaces.c[field.name] for field in fields(Profile)]


def _touching(names: Collection[str], *conditions: ColumnElement[bool]) -> Prepared:
    values = {name: bindparam(name, type_=workspaces.c[name].type) for name in names}
    mine = workspaces.c.id == bindparam("workspace")
    return Prepared(update(workspaces).where(mine, *conditions).values(values))


@cache
def _touches(names: tuple[str, ...]) -> Prepared:
    return _touching(names)


_LAST, _STATUS = workspaces.c.last_heartbeat_at, workspaces.c.status
# Every heartbeat ends here. Another replica may have heard the agent later, and an agent that is being
# replaced speaks for the process before.
_HEARD = _touching(
    PRESENCE,
    or_(_LAST.is_(None), bindparam("heard_at", type_=_LAST.type) > _LAST),
    (_STATUS != "provisioning") & (_STATUS != "removed"),
)


class SqlWorkspaces:
    """See `ports.workspaces.Workspaces`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._standings = workspace_cache.of(connection)

    def insert(self, workspace: Workspace) -> None:
        """Keep a new workspace."""
        self._connection.execute(insert(workspaces).values(asdict(workspace)))
        if workspace.parent_id is not None and not workspace.removed:
            born = {"parent_id": workspace.parent_id, "created_at": workspace.created_at}
            self._connection.execute(storage_ancestors.JOIN_PARENT, {"workspace_id": workspace.id, **born})

    def get(self, workspace_id: str) -> Workspace | None:
        """The workspace, removed ones too."""
        row = _GET.first(self._connection, {"workspace": workspace_id})
        return None if row is None else Workspace(**row)

    def member(self, workspace_id: str) -> TreeMember | None:
        """What the access rule needs of it."""
        remembered = None if self._standings is None else self._standings.members
        found = None if remembered is None else remembered.get(workspace_id)
        if found is None:
            row = _GET_MEMBER.first(self._connection, {"workspace": workspace_id})
            found = None if row is None else TreeMember(removed=row.pop("status") == "removed", **row)
            if remembered is not None and found is not None:
                remembered.keep(workspace_id, found)
        return found

    def standing(self, known: Workspace) -> Workspace | None:
        """The workspace as it is now, read whole only if it has another version than the one known."""
        remembered = None if self._standings is None else self._standings.workspaces
        found = None if remembered is None else remembered.get(known.id)
        if found is None:
            found = self._standing(known)
            if remembered is not None and found is not None:
                remembered.keep(known.id, found)
        return found

    def _standing(self, known: Workspace) -> Workspace | None:
        row = _STANDING.first(self._connection, {"workspace": known.id})
        if row is None:
            return None
        if row["version"] != known.version:
            return self.get(known.id)
        # Whoever knows the same shares it.
        return known if row.items() <= vars(known).items() else known.but(**row)

    def many(self, workspace_ids: Collection[str]) -> dict[str, Workspace]:
        """The workspaces with these ids."""
        wanted = select(workspaces).where(workspaces.c.id.in_(workspace_ids))
        return {row["id"]: Workspace(**row) for row in self._connection.execute(wanted).mappings()}

    def profiles(self, workspace_ids: Collection[str]) -> dict[str, Profile]:
        """The same, as a search reads them."""
        wanted = select(*_PROFILE).where(workspaces.c.id.in_(workspace_ids))
        return {row["id"]: Profile(**row) for row in self._connection.execute(wanted).mappings()}

    def update(self, workspace: Workspace) -> bool:
        """Write over the version before it."""
        before = workspaces.c.version == workspace.version - 1
        statement = (
            update(workspaces).where(workspaces.c.id == workspace.id, before).values(asdict(workspace))
        )
        written = self._connection.execute(statement).rowcount == 1
        if written and workspace.removed:
            self._connection.execute(storage_ancestors.FORGET_ONE, {"workspace_id": workspace.id})
        return written

    def move(self, workspace: Workspace) -> bool:
        """Write over the version before it, and take all below along."""
        moved = self.update(workspace)
        if moved:
            self._connection.execute(storage_ancestors.FORGET_SUBTREE, {"workspace_id": workspace.id})
            self._connection.execute(storage_ancestors.LAY_OUT, {"workspace_id": workspace.id})
        return moved

    def heard(self, presence: Mapping[str, Mapping[str, Any]]) -> None:
        """Set what a heartbeat repeats, unless that is out of date."""
        rows = (
            {"workspace": workspace_id, "heard_at": said["last_heartbeat_at"], **said}
            for workspace_id, said in presence.items()
        )
        _HEARD.run_all(self._connection, rows)

    def touch(self, workspace_id: str, **columns: Any) -> None:
        """Set columns without a new version."""
        statement = _touches(tuple(sorted(columns)))
        statement.run(self._connection, {"workspace": workspace_id, **columns})

    def one_less(self, workspace_id: str) -> None:
        """One of the tasks that the agent reported is done."""
        _DONE.run(self._connection, {"workspace": workspace_id})

    def stale(self, now: datetime, limit: int) -> list[Workspace]:
        """Alive in name only."""
        wanted = select(workspaces).where(
            workspaces.c.status.in_(sorted(ALIVE)), workspaces.c.liveness_expires_at < now
        )
        return [Workspace(**row) for row in self._connection.execute(wanted.limit(limit)).mappings()]

    def descends(self, ancestor_id: str, workspace_id: str) -> bool:
        """Whether one is below the other."""
        asked = {"ancestor_id": ancestor_id, "workspace_id": workspace_id}
        return self._connection.execute(storage_ancestors.DESCENDS, asked).first() is not None

    def height(self, workspace_id: str) -> int:
        """How many levels stand below the workspace."""
        below = select(func.max(lineage_table.c.distance)).where(lineage_table.c.ancestor_id == workspace_id)
        return self._connection.execute(below).scalar_one() or 0

    def subtree(self, workspace_id: str) -> list[Workspace]:
        """It and all below it that live."""
        rows = self._connection.execute(storage_ancestors.SUBTREE, {"workspace_id": workspace_id}).mappings()
        members = {row["id"]: Workspace(**row) for row in rows}
        if workspace_id not in members:
            return []
        order = access.subtree(workspace_id, {member.id: member.parent_id for member in members.values()})
        return [members[member_id] for member_id in order]

    def ancestors(self, workspace_id: str) -> list[str]:
        """Who is above, nearest first."""
        remembered = None if self._standings is None else self._standings.ancestors
        found = None if remembered is None else remembered.get(workspace_id)
        if found is None:
            rows = storage_ancestors.ANCESTORS.rows(self._connection, {"workspace_id": workspace_id})
            found = tuple(row["ancestor_id"] for row in rows)
            if remembered is not None:
                remembered.keep(workspace_id, found)
        return list(found)

    def in_org(self, org_id: str, wanted: WorkspaceFilter) -> list[WorkspaceMatch]:
        """A page of an organisation."""
        return self._found(tree_pages.page_of_org(org_id, wanted))

    def in_reach(
        self, caller: Workspace, wanted: WorkspaceFilter, relations: Collection[Relation], now: datetime
    ) -> list[WorkspaceMatch]:
        """A page of those the caller may call."""
        named = {
            "ancestor": self.ancestors(caller.id)[1:] if "ancestor" in relations else (),
            "grant": self.granted_from(caller.id, now) if "grant" in relations else (),
        }
        scans = tree_pages.scans_of(caller, relations, named)
        return self._found(tree_pages.page_of_reach(scans, wanted)) if scans else []

    def _found(self, page: Executable) -> list[WorkspaceMatch]:
        rows = self._connection.execute(page)
        return [WorkspaceMatch(PageCursor(row.created_at, row.id), row.relation) for row in rows]

    def unclaimed(self, workspace_ids: Collection[str], which: Unclaimed) -> frozenset[str]:
        """Those that can be claimed."""
        if not workspace_ids:
            return frozenset()
        is_open = tree_pages.is_unclaimed(which) & (workspaces.c.status != "removed")
        wanted = select(workspaces.c.id).where(workspaces.c.id.in_(workspace_ids), is_open)
        return frozenset(row.id for row in self._connection.execute(wanted))

    def granted_from(self, caller_id: str, now: datetime) -> frozenset[str]:
        """Where grants lead, forwards and, when they run both ways, backwards."""
        rows = _GRANTED.rows(self._connection, {"caller": caller_id, "now": now})
        return frozenset(row["to_id"] if row["from_id"] == caller_id else row["from_id"] for row in rows)

    def pending(self, workspace_ids: Collection[str]) -> dict[str, int]:
        """Open messages of each."""
        wanted = (
            select(messages.c.target_id, func.count().label("open"))
            .where(messages.c.target_id.in_(workspace_ids), messages.c.status.in_(sorted(OPEN)))
            .group_by(messages.c.target_id)
        )
        return {row.target_id: row.open for row in self._connection.execute(wanted)}
