"""Leases on loops in SQL."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from molecule_platform.storage.tables import loops


class SqlLoops:
    """See `ports.loops.Loops`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def claim(self, name: str, owner: str, lasts: timedelta) -> int | None:
        """Take or keep the lease on a loop."""
        now = self._now()
        row = self._connection.execute(select(loops).where(loops.c.name == name)).mappings().first()
        mine = {"lease_owner": owner, "lease_until": now + lasts, "last_tick_at": now}
        if row is None:
            self._connection.execute(insert(loops).values(name=name, fence=1, **mine))
            return 1
        if row["lease_owner"] != owner and row["lease_until"] > now:
            return None
        fence: int = row["fence"] + (row["lease_owner"] != owner)
        self._connection.execute(update(loops).where(loops.c.name == name).values(fence=fence, **mine))
        return fence

    def release(self, owner: str) -> None:
        """Let go of every loop that a replica holds."""
        held = loops.c.lease_owner == owner
        self._connection.execute(update(loops).where(held).values(lease_until=self._now()))

    def _now(self) -> datetime:
        if self._connection.dialect.name == "sqlite":
            return datetime.now(UTC)
        now: Any = self._connection.execute(select(func.clock_timestamp())).scalar_one()
        return now
