"""PostgreSQL: a writer task that commits in groups, and a pool for reads.

Every writing transaction of every replica takes one advisory lock first. That makes writes serial, as on
SQLite: numbers drawn inside grow in the order of the commits, so a reader's cursor never skips a row that was
committed late, and no two replicas can deadlock. Group commit keeps it fast.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, event, exc, text
from sqlalchemy.ext.asyncio import AsyncEngine

from molecule_platform.ports.storage import StorageDown, Transaction
from molecule_platform.storage import batches, driver_errors, postgres_connections, schema, write_counter
from molecule_platform.storage.batches import Job
from molecule_platform.storage.circuit_breaker import CircuitBreaker
from molecule_platform.storage.postgres_connections import PostgresProbe
from molecule_platform.storage.transaction import SqlTransaction
from molecule_platform.storage.write_check import WriteCheck

T = TypeVar("T")
Ring = Callable[[Sequence[str]], None]

POOL = 8
# One connection that writes, two pools that read, one for rows of this replica alone, and one that probes.
MAX_CONNECTIONS = 1 + 2 * POOL + 1 + 1
_ONE_WRITER = text("SELECT pg_advisory_xact_lock(7231968001)")


class PostgresStorage:
    """See `ports.storage.Storage`. Open it with `await PostgresStorage.open(url, ring)`."""

    def __init__(self, url: str, ring: Ring) -> None:
        self._ring = ring
        self._url = "postgresql+asyncpg://" + url.split("://", 1)[1]
        self._breaker = CircuitBreaker(PostgresProbe(self._url))
        self._writes = WriteCheck(self.write)
        self._writer = self._pool(1, command_seconds=postgres_connections.LOCK_SECONDS)
        event.listen(self._writer.sync_engine, "before_cursor_execute", _notice)
        self._reader = self._pool(POOL, isolation_level="REPEATABLE READ")
        self._glancer = self._pool(POOL, isolation_level="AUTOCOMMIT")
        self._aside = self._pool(1)
        self._jobs: asyncio.Queue[Job | None] = asyncio.Queue()
        # Jobs for which the last batch had no time.
        self._late: list[Job] = []
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def _pool(self, size: int, **options: Any) -> AsyncEngine:
        return postgres_connections.pool_engine(self._url, self._breaker, pool_size=size, **options)

    @classmethod
    async def open(cls, url: str, ring: Ring) -> "PostgresStorage":
        """Bring the database's schema up to date and start serving."""
        storage = cls(url, ring)
        await storage._migrate()
        storage._breaker.start()
        storage._task = asyncio.create_task(storage._write_for_ever())
        return storage

    async def _migrate(self) -> None:
        engine = postgres_connections.migration_engine(self._url)
        try:
            async with engine.begin() as connection:
                await connection.execute(_ONE_WRITER)
                await connection.run_sync(schema.upgrade)
        except (exc.DBAPIError, exc.TimeoutError, OSError, TimeoutError) as problem:
            raise StorageDown(
                "the PostgreSQL database of DATABASE_URL does not answer: "
                "check that it runs, and the host, name and password in the URL"
            ) from problem
        finally:
            await engine.dispose()

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Hand the job to the writer; it is on disk when this returns."""
        # The future has no name here: the traceback of its problem would lead back to it.
        return await self._submit(work)

    def _submit(self, work: Callable[[Transaction], T]) -> asyncio.Future[T]:
        if self._closed:
            raise StorageDown("the store is closed")
        self._breaker.check()
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put_nowait(Job(work, done))
        return done

    async def write_aside(self, work: Callable[[Transaction], T]) -> T:
        """Write in a transaction of its own, without the lock that makes writes serial."""
        async with postgres_connections.session(self._aside, self._breaker) as connection:
            value = await connection.run_sync(lambda connected: work(SqlTransaction(connected)))
            await connection.commit()
            return value

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run the work on a snapshot, on a pooled connection."""
        return await self._run(self._reader, work)

    async def glance(self, work: Callable[[Transaction], T]) -> T:
        """Run the work without a transaction: each statement sees what is newest."""
        return await self._run(self._glancer, work)

    async def check(self) -> None:
        """See `ports.storage.Storage`."""
        self._breaker.check()
        self._writes.check()

    async def _run(self, engine: AsyncEngine, work: Callable[[Transaction], T]) -> T:
        async with postgres_connections.session(engine, self._breaker) as connection:
            return await connection.run_sync(lambda connected: work(SqlTransaction(connected)))

    async def _write_for_ever(self) -> None:
        while jobs := await self._next_jobs():
            await self._commit(jobs)

    async def _next_jobs(self) -> list[Job]:
        jobs, self._late = self._late, []
        if jobs and self._jobs.empty():
            return jobs
        job = await self._jobs.get()
        while job is not None:
            # The work of a caller that left is dropped; the next one is waited for while there is no other.
            if not job.done.done():
                jobs.append(job)
            if len(jobs) == batches.MAX_JOBS or (jobs and self._jobs.empty()):
                return jobs
            job = await self._jobs.get()
        if jobs:
            self._jobs.put_nowait(None)
        return jobs

    async def _commit(self, jobs: list[Job]) -> None:
        try:
            number = await self._commit_together(jobs)
            if number is None:
                await self._commit_apart(jobs)
            else:
                self._late, jobs = jobs[number:], jobs[:number]
        except Exception as problem:  # noqa: BLE001 - nothing was written; the writer must live on
            batches.fail(jobs, problem if isinstance(problem, StorageDown) else driver_errors.down(problem))
        self._writes.note(jobs)
        batches.resolve(jobs)
        self._ring(batches.signals_of(jobs))

    async def _commit_together(self, jobs: list[Job]) -> int | None:
        """A savepoint around each job costs two more questions; most jobs that fail have written nothing."""
        async with postgres_connections.session(self._writer, self._breaker) as connection:
            await connection.execute(_ONE_WRITER)
            number = await connection.run_sync(batches.run_together, jobs)
            await (connection.rollback() if number is None else connection.commit())
            return number

    async def _commit_apart(self, jobs: list[Job]) -> None:
        async with postgres_connections.session(self._writer, self._breaker) as connection:
            await connection.execute(_ONE_WRITER)
            await connection.run_sync(batches.run_apart, jobs)
            await connection.commit()

    async def close(self) -> None:
        """Commit what is waiting, then let go of the connections."""
        if self._closed:
            return
        self._closed = True
        await self._writes.stop()
        self._jobs.put_nowait(None)
        if self._task is not None:
            await self._task
        for engine in (self._aside, self._glancer, self._reader, self._writer):
            await engine.dispose()
        await self._breaker.stop()


def _notice(connection: Connection, _cursor: Any, statement: str, *_more: Any) -> None:
    if not statement.startswith("SELECT"):
        write_counter.note(connection)
