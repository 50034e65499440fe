"""Plugins in SQL."""

from dataclasses import asdict
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, select, update

from molecule_platform.ports.plugins import InstalledPlugin, PinnedSource, PublisherKey, RevokedList
from molecule_platform.storage.tables import (
    org_plugin_allowlist,
    org_plugin_keys,
    plugin_locks,
    plugin_revocations,
    workspace_plugins,
)


class SqlPlugins:
    """See `ports.plugins.Plugins`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def installed(self, workspace_id: str) -> list[InstalledPlugin]:
        """What a workspace has."""
        column = workspace_plugins.c
        wanted = select(workspace_plugins).where(column.workspace_id == workspace_id).order_by(column.name)
        return [InstalledPlugin(**row) for row in self._connection.execute(wanted).mappings()]

    def get(self, workspace_id: str, name: str) -> InstalledPlugin | None:
        """One plugin."""
        wanted = select(workspace_plugins).where(_of(workspace_id, name))
        row = self._connection.execute(wanted).mappings().first()
        return None if row is None else InstalledPlugin(**row)

    def put(self, plugin: InstalledPlugin) -> None:
        """Keep it, over an older version."""
        self._write(workspace_plugins, _of(plugin.workspace_id, plugin.name), asdict(plugin))

    def delete(self, workspace_id: str, name: str) -> bool:
        """Forget it."""
        done = self._connection.execute(delete(workspace_plugins).where(_of(workspace_id, name)))
        return done.rowcount == 1

    def pinned(self, org_id: str, source: str) -> PinnedSource | None:
        """What a source is pinned to."""
        wanted = select(plugin_locks).where(_at(org_id, source))
        row = self._connection.execute(wanted).mappings().first()
        return None if row is None else PinnedSource(**row)

    def pin_count(self, org_id: str) -> int:
        """How many sources are pinned."""
        mine = select(func.count()).select_from(plugin_locks).where(plugin_locks.c.org_id == org_id)
        return self._connection.execute(mine).scalar_one()

    def pin(self, pinned: PinnedSource) -> None:
        """Pin it, over what it was pinned to."""
        self._write(plugin_locks, _at(pinned.org_id, pinned.source), asdict(pinned))

    def _write(self, table: Table, mine: ColumnElement[bool], row: dict[str, object]) -> None:
        """One row in the place of the one before it, whose first day it keeps."""
        fresh = {name: value for name, value in row.items() if name != "created_at"}
        changed = self._connection.execute(update(table).where(mine).values(fresh))
        if changed.rowcount == 0:
            self._connection.execute(insert(table).values(row))

    def allowlist(self, org_id: str) -> list[str]:
        """What the organisation allows."""
        column = org_plugin_allowlist.c
        wanted = select(column.plugin).where(column.org_id == org_id).order_by(column.place)
        return list(self._connection.execute(wanted).scalars())

    def put_allowlist(self, org_id: str, entries: list[str], enabled_by: str, now: datetime) -> None:
        """Write it anew."""
        given = {"org_id": org_id, "enabled_by": enabled_by, "created_at": now}
        self._replace(org_plugin_allowlist, org_id, [{"plugin": entry, **given} for entry in entries])

    def keys(self, org_id: str) -> list[PublisherKey]:
        """The keys that the organisation trusts."""
        column = org_plugin_keys.c
        wanted = select(column.key_id, column.key, column.name, column.allow)
        rows = self._connection.execute(wanted.where(column.org_id == org_id).order_by(column.place))
        return [PublisherKey(**row) for row in rows.mappings()]

    def put_keys(self, org_id: str, keys: list[PublisherKey], now: datetime) -> None:
        """Write them anew."""
        given = {"org_id": org_id, "created_at": now}
        self._replace(org_plugin_keys, org_id, [{**asdict(key), **given} for key in keys])

    def _replace(self, table: Table, org_id: str, rows: list[dict[str, object]]) -> None:
        self._connection.execute(delete(table).where(table.c.org_id == org_id))
        if rows:
            placed = [{**row, "place": place} for place, row in enumerate(rows)]
            self._connection.execute(insert(table), placed)

    def revocations(self) -> RevokedList | None:
        """The newest list."""
        wanted = select(plugin_revocations).order_by(plugin_revocations.c.version.desc()).limit(1)
        row = self._connection.execute(wanted).mappings().first()
        return None if row is None else RevokedList(**row)

    def put_revocations(self, revoked: RevokedList) -> None:
        """Keep a newer list."""
        self._connection.execute(insert(plugin_revocations).values(asdict(revoked)))


def _of(workspace_id: str, name: str) -> ColumnElement[bool]:
    return (workspace_plugins.c.workspace_id == workspace_id) & (workspace_plugins.c.name == name)


def _at(org_id: str, source: str) -> ColumnElement[bool]:
    return (plugin_locks.c.org_id == org_id) & (plugin_locks.c.source == source)
