"""Delegations, as the store keeps them."""

from collections.abc import Collection
from datetime import datetime
from typing import Any, Protocol

from molecule_platform.domain.delegations import Delegation, Evidence


class Delegations(Protocol):
    """Verbs on delegations and on the evidence for them."""

    def insert(self, delegation: Delegation) -> None:
        """Keep a new delegation."""
        ...

    def get(self, delegation_id: str) -> Delegation | None:
        """The delegation with that id."""
        ...

    def by_key(self, source: str, idempotency_key: str) -> Delegation | None:
        """The delegation that holds a key of its source."""
        ...

    def give_up_key(self, delegation_id: str) -> None:
        """Free the key that a delegation holds."""
        ...

    def change(self, delegation_id: str, **values: Any) -> Delegation | None:
        """Change an open delegation; None when it is not open."""
        ...

    def page(
        self, workspace_id: str, role: str, statuses: Collection[str] | None, before: int | None, limit: int
    ) -> tuple[list[Delegation], bool]:
        """Delegations of a workspace in a role, newest first, and whether there are more.

        Only those with a lower `seq` than `before`; a page has fewer than asked for where they are large.
        """
        ...

    def open_children(self, delegation_id: str) -> list[Delegation]:
        """Open delegations that came of this one."""
        ...

    def open_of(self, workspace_id: str) -> list[Delegation]:
        """Open delegations from or to a workspace."""
        ...

    def chains_to(self, workspace_id: str, now: datetime, limit: int) -> dict[str, list[str]]:
        """Of the newest delegations to a workspace those whose deadline is to come: ids and chains."""
        ...

    def overdue(self, now: datetime, limit: int) -> list[Delegation]:
        """Open delegations whose deadline has passed."""
        ...

    def count_call(self, root_id: str) -> int | None:
        """Count one more delegation below a root; how many there are now, None when it is forgotten."""
        ...

    def add_evidence(self, evidence: Evidence) -> None:
        """Keep what somebody shows for a deliverable."""
        ...

    def evidence(self, delegation_id: str) -> list[Evidence]:
        """What was shown, oldest first."""
        ...
