"""The org tree, as the store keeps it."""

from collections.abc import Collection
from datetime import datetime
from typing import Any, Protocol

from molecule_platform.domain.workspaces import Workspace


class Workspaces(Protocol):
    """Verbs on workspaces."""

    def insert(self, workspace: Workspace) -> None:
        """Keep a new workspace."""
        ...

    def get(self, workspace_id: str) -> Workspace | None:
        """The workspace, removed ones too."""
        ...

    def all_of(self, org_id: str, *, include_removed: bool = False) -> list[Workspace]:
        """Every workspace of an organisation, oldest first."""
        ...

    def update(self, workspace: Workspace) -> bool:
        """Write `workspace` over the version before it; False when somebody was faster."""
        ...

    def touch(self, workspace_id: str, **columns: Any) -> None:
        """Set columns without a new version: presence and counters, which the next heartbeat repeats."""
        ...

    def stale(self, now: datetime, limit: int) -> list[Workspace]:
        """Workspaces that count as alive although their liveness ran out."""
        ...

    def parents(self, org_id: str) -> dict[str, str | None]:
        """Each workspace of the organisation that is not removed, and its parent."""
        ...

    def parent_of(self, workspace_id: str) -> str | None:
        """The parent; None for a root, and for an unknown id."""
        ...

    def granted_from(self, caller_id: str, now: datetime) -> frozenset[str]:
        """The workspaces that unexpired grants let the caller reach."""
        ...

    def pending(self, workspace_ids: Collection[str]) -> dict[str, int]:
        """How many open messages wait for each of the workspaces."""
        ...
