"""SQLite: one writer that commits in groups, and readers on snapshots of their own.

Transactions run on the event loop, where nobody has to be waited for: SQLite needs microseconds for what a
message writes, and handing it to another thread costs more than doing it. What takes long is left to other
threads: the commit, which waits for the disk, and any read that may be large.
"""

import asyncio
import contextlib
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, exc

from molecule_platform.ports.storage import StorageDown, Transaction
from molecule_platform.storage import batches, counters, driver_errors, schema, workspace_cache
from molecule_platform.storage.batches import Job
from molecule_platform.storage.columns import json_text
from molecule_platform.storage.committer import Committer
from molecule_platform.storage.transaction import SqlTransaction
from molecule_platform.storage.workspace_cache import WorkspaceCache
from molecule_platform.storage.write_check import WriteCheck

T = TypeVar("T")
Ring = Callable[[Sequence[str]], None]

READERS = 4
BEGIN_WRITING = "BEGIN IMMEDIATE"
BUSY_TIMEOUT_MS = 5000
# Each reader has a cache of its own; the writer's holds the pages that every message changes.
READER_CACHE_KB, WRITER_CACHE_KB = 2048, 8192
# Of a new file. Messages of many senders to many agents touch indexes in many places, and each page that is
# touched is written whole.
PAGE_BYTES = 4096
# The log grows to 16 MB before it is copied into the file: most pages in it were written many times by then.
LOG_PAGES = 4000
BUSY_SECONDS, BUSY_LOOK_SECONDS = 5.0, 0.01
# How long one batch may keep the event loop.
BATCH_SECONDS = 0.005
# How often the event loop goes round before what waited for a commit is run: a loop that is busy has others
# on the way who then share the next commit, and for one that is not this takes no time.
GATHER_TURNS = 5


class SqliteStorage:
    """See `ports.storage.Storage`. Open it with `await SqliteStorage.open(path, ring)`."""

    def __init__(self, path: Path, ring: Ring) -> None:
        self._ring = ring
        self._writer = _engine(path, None, busy_ms=0, cache_kb=WRITER_CACHE_KB)
        self._reader = _engine(path, "BEGIN", busy_ms=BUSY_TIMEOUT_MS, cache_kb=READER_CACHE_KB)
        self._waiting: deque[Job] = deque()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="sqlite-reader")
        self._local = threading.local()
        self._standings = WorkspaceCache()
        self._glancing: SqlTransaction | None = None
        self._loop = asyncio.get_running_loop()
        self._committer = Committer(self._loop)
        self._writing: SqlTransaction | None = None
        self._writes = WriteCheck(self.write)
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    @classmethod
    async def open(cls, path: Path, ring: Ring) -> "SqliteStorage":
        """Bring the file's schema up to date and start serving."""
        await asyncio.to_thread(_create_private, path)
        storage = cls(path, ring)
        try:
            await asyncio.to_thread(storage._migrate)
        except exc.DatabaseError as problem:
            raise StorageDown(
                f"{path} is not a database, or is damaged: restore a backup, or choose another --data-dir"
            ) from problem
        return storage

    def _migrate(self) -> None:
        with self._writer.connect() as connection:
            driver = _driver(connection)
            # A process that is just ending may hold the file for a moment more.
            driver.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
            driver.execute(BEGIN_WRITING)
            schema.upgrade(connection)
            connection.commit()
            driver.execute("PRAGMA busy_timeout=0")

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run the job with whatever else waits; it is on disk when this returns."""
        # The future has no name here: the traceback of its problem would lead back to it.
        return await self._submit(work)

    def _submit(self, work: Callable[[Transaction], T]) -> asyncio.Future[T]:
        if self._closed:
            raise StorageDown("the store is closed")
        done: asyncio.Future[T] = self._loop.create_future()
        self._waiting.append(Job(work, done))
        if self._idle.is_set():
            self._idle.clear()
            self._loop.call_soon(self._run_batch, 0.0)
        return done

    async def write_aside(self, work: Callable[[Transaction], T]) -> T:
        """Write like any other job: no other replica waits for a sign of life of this one."""
        return await self.write(work)

    async def check(self) -> None:
        """See `ports.storage.Storage`."""
        await self.glance(lambda tx: tx.events.last_id())
        self._writes.check()

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run the work on a reader thread."""
        try:
            return await self._loop.run_in_executor(self._readers, self._read, work)
        except (exc.DBAPIError, sqlite3.Error) as problem:
            raise driver_errors.translated(problem) from problem

    async def glance(self, work: Callable[[Transaction], T]) -> T:
        """Run the work here and now; each statement sees what is newest."""
        transaction = self._glancing = self._glancing or SqlTransaction(self._connected(self._reader))
        try:
            return work(transaction)
        except (exc.DBAPIError, sqlite3.Error) as problem:
            raise driver_errors.translated(problem) from problem
        finally:
            if transaction.connection.in_transaction():
                transaction.connection.rollback()

    def _connected(self, engine: Engine) -> Connection:
        """A connection of the event loop's own, which knows what is remembered."""
        connection = engine.connect()
        workspace_cache.attach(connection, self._standings)
        return connection

    def _here(self) -> Connection:
        """The connection of this thread."""
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._reader.connect()
        return connection

    def _read(self, work: Callable[[Transaction], T]) -> T:
        connection = self._here()
        with connection.begin():
            return work(SqlTransaction(connection))

    def _run_batch(self, waited: float) -> None:
        """Run what waits, for as long as the others on the loop can spare, and let it be committed."""
        jobs: list[Job] = []
        try:
            transaction = self._writing = self._writing or SqlTransaction(self._connected(self._writer))
            connection = transaction.connection
            driver = _driver(connection)
            driver.execute(BEGIN_WRITING)
            counters.begin(connection)
            until = time.perf_counter() + BATCH_SECONDS
            while self._waiting and len(jobs) < batches.MAX_JOBS and time.perf_counter() < until:
                job = self._waiting.popleft()
                # The work of a caller that left is dropped.
                if not job.done.done():
                    jobs.append(job)
                    _run_last(transaction, driver, jobs)
            counters.keep(connection)
        except Exception as problem:  # noqa: BLE001 - nothing was written; the writer must live on
            self._undo(jobs, problem, waited)
        else:
            self._committer.commit(driver.commit, partial(self._committed, jobs))

    def _undo(self, jobs: list[Job], problem: Exception, waited: float) -> None:
        """Nothing of a batch was written. Where another process holds the file, it is tried again."""
        transaction, self._writing = self._writing, None
        if transaction is not None:
            with contextlib.suppress(exc.DBAPIError, sqlite3.Error):
                transaction.connection.close()
        self._standings.settle()
        if not jobs and "locked" in str(problem) and waited < BUSY_SECONDS:
            self._loop.call_later(BUSY_LOOK_SECONDS, self._run_batch, waited + BUSY_LOOK_SECONDS)
            return
        jobs = jobs or self._all_waiting()
        batches.fail(jobs, driver_errors.down(problem))
        self._writes.note(jobs)
        batches.resolve(jobs)
        self._go_on()

    def _all_waiting(self) -> list[Job]:
        jobs = list(self._waiting)
        self._waiting.clear()
        return jobs

    def _committed(self, jobs: list[Job], problem: Exception | None) -> None:
        if problem is not None:
            self._undo(jobs, problem, BUSY_SECONDS)
            return
        self._standings.settle()
        self._writes.note(jobs)
        batches.resolve(jobs)
        # First: whatever goes wrong where a bell rings, the next batch must run.
        self._go_on()
        self._ring(batches.signals_of(jobs))

    def _go_on(self) -> None:
        if self._waiting:
            self._gather(GATHER_TURNS)
        else:
            self._idle.set()

    def _gather(self, turns: int) -> None:
        if turns:
            self._loop.call_soon(self._gather, turns - 1)
        else:
            self._run_batch(0.0)

    async def close(self) -> None:
        """Commit what is waiting, then let go of the file."""
        if self._closed:
            return
        self._closed = True
        await self._writes.stop()
        await self._idle.wait()
        self._committer.stop()
        self._readers.shutdown()
        for transaction in (self._writing, self._glancing):
            if transaction is not None:
                transaction.connection.close()
        self._reader.dispose()
        self._writer.dispose()


def _run_last(transaction: SqlTransaction, driver: sqlite3.Connection, jobs: list[Job]) -> None:
    """Run the newest job of a batch.

    A savepoint around each would cost a copy of every page that is written. Most jobs that fail have written
    nothing; where one has, the whole batch begins anew, and then with savepoints.
    """
    before = driver.total_changes
    batches.run(transaction, jobs[-1])
    if not driver.in_transaction:
        # A full disk or a fault of it: SQLite itself threw away what the jobs before this one wrote.
        raise jobs[-1].problem or StorageDown("the transaction is gone")
    if jobs[-1].problem is not None and driver.total_changes != before:
        driver.rollback()
        driver.execute(BEGIN_WRITING)
        batches.run_apart(transaction.connection, jobs)


def _create_private(path: Path) -> None:
    """A new file belongs to its owner alone; SQLite gives its companions the same mode."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _driver(connection: Connection) -> sqlite3.Connection:
    """The driver's own connection: every batch begins and commits there, which costs it far less."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def _engine(path: Path, begin: str | None, *, busy_ms: int, cache_kb: int) -> Engine:
    engine = create_engine(
        f"sqlite:///{path}",
        connect_args={"check_same_thread": False},
        hide_parameters=True,
        json_serializer=json_text,
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: Any) -> None:
        # The driver's own transaction handling would commit behind our back and break savepoints.
        connection.isolation_level = None
        connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute(f"PRAGMA busy_timeout={busy_ms}")
        connection.execute(f"PRAGMA cache_size=-{cache_kb}")
        connection.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        if begin is not None:
            connection.exec_driver_sql(begin)

    @event.listens_for(engine, "before_cursor_execute")
    def notice(connection: Connection, _cursor: Any, text: str, *_more: Any) -> None:
        if workspace_cache.changes_standings(text):
            workspace_cache.note(connection)

    _ = prepare, start, notice
    return engine
