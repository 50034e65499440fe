"""The security log: who touched what only few may touch, as the store keeps it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True)
class AuditEntry:
    """One row of `security_log`. `object` names what was touched and never holds a value."""

    org_id: str
    principal: str
    action: str
    object: str
    request_id: str
    created_at: datetime


class AuditLog(Protocol):
    """Verbs on the security log: it is only added to, and pruned by age."""

    def note(self, deed: AuditEntry) -> None:
        """Keep what somebody did."""
        ...

    def newest(self, org_id: str, limit: int) -> list[AuditEntry]:
        """The newest deeds of an organisation, newest first."""
        ...
