"""Connections to PostgreSQL: pools that fail instead of hanging and never grow beyond their size."""

import contextlib
import socket
import time
from collections.abc import AsyncGenerator
from typing import Any

from sqlalchemy import NullPool, event, exc, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from molecule_platform.ports.storage import StorageDown
from molecule_platform.storage import driver_errors
from molecule_platform.storage.circuit_breaker import CircuitBreaker
from molecule_platform.storage.columns import json_text

CONNECT_SECONDS = 4.0
# The probe finds a silent server sooner. This is for a connection that is dead alone.
COMMAND_SECONDS = 8.0
# Waiting for the lock on writes means that other replicas write.
LOCK_SECONDS = 20.0
# Waiting for a connection of the pool means that the platform is busy, and says nothing about the database.
POOL_SECONDS = 10.0
# A replica whose machine vanished must not keep its sessions, nor the others from writing.
_SESSION = {
    "idle_in_transaction_session_timeout": "3000",
    "client_connection_check_interval": "1000",
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "2",
    "tcp_user_timeout": "4000",
}
_SOCKET = {
    "TCP_KEEPIDLE": 2,
    "TCP_KEEPINTVL": 1,
    "TCP_KEEPCNT": 2,
    "TCP_USER_TIMEOUT": 4000,
}
_OPENED_AT = "opened_at"
_ANSWER = text("SELECT 1")


def migration_engine(url: str) -> AsyncEngine:
    """Return an engine whose statements may take as long as they need."""
    return create_async_engine(url, poolclass=NullPool, connect_args={"timeout": CONNECT_SECONDS})


def pool_engine(url: str, breaker: CircuitBreaker, **options: Any) -> AsyncEngine:
    """Return an engine whose pool replaces connections one by one and never has more than its size."""
    # A task that finds all connections busy waits for one: more for each crowd would cost more than waiting.
    limits = {"max_overflow": 0, "pool_timeout": POOL_SECONDS}
    engine = _engine(url, **limits, **options)
    sync_engine = engine.sync_engine

    @event.listens_for(sync_engine, "checkout")
    def replace_stale(connection: Any, record: Any, _proxy: Any) -> None:
        # The loop learns of a connection that the server closed as soon as its last bytes arrive.
        if connection.driver_connection.is_closed() or record.info[_OPENED_AT] < breaker.stale_before:
            raise exc.DisconnectionError

    @event.listens_for(sync_engine, "close")
    def abort_stale(connection: Any, record: Any) -> None:
        if breaker.is_open or record.info.get(_OPENED_AT, 0.0) < breaker.stale_before:
            connection.driver_connection.terminate()

    _ = replace_stale, abort_stale
    return engine


def _engine(url: str, command_seconds: float = COMMAND_SECONDS, **options: Any) -> AsyncEngine:
    times = {"timeout": CONNECT_SECONDS, "command_timeout": command_seconds}
    engine = create_async_engine(
        url, hide_parameters=True, json_serializer=json_text, connect_args=times, **options
    )
    event.listen(engine.sync_engine, "connect", _set_up)
    event.listen(engine.sync_engine, "invalidate", _abort)
    return engine


def _set_up(connection: Any, record: Any) -> None:
    """Set time-outs on both ends; in the session, because a pooler rejects them in the start-up message."""
    record.info[_OPENED_AT] = time.monotonic()
    client = connection.driver_connection._transport.get_extra_info("socket")
    if client is not None and client.family != socket.AF_UNIX:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _SOCKET.items():
            if (option := getattr(socket, name, None)) is not None:
                client.setsockopt(socket.IPPROTO_TCP, option, value)
    cursor = connection.cursor()
    cursor.execute("SELECT " + ", ".join(f"set_config('{n}', '{v}', false)" for n, v in _SESSION.items()))
    cursor.close()
    connection.commit()


def _abort(connection: Any, _record: Any, _problem: Any) -> None:
    """Closing politely waits for an answer that a broken connection does not get."""
    connection.driver_connection.terminate()


@contextlib.asynccontextmanager
async def session(engine: AsyncEngine, breaker: CircuitBreaker) -> AsyncGenerator[AsyncConnection]:
    """Lend a connection of the pool, and drop it if it broke. Every outage is `StorageDown`."""
    try:
        async with breaker.guard():
            connection = await _opened(engine, breaker)
            try:
                yield connection
            except BaseException as problem:
                if driver_errors.breaks_connection(problem):
                    await connection.invalidate()
                    breaker.suspect()
                raise
            finally:
                await connection.close()
    except StorageDown:
        raise
    except Exception as problem:
        if driver_errors.is_outage(problem):
            raise driver_errors.down(problem) from problem
        raise


async def _opened(engine: AsyncEngine, breaker: CircuitBreaker) -> AsyncConnection:
    """Check out a connection; a database that opens no session is down, whatever reason it gives."""
    try:
        return await engine.connect()
    except Exception as problem:
        if driver_errors.breaks_connection(problem) and not isinstance(problem, exc.TimeoutError):
            breaker.suspect()
        raise driver_errors.down(problem) from problem


class PostgresProbe:
    """See `circuit_breaker.ProbeSession`."""

    def __init__(self, url: str) -> None:
        self._engine = _engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        self._connection: AsyncConnection | None = None

    async def ask(self) -> None:
        """Ask on the open session, or on a new one."""
        if self._connection is None:
            self._connection = await self._engine.connect()
        await self._connection.execute(_ANSWER)

    async def drop(self) -> None:
        """Close the session without waiting for the server."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                await connection.invalidate()
            await connection.close()
