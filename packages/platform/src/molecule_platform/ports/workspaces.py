"""The org tree, as the store keeps it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from molecule_platform.domain.access import Relation, TreeMember
from molecule_platform.domain.visibility import Unclaimed
from molecule_platform.domain.workspaces import Workspace

# What a heartbeat repeats each time, and no rule reads before the next one: it may be written a moment later.
PRESENCE = (
    "last_heartbeat_at",
    "liveness_expires_at",
    "uptime_seconds",
    "last_error_rate",
    "last_sample_error",
    "current_task",
)


@dataclass(frozen=True, order=True)
class PageCursor:
    """Where a workspace stands in the order of creation, in which pages come."""

    created_at: datetime
    id: str


@dataclass(frozen=True)
class WorkspaceMatch:
    """A workspace on a page, and what it is to whoever looks."""

    place: PageCursor
    relation: Relation = "none"


@dataclass(frozen=True)
class WorkspaceFilter:
    """Which workspaces a page is about, and where it begins."""

    limit: int
    after: PageCursor | None = None
    statuses: tuple[str, ...] = ()
    parent_id: str | None = None
    include_removed: bool = False
    # What to leave out of what can be claimed; None shows all.
    hidden: Unclaimed | None = None


@dataclass(frozen=True)
class Profile:
    """What a search looks at."""

    id: str
    name: str
    role: str
    status: str
    agent_card: dict[str, Any] | None


# What delivery decides by, and may be written without a new version.
UNVERSIONED = ("status", "active_tasks", "monthly_spend")
# When it was last written to, and last wrote: no rule of delivery reads that.
LAST_TIMES = ("last_activity_at", "last_outbound_at")


class Workspaces(Protocol):
    """Verbs on workspaces."""

    def insert(self, workspace: Workspace) -> None:
        """Keep a new workspace, below its parent."""
        ...

    def get(self, workspace_id: str) -> Workspace | None:
        """The workspace, removed ones too."""
        ...

    def member(self, workspace_id: str) -> TreeMember | None:
        """What the access rule needs of a workspace, removed ones too."""
        ...

    def standing(self, known: Workspace) -> Workspace | None:
        """The workspace as it is now; what delivery decides by is fresh, for the rest the version answers."""
        ...

    def many(self, workspace_ids: Collection[str]) -> dict[str, Workspace]:
        """The workspaces with these ids, removed ones too."""
        ...

    def profiles(self, workspace_ids: Collection[str]) -> dict[str, Profile]:
        """The same, as a search reads them."""
        ...

    def update(self, workspace: Workspace) -> bool:
        """Write `workspace` over the version before it; False when somebody was faster.

        What is removed leaves the tree. Another parent needs `move`.
        """
        ...

    def move(self, workspace: Workspace) -> bool:
        """Write `workspace` with another parent, and take all below it along; False as for `update`.

        The new parent may not be the workspace itself or below it: ask `descends` first.
        """
        ...

    def heard(self, presence: Mapping[str, Mapping[str, Any]]) -> None:
        """Set what heartbeats repeat, unless a later one was heard or the agent is being replaced."""
        ...

    def touch(self, workspace_id: str, **columns: Any) -> None:
        """Set columns without a new version: presence and counters, which the next heartbeat repeats."""
        ...

    def one_less(self, workspace_id: str) -> None:
        """One of the tasks that the agent reported is done; below zero it does not go."""
        ...

    def stale(self, now: datetime, limit: int) -> list[Workspace]:
        """Workspaces that count as alive although their liveness ran out."""
        ...

    def descends(self, ancestor_id: str, workspace_id: str) -> bool:
        """Whether one workspace is below the other, at any depth."""
        ...

    def height(self, workspace_id: str) -> int:
        """How many levels stand below the workspace."""
        ...

    def subtree(self, workspace_id: str) -> list[Workspace]:
        """The workspace and all below it that are not removed, each after its parent, at any depth."""
        ...

    def ancestors(self, workspace_id: str) -> list[str]:
        """Who is above, nearest first, as far as the access rule looks; nobody above a removed one."""
        ...

    def in_org(self, org_id: str, wanted: WorkspaceFilter) -> list[WorkspaceMatch]:
        """A page of an organisation, oldest first."""
        ...

    def in_reach(
        self, caller: Workspace, wanted: WorkspaceFilter, relations: Collection[Relation], now: datetime
    ) -> list[WorkspaceMatch]:
        """A page of those the caller may call and that are one of `relations` to it, oldest first."""
        ...

    def unclaimed(self, workspace_ids: Collection[str], which: Unclaimed) -> frozenset[str]:
        """Those of the workspaces that are unclaimed in that sense."""
        ...

    def granted_from(self, caller_id: str, now: datetime) -> frozenset[str]:
        """The workspaces that unexpired grants let the caller reach."""
        ...

    def pending(self, workspace_ids: Collection[str]) -> dict[str, int]:
        """How many open messages wait for each of the workspaces."""
        ...
