"""The security log in SQL."""

from dataclasses import asdict, fields

from sqlalchemy import Connection, insert, select

from molecule_platform.ports.audit_log import AuditEntry
from molecule_platform.storage.tables import security_log
from molecule_wire import ids

_COLUMNS = [security_log.c[field.name] for field in fields(AuditEntry)]


class SqlAudit:
    """See `ports.audit.Audit`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def note(self, deed: AuditEntry) -> None:
        """Keep what somebody did."""
        self._connection.execute(insert(security_log).values(id=ids.uuid7(), **asdict(deed)))

    def newest(self, org_id: str, limit: int) -> list[AuditEntry]:
        """The newest deeds, newest first."""
        mine = security_log.c.org_id == org_id
        wanted = select(*_COLUMNS).where(mine).order_by(security_log.c.id.desc()).limit(limit)
        return [AuditEntry(**row) for row in self._connection.execute(wanted).mappings()]
