"""Sealed values in SQL."""

from dataclasses import asdict

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from molecule_platform.ports.secrets import SealedSecret
from molecule_platform.storage.tables import secrets


class SqlSecrets:
    """See `ports.secrets.Secrets`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def put(self, secret: SealedSecret) -> None:
        """Keep a value, over an older one."""
        row = asdict(secret)
        mine = _key(secret.org_id, secret.workspace_id, secret.key)
        fresh = {name: value for name, value in row.items() if name != "created_at"}
        changed = self._connection.execute(update(secrets).where(mine).values(fresh))
        if changed.rowcount == 0:
            self._connection.execute(insert(secrets).values(row))

    def delete(self, org_id: str, workspace_id: str, key: str) -> bool:
        """Forget a value."""
        return self._connection.execute(delete(secrets).where(_key(org_id, workspace_id, key))).rowcount == 1

    def all_of(self, org_id: str, workspace_id: str) -> list[SealedSecret]:
        """The secrets of exactly that scope."""
        scope = (secrets.c.org_id == org_id) & (secrets.c.workspace_id == workspace_id)
        rows = self._connection.execute(select(secrets).where(scope).order_by(secrets.c.key)).mappings()
        return [SealedSecret(**row) for row in rows]


def _key(org_id: str, workspace_id: str, key: str) -> ColumnElement[bool]:
    column = secrets.c
    return (column.org_id == org_id) & (column.workspace_id == workspace_id) & (column.key == key)
