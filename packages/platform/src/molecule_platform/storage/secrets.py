"""Sealed values in SQL."""

from dataclasses import asdict

from sqlalchemy import ColumnElement, Connection, delete, exists, func, insert, select, tuple_, update

from molecule_platform.domain import lifecycle
from molecule_platform.ports.secrets import SealedLine, SealedSecret
from molecule_platform.storage.tables import idempotency, push_configs, secrets, signing_keys, workspaces

# A sealed line begins with the id of its key.
KEY_ID_LENGTH = 16
_PLACE = (secrets.c.org_id, secrets.c.workspace_id, secrets.c.key)


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

    def get(self, org_id: str, workspace_id: str, key: str) -> SealedSecret | None:
        """One secret."""
        wanted = select(secrets).where(_key(org_id, workspace_id, key))
        row = self._connection.execute(wanted).mappings().first()
        return None if row is None else SealedSecret(**row)

    def owe_restarts(self, org_id: str, key: str, reason: str) -> int:
        """Mark the provisioned workspaces that do not shadow the key."""
        column = workspaces.c
        runs = column.status.in_(sorted(lifecycle.STEPS["restart"].before)) & ~column.external
        shadowed = exists().where(_key(org_id, column.id, key))
        owed = {"restart_owed": reason, "version": column.version + 1}
        mine = update(workspaces).where(column.org_id == org_id, runs, ~shadowed)
        return self._connection.execute(mine.values(owed)).rowcount

    def page(self, after: SealedSecret | None, limit: int) -> list[SealedSecret]:
        """Secrets in the order of their keys."""
        wanted = select(secrets).order_by(*_PLACE).limit(limit)
        if after is not None:
            wanted = wanted.where(tuple_(*_PLACE) > (after.org_id, after.workspace_id, after.key))
        return [SealedSecret(**row) for row in self._connection.execute(wanted).mappings()]

    def lines(self, after: str, limit: int) -> list[SealedLine]:
        """Sealed lines in the order of the workspaces."""
        column = workspaces.c
        sealed = column.dispatch_secret_sealed.is_not(None) & (column.id > after)
        wanted = select(column.id, column.org_id, column.dispatch_secret_sealed).where(sealed)
        return [SealedLine(*row) for row in self._connection.execute(wanted.order_by(column.id).limit(limit))]

    def put_line(self, line: SealedLine) -> None:
        """Write a line over the one before it."""
        column = workspaces.c
        changed = {"dispatch_secret_sealed": line.line, "version": column.version + 1}
        self._connection.execute(update(workspaces).where(column.id == line.workspace_id).values(changed))

    def key_ids(self) -> frozenset[str]:
        """All keys in use."""
        lines = (
            workspaces.c.dispatch_secret_sealed,
            idempotency.c.answer_sealed,
            signing_keys.c.private_sealed,
            push_configs.c.secret_sealed,
        )
        named = [select(secrets.c.key_id)]
        # A line is empty where what it sealed was destroyed.
        named += [
            select(func.substr(line, 1, KEY_ID_LENGTH)).where(line.is_not(None), line != "") for line in lines
        ]
        found = (self._connection.execute(wanted.distinct()).scalars() for wanted in named)
        return frozenset(key_id for ids in found for key_id in ids)


def _key(org_id: str, workspace_id: str | ColumnElement[str], key: str) -> ColumnElement[bool]:
    column = secrets.c
    return (column.org_id == org_id) & (column.workspace_id == workspace_id) & (column.key == key)
