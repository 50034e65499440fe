"""Living replicas in SQL."""

from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from molecule_platform.storage.tables import replicas


class SqlPresence:
    """See `ports.presence.Presence`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def seen(self, replica_id: str, at: datetime) -> None:
        """Say that a replica lives."""
        changed = self._connection.execute(
            update(replicas).where(replicas.c.id == replica_id).values(seen_at=at)
        )
        if changed.rowcount == 0:
            self._connection.execute(insert(replicas).values(id=replica_id, seen_at=at))

    def alive(self, since: datetime) -> list[str]:
        """Replicas seen at or after that time."""
        return list(
            self._connection.execute(select(replicas.c.id).where(replicas.c.seen_at >= since)).scalars()
        )

    def leave(self, replica_id: str) -> None:
        """Say that a replica stops."""
        self._connection.execute(delete(replicas).where(replicas.c.id == replica_id))
