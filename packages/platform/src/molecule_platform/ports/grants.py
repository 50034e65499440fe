"""Extra edges of the tree, as the store keeps them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True)
class AccessGrant:
    """One workspace may call another although the tree does not say so, until the grant ends."""

    id: str
    org_id: str
    from_id: str
    to_id: str
    bidirectional: bool
    expires_at: datetime
    reason: str
    created_by: str
    created_at: datetime
    revoked_at: datetime | None = None


class Grants(Protocol):
    """Verbs on access grants."""

    def insert(self, grant: AccessGrant) -> None:
        """Keep a new grant."""
        ...

    def living(self, org_id: str, now: datetime) -> list[AccessGrant]:
        """The organisation's grants that are neither expired nor revoked, oldest first."""
        ...

    def revoke(self, org_id: str, grant_id: str, at: datetime) -> AccessGrant | None:
        """End a grant; None when the organisation has no such living grant."""
        ...
