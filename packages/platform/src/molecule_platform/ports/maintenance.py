"""What the house looks after by itself, as the store keeps it."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from molecule_platform.domain.workspaces import Workspace


class MaintenanceQueries(Protocol):
    """Verbs over the workspaces of every organisation."""

    def provisioned(self, statuses: Collection[str], after: str, limit: int) -> list[Workspace]:
        """Workspaces whose agents we start ourselves, in one of the statuses: a page after an id, by id."""
        ...

    def to_be_stopped(self, after: str, limit: int) -> list[Workspace]:
        """Workspaces of which a process may run that must not: a page after an id, by id."""
        ...

    def stopped(self, workspace_id: str, through: int) -> None:
        """No process of that start, or of an earlier one, runs any more."""
        ...

    def owed_a_restart(self, limit: int) -> list[Workspace]:
        """Workspaces that are to be restarted."""
        ...

    def seemingly_busy(self, quiet_since: datetime, limit: int) -> list[Workspace]:
        """Workspaces that report work although they hold no message and nothing happened since then."""
        ...

    def last_settled(self, workspace_id: str) -> datetime | None:
        """When the workspace last finished a message."""
        ...

    def erase(self, workspace_id: str) -> None:
        """Delete all that a removed workspace was told, said, did and knew.

        Its own row, the digests of its tokens and the bare fact of its removal stay, and so do, without their
        content, the messages it was sent: their senders may still ask what became of them.
        """
        ...
