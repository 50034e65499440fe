"""SQLite file of a run store: opening, migrations, transactions, and the numbering of events."""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from molecule_skill.store import sqlite_rows as rows
from molecule_skill.store.protocol import StoreIncompatible, StoreUnavailable
from molecule_skill.store.records import NewEvent, StoredEvent
from molecule_skill.store.rules import lease_lost
from molecule_skill.store.schema import MIGRATIONS

BUSY_SECONDS = 1.0
OPEN = "state IN ('queued', 'running', 'waiting')"
"""Condition of a run that is not over."""
_INSERT_EVENT = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)"


class SqliteFile:
    """One connection to the file of a run store."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = self._opened()

    def _opened(self) -> sqlite3.Connection:
        try:
            self._path.touch(mode=0o600)
            connection = sqlite3.connect(self._path, isolation_level=None, timeout=BUSY_SECONDS)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            _migrate(connection, self._path)
        except sqlite3.OperationalError as problem:
            raise StoreUnavailable(f"{self._path} cannot be opened: {problem}") from problem
        except sqlite3.DatabaseError as problem:
            raise StoreIncompatible(f"{self._path} is no run store ({problem}); move it away") from problem
        return connection

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        sql = self._connection
        try:
            sql.execute("BEGIN IMMEDIATE")
            try:
                yield sql
            except BaseException:
                sql.execute("ROLLBACK") if sql.in_transaction else None
                raise
            sql.execute("COMMIT")
        except sqlite3.Error as problem:
            if sql.in_transaction:
                sql.execute("ROLLBACK")
            raise StoreUnavailable(f"{self._path} cannot be written: {problem}") from problem

    def _advance(
        self,
        run_id: str,
        fence: int | None,
        events: Sequence[NewEvent],
        sets: str = "",
        values: tuple[Any, ...] = (),
        at: float | None = None,
    ) -> list[StoredEvent]:
        """Number events, set columns of their run and insert them; refused unless the run is unfinished.

        One statement checks the fence, sets and numbers. Without a fence the owner does not matter.
        """
        at = events[-1].at if events and at is None else at
        row = self._connection.execute(
            f"UPDATE runs SET last_seq = last_seq + ?, updated_at = coalesce(?, updated_at){sets}"  # noqa: S608
            f" WHERE run_id = ? AND fence = coalesce(?, fence) AND {OPEN} RETURNING last_seq",
            (len(events), at, *values, run_id, fence),
        ).fetchone()
        if row is None:
            raise lease_lost()
        first = row[0] - len(events) + 1
        for place, event in enumerate(events):
            self._connection.execute(_INSERT_EVENT, rows.event_values(run_id, first + place, event))
        return [StoredEvent(first + i, event.kind, event.payload, event.at) for i, event in enumerate(events)]

    def _check_fence(self, run_id: str, fence: int) -> None:
        query = f"SELECT 1 FROM runs WHERE run_id = ? AND fence = ? AND {OPEN}"  # noqa: S608
        if self._connection.execute(query, (run_id, fence)).fetchone() is None:
            raise lease_lost()

    def _one(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        found = self._all(query, *values)
        return found[0] if found else None

    def _all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as problem:
            raise StoreUnavailable(f"{self._path} cannot be read: {problem}") from problem


def _migrate(sql: sqlite3.Connection, path: Path) -> None:
    """Bring a file to the newest version; one of a newer version or another program is left alone."""
    (version,) = sql.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise StoreIncompatible(f"{path} was written by a newer version; upgrade molecule-ai-skills")
    (tables,) = sql.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not version and tables:
        raise StoreIncompatible(f"{path} is the database of another program; choose another path")
    for number, statements in enumerate(MIGRATIONS[version:], version + 1):
        sql.executescript(f"BEGIN; {statements}; PRAGMA user_version = {number}; COMMIT")
