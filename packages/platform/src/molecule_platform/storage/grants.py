"""Extra edges of the tree in SQL."""

from dataclasses import asdict
from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from molecule_platform.ports.grants import AccessGrant
from molecule_platform.storage.tables import access_grants


class SqlGrants:
    """See `ports.grants.Grants`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert(self, grant: AccessGrant) -> None:
        """Keep a new grant."""
        self._connection.execute(insert(access_grants).values(asdict(grant)))

    def living(self, org_id: str, now: datetime) -> list[AccessGrant]:
        """Grants that still hold."""
        column = access_grants.c
        holds = column.revoked_at.is_(None) & (column.expires_at > now)
        wanted = (
            select(access_grants).where(column.org_id == org_id, holds).order_by(column.created_at, column.id)
        )
        return [AccessGrant(**row) for row in self._connection.execute(wanted).mappings()]

    def revoke(self, org_id: str, grant_id: str, at: datetime) -> AccessGrant | None:
        """End a grant."""
        column = access_grants.c
        mine = (column.id == grant_id) & (column.org_id == org_id)
        holds = column.revoked_at.is_(None) & (column.expires_at > at)
        statement = update(access_grants).where(mine, holds).values(revoked_at=at)
        row = self._connection.execute(statement.returning(*access_grants.c)).mappings().first()
        return None if row is None else AccessGrant(**row)
