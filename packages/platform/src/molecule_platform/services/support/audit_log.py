"""The security log: what only few may touch is written down with whoever touches it, or does not happen."""

from dataclasses import dataclass
from datetime import datetime

from molecule_platform.ports.audit_log import AuditEntry
from molecule_platform.ports.storage import Transaction


@dataclass(frozen=True)
class AuditActor:
    """Who does something, and in which request."""

    principal: str
    request_id: str


def note(tx: Transaction, org_id: str, actor: AuditActor, action: str, what: str, now: datetime) -> None:
    """Write down what an actor does to something of an organisation, in the transaction that does it."""
    tx.audit.note(AuditEntry(org_id, actor.principal, action, what, actor.request_id, now))
