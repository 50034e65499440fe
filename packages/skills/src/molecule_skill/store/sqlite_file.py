"""SQLite file of a run store: opening, migrations, shared transactions, and the numbering of events."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from molecule_skill.store import sqlite_rows as rows
from molecule_skill.store.protocol import StoreIncompatible, StoreUnavailable
from molecule_skill.store.records import NewEvent, StoredEvent
from molecule_skill.store.rules import lease_lost
from molecule_skill.store.schema import MIGRATIONS

BUSY_SECONDS = 1.0
OPEN = "state IN ('queued', 'running', 'waiting')"
"""Condition of a run that is not over."""
_INSERT_EVENT = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)"

Connection: TypeAlias = sqlite3.Connection
T = TypeVar("T")
Job = Callable[[Connection], Any]
JobOutcome = tuple[Any, Exception | None]
"""What a job returned, or what it raised."""


class SqliteFile:
    """One connection to the file of a run store."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = self._opened()
        self._jobs: list[tuple[Job, asyncio.Future[Any]]] = []
        self._due: asyncio.AbstractEventLoop | None = None
        """The loop that will run the jobs."""

    def _opened(self) -> Connection:
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

    # Writing

    async def _write(self, job: Callable[[Connection], T]) -> T:
        """Run a job, which may be run again, in a transaction; it is committed when this returns.

        The jobs of one step of the event loop share a transaction: most of its cost is the commit.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._jobs.append((job, done))
        if self._due is not loop:
            self._due = loop
            loop.call_soon(self._flush)
        return await done

    def _flush(self) -> None:
        """Run the jobs that wait, but for those whose callers went away."""
        self._due = None
        waiting, self._jobs = [one for one in self._jobs if not one[1].cancelled()], []
        if not waiting:
            return
        jobs = [job for job, _ in waiting]
        try:
            outcomes = self._transacted(jobs)
        except Exception as problem:  # noqa: BLE001 - told to whoever asked
            if len(jobs) == 1 or isinstance(problem, sqlite3.OperationalError):
                # Locked, full or gone: that concerns them all, and to wait again for each would take long.
                outcomes: list[JobOutcome] = [(None, self._told(problem)) for _ in jobs]
            else:
                # One of them failed after it had written: it must take nothing of the others with it.
                outcomes = [self._alone(job) for job in jobs]
        for (_, done), (value, problem) in zip(waiting, outcomes, strict=True):
            if done.done():
                continue
            if problem is None:
                done.set_result(value)
            else:
                done.set_exception(problem)

    def _alone(self, job: Job) -> JobOutcome:
        try:
            return self._transacted([job])[0]
        except Exception as problem:  # noqa: BLE001 - told to whoever asked
            return None, self._told(problem)

    def _transacted(self, jobs: Sequence[Job]) -> list[JobOutcome]:
        """Run jobs in one transaction. Raises, with nothing written, if one fails that has written."""
        sql, outcomes = self._connection, list[JobOutcome]()
        try:
            sql.execute("BEGIN IMMEDIATE")
            for job in jobs:
                written = sql.total_changes
                try:
                    outcomes.append((job(sql), None))
                except Exception as problem:
                    if sql.total_changes != written or isinstance(problem, sqlite3.Error):
                        raise
                    outcomes.append((None, problem))
            sql.execute("COMMIT")
        except BaseException:
            if sql.in_transaction:
                sql.execute("ROLLBACK")
            raise
        return outcomes

    def _told(self, problem: Exception) -> Exception:
        if not isinstance(problem, sqlite3.Error):
            return problem
        error = StoreUnavailable(f"{self._path} cannot be written: {problem}")
        error.__cause__ = problem
        return error

    # Reading

    def _one(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        found = self._all(query, *values)
        return found[0] if found else None

    def _all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as problem:
            raise StoreUnavailable(f"{self._path} cannot be read: {problem}") from problem


class Advance:
    """A statement that sets columns of an unfinished run and numbers its events, for a fence or for anybody.

    One statement checks the fence, sets and numbers.
    """

    def __init__(self, sets: str = "") -> None:
        update = (
            f"UPDATE runs SET last_seq = last_seq + ?, updated_at = coalesce(?, updated_at){sets}"  # noqa: S608
            f" WHERE run_id = ? AND {OPEN}"
        )
        self._of_owner = f"{update} AND fence = ? RETURNING id, last_seq"
        self._of_anybody = f"{update} RETURNING id, last_seq"

    def __call__(
        self,
        sql: Connection,
        run_id: str,
        fence: int | None,
        events: Sequence[NewEvent],
        values: tuple[Any, ...] = (),
        at: float | None = None,
    ) -> list[StoredEvent]:
        """Append events. Raises RunRefused, before anything is written, where the run has another owner."""
        at = events[-1].at if events and at is None else at
        parameters = (len(events), at, *values, run_id)
        found = (
            sql.execute(self._of_anybody, parameters)
            if fence is None
            else sql.execute(self._of_owner, (*parameters, fence))
        ).fetchone()
        if found is None:
            raise lease_lost()
        run, last = found
        return append(sql, run, last - len(events), events)


def append(sql: Connection, run: int, last: int, events: Sequence[NewEvent]) -> list[StoredEvent]:
    """Insert events after the last one of a run."""
    stored: list[StoredEvent] = []
    for event in events:
        last += 1
        sql.execute(_INSERT_EVENT, rows.event_values(run, last, event))
        stored.append(StoredEvent(last, event.kind, event.payload, event.at))
    return stored


def check_fence(sql: Connection, run_id: str, fence: int) -> None:
    """Raise RunRefused unless the run is unfinished and still has this owner."""
    query = f"SELECT 1 FROM runs WHERE run_id = ? AND fence = ? AND {OPEN}"  # noqa: S608
    if sql.execute(query, (run_id, fence)).fetchone() is None:
        raise lease_lost()


def _migrate(sql: Connection, path: Path) -> None:
    """Bring a file to the newest version; one of a newer version or another program is left alone."""
    (version,) = sql.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise StoreIncompatible(f"{path} was written by a newer version; upgrade molecule-ai-skills")
    (tables,) = sql.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not version and tables:
        raise StoreIncompatible(f"{path} is the database of another program; choose another path")
    for number, statements in enumerate(MIGRATIONS[version:], version + 1):
        sql.executescript(f"BEGIN; {statements}; PRAGMA user_version = {number}; COMMIT")
