"""PostgreSQL: a writer task that commits in groups, and a pool for reads.

Every writing transaction of every replica takes one advisory lock first. That makes writes serial, as on
SQLite: numbers drawn inside grow in the order of the commits, so a reader's cursor never skips a row that was
committed late, and no two replicas can deadlock. Group commit keeps it fast.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, event, exc, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from molecule_platform.ports.storage import StorageDown, Transaction
from molecule_platform.storage import batches, outages, schema, writes
from molecule_platform.storage.batches import Job
from molecule_platform.storage.columns import json_text
from molecule_platform.storage.transaction import SqlTransaction

T = TypeVar("T")
Ring = Callable[[Sequence[str]], None]

POOL = 8
# A replica whose machine vanished in the middle of a transaction must not keep the others from writing.
_VANISHING = {
    "idle_in_transaction_session_timeout": "5000",
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "5000",
}
_ONE_WRITER = text("SELECT pg_advisory_xact_lock(7231968001)")


class PostgresStorage:
    """See `ports.storage.Storage`. Open it with `await PostgresStorage.open(url, ring)`."""

    def __init__(self, url: str, ring: Ring) -> None:
        self._ring = ring
        driver_url = "postgresql+asyncpg://" + url.split("://", 1)[1]
        self._writer = _engine(driver_url, pool_size=1)
        event.listen(self._writer.sync_engine, "connect", _mind_vanishing)
        event.listen(self._writer.sync_engine, "before_cursor_execute", _notice)
        self._reader = _engine(driver_url, pool_size=POOL, isolation_level="REPEATABLE READ")
        self._glancer = _engine(driver_url, pool_size=POOL, isolation_level="AUTOCOMMIT", pool_pre_ping=False)
        self._jobs: asyncio.Queue[Job | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @classmethod
    async def open(cls, url: str, ring: Ring) -> "PostgresStorage":
        """Bring the database's schema up to date and start serving."""
        storage = cls(url, ring)
        try:
            async with storage._writer.begin() as connection:
                await connection.execute(_ONE_WRITER)
                await connection.run_sync(schema.upgrade)
        except (exc.DBAPIError, exc.TimeoutError, OSError, TimeoutError) as problem:
            await storage._let_go()
            raise StorageDown(
                "the PostgreSQL database of DATABASE_URL does not answer: "
                "check that it runs, and the host, name and password in the URL"
            ) from problem
        except BaseException:
            await storage._let_go()
            raise
        storage._task = asyncio.create_task(storage._write_for_ever())
        return storage

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Hand the job to the writer; it is on disk when this returns."""
        if self._closed:
            raise StorageDown("the store is closed")
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put_nowait(Job(work, done))
        return await done

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run the work on a snapshot, on a pooled connection."""
        try:
            return await _on(self._reader, work)
        except Exception as problem:
            raise outages.translated(problem) from problem

    async def glance(self, work: Callable[[Transaction], T]) -> T:
        """Run the work without a transaction: each statement sees what is newest."""
        try:
            return await self._glanced(work)
        except Exception as problem:
            raise outages.translated(problem) from problem

    async def _glanced(self, work: Callable[[Transaction], T]) -> T:
        """Whether a connection is still good shows in its use: then new ones are made, once."""
        try:
            return await _on(self._glancer, work)
        except Exception as problem:
            if not outages.is_outage(problem):
                raise
        await self._glancer.dispose()
        return await _on(self._glancer, work)

    async def _write_for_ever(self) -> None:
        while jobs := await self._next_jobs():
            await self._commit(jobs)

    async def _next_jobs(self) -> list[Job]:
        jobs: list[Job] = []
        job = await self._jobs.get()
        while job is not None:
            jobs.append(job)
            if len(jobs) == batches.MOST_JOBS or self._jobs.empty():
                return jobs
            job = self._jobs.get_nowait()
        if jobs:
            self._jobs.put_nowait(None)
        return jobs

    async def _commit(self, jobs: list[Job]) -> None:
        try:
            if not await self._commit_together(jobs):
                await self._commit_apart(jobs)
        except Exception as problem:  # noqa: BLE001 - nothing was written; the writer must live on
            batches.fail(jobs, outages.down(problem))
        else:
            batches.resolve(jobs)
            self._ring(batches.signals_of(jobs))

    async def _commit_together(self, jobs: list[Job]) -> bool:
        """A savepoint around each job costs two more questions; most jobs that fail have written nothing."""
        async with self._writer.connect() as connection:
            await connection.execute(_ONE_WRITER)
            if not await connection.run_sync(batches.run_together, jobs):
                await connection.rollback()
                return False
            await connection.commit()
            return True

    async def _commit_apart(self, jobs: list[Job]) -> None:
        async with self._writer.begin() as connection:
            await connection.execute(_ONE_WRITER)
            await connection.run_sync(batches.run_apart, jobs)

    async def close(self) -> None:
        """Commit what is waiting, then let go of the connections."""
        if self._closed:
            return
        self._closed = True
        self._jobs.put_nowait(None)
        if self._task is not None:
            await self._task
        await self._let_go()

    async def _let_go(self) -> None:
        await self._glancer.dispose()
        await self._reader.dispose()
        await self._writer.dispose()


def _engine(url: str, **options: Any) -> AsyncEngine:
    # Whoever finds all connections busy waits for one: making more for each crowd costs more than waiting.
    options = {"pool_pre_ping": True, "max_overflow": 0, **options}
    return create_async_engine(url, hide_parameters=True, json_serializer=json_text, **options)


async def _on(engine: AsyncEngine, work: Callable[[Transaction], T]) -> T:
    """Run the work on a connection of the pool, which gets it back unless the caller left in the middle.

    A driver that is interrupted while it sends BEGIN does not know of the transaction that the server has
    begun. Back in the pool, the connection would show the snapshot of that moment to every later reader.
    """
    async with engine.connect() as connection:
        try:
            return await connection.run_sync(lambda connected: work(SqlTransaction(connected)))
        except asyncio.CancelledError:
            await connection.invalidate()
            raise


def _notice(connection: Connection, _cursor: Any, statement: str, *_more: Any) -> None:
    if not statement.startswith("SELECT"):
        writes.note(connection)


def _mind_vanishing(connection: Any, _record: Any) -> None:
    """Said to the session and not at its start, where a pooler in between would refuse it."""
    cursor = connection.cursor()
    for name, value in _VANISHING.items():
        cursor.execute(f"SET {name} = {value}")
    cursor.close()
    connection.commit()
