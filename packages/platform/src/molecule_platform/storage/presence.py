"""Living replicas in SQL."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from molecule_platform.storage.tables import replicas


class SqlPresence:
    """See `ports.presence.Presence`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def seen(self, replica_id: str) -> None:
        """Say that a replica lives."""
        now = self._now()
        changed = self._connection.execute(
            update(replicas).where(replicas.c.id == replica_id).values(seen_at=now)
        )
        if changed.rowcount == 0:
            self._connection.execute(insert(replicas).values(id=replica_id, seen_at=now))

    def alive(self, within: timedelta) -> list[str]:
        """Replicas seen within that time."""
        recent = replicas.c.seen_at >= self._now() - within
        return list(self._connection.execute(select(replicas.c.id).where(recent)).scalars())

    def leave(self, replica_id: str) -> None:
        """Say that a replica stops."""
        self._connection.execute(delete(replicas).where(replicas.c.id == replica_id))

    def _now(self) -> Any:
        """The one clock that all replicas share: the database's, and on SQLite that of this machine."""
        return datetime.now(UTC) if self._connection.dialect.name == "sqlite" else func.clock_timestamp()
