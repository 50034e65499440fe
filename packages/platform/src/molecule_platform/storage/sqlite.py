"""SQLite: one writer thread that commits in groups, and reader threads on snapshots of their own."""

import asyncio
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, exc

from molecule_platform.ports.storage import StorageDown, Transaction
from molecule_platform.storage import batches, outages, schema
from molecule_platform.storage.batches import Job
from molecule_platform.storage.transaction import SqlTransaction

T = TypeVar("T")
Ring = Callable[[Sequence[str]], None]

READERS = 4
BUSY_TIMEOUT_MS = 5000


class SqliteStorage:
    """See `ports.storage.Storage`. Open it with `await SqliteStorage.open(path, ring)`."""

    def __init__(self, path: Path, ring: Ring) -> None:
        self._ring = ring
        self._writer = _engine(path, "BEGIN IMMEDIATE")
        self._reader = _engine(path, "BEGIN")
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="sqlite-reader")
        self._local = threading.local()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._write_for_ever, name="sqlite-writer", daemon=True)
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
        storage._thread.start()
        return storage

    def _migrate(self) -> None:
        with self._writer.connect() as connection, connection.begin():
            schema.upgrade(connection)

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Hand the job to the writer; it is on disk when this returns."""
        if self._closed:
            raise StorageDown("the store is closed")
        done: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(Job(work, done))
        return await done

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run the work on a reader thread."""
        try:
            return await self._loop.run_in_executor(self._readers, self._read, work)
        except (exc.DBAPIError, sqlite3.Error) as problem:
            raise outages.translated(problem) from problem

    def _read(self, work: Callable[[Transaction], T]) -> T:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._reader.connect()
        with connection.begin():
            return work(SqlTransaction(connection))

    def _write_for_ever(self) -> None:
        while jobs := self._next_jobs():
            self._commit(jobs)

    def _next_jobs(self) -> list[Job]:
        jobs: list[Job] = []
        job = self._jobs.get()
        while job is not None:
            jobs.append(job)
            if len(jobs) == batches.MOST_JOBS or self._jobs.empty():
                return jobs
            job = self._jobs.get()
        if jobs:
            self._jobs.put(None)
        return jobs

    def _commit(self, jobs: list[Job]) -> None:
        try:
            with self._writer.begin() as connection:
                batches.run_batch(connection, jobs)
        except Exception as problem:  # noqa: BLE001 - nothing was written; the writer must live on
            self._loop.call_soon_threadsafe(batches.fail, jobs, outages.down(problem))
        else:
            self._loop.call_soon_threadsafe(self._finished, jobs)

    def _finished(self, jobs: list[Job]) -> None:
        batches.resolve(jobs)
        self._ring(batches.signals_of(jobs))

    async def close(self) -> None:
        """Commit what is waiting, then let go of the file."""
        if self._closed:
            return
        self._closed = True
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)
        self._readers.shutdown()
        self._reader.dispose()
        self._writer.dispose()


def _create_private(path: Path) -> None:
    """A new file belongs to its owner alone; SQLite gives its companions the same mode."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _engine(path: Path, begin: str) -> Engine:
    engine = create_engine(
        f"sqlite:///{path}", connect_args={"check_same_thread": False}, hide_parameters=True
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: Any) -> None:
        # The driver's own transaction handling would commit behind our back and break savepoints.
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    _ = prepare, start
    return engine
