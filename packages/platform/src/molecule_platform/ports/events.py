"""The event log, as the store keeps it."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from molecule_platform.domain.events import Event


class EventLog(Protocol):
    """Verbs on the log. Message transitions and events share one growing counter."""

    def append(self, event: Event) -> int:
        """Keep an event; the number that it got."""
        ...

    def after(
        self,
        event_id: int,
        limit: int,
        *,
        org_id: str | None = None,
        workspace_id: str | None = None,
        types: Collection[str] | None = None,
    ) -> list[Event]:
        """Events after a number, oldest first, message transitions merged in."""
        ...

    def newest(
        self,
        org_id: str,
        limit: int,
        *,
        workspace_id: str | None = None,
        types: Collection[str] | None = None,
        before: int | None = None,
    ) -> list[Event]:
        """The newest events of an organisation, or the newest before a number, newest first."""
        ...

    def last_id(self) -> int:
        """The number of the newest entry; 0 when there is none."""
        ...

    def oldest_kept(self) -> int:
        """The oldest number to resume after without a gap: everything after it is still here."""
        ...

    def prune(self, before: datetime, limit: int) -> int:
        """Forget the oldest entries from before a time, at most `limit`; how many those were."""
        ...
