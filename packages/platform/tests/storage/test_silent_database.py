"""A PostgreSQL that does not answer, answers some, or refuses sessions: the store fails soon and recovers."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from sqlalchemy import text

from molecule_platform.ports.storage import StorageDown, Transaction
from molecule_platform.storage import driver_errors, postgres
from molecule_platform.storage.postgres import PostgresStorage
from molecule_platform.storage.transaction import SqlTransaction
from tests.session_count import SessionCount
from tests.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from packages.platform.tests.storage.conftest import Elsewhere

OUTAGE_SECONDS, HEALED_SECONDS = 5.0, 10.0
CROWD = 60


@pytest.fixture
def proxy(postgres_database: str) -> Iterator[TcpProxy]:
    """The network between the store and PostgreSQL."""
    with TcpProxy(urlsplit(postgres_database).port or 0) as proxy:
        yield proxy


@pytest.fixture
async def storage(proxy: TcpProxy, postgres_database: str) -> AsyncGenerator[PostgresStorage]:
    """A store whose pools are full of connections."""
    url = postgres_database.replace(f":{proxy.upstream_port}/", f":{proxy.port}/")
    storage = await PostgresStorage.open(url, lambda _: None)
    await crowd(storage)
    yield storage
    proxy.heal()
    await storage.close()


def last_id(tx: Transaction) -> int:
    return tx.events.last_id()


def nap(tx: Transaction) -> None:
    assert isinstance(tx, SqlTransaction)
    tx.connection.execute(text("SELECT pg_sleep(0.05)"))


async def crowd(storage: PostgresStorage, work: Callable[[Transaction], Any] = nap) -> list[Any]:
    """Do much at once in every way; the outcomes."""
    calls: list[Awaitable[Any]] = [storage.read(work) for _ in range(CROWD)]
    calls += [storage.glance(work) for _ in range(CROWD)]
    calls += [storage.write(work) for _ in range(4)]
    return await asyncio.gather(*calls, storage.write_aside(work), return_exceptions=True)


async def seconds_until(holds: Callable[[], Awaitable[bool]]) -> float:
    began = time.monotonic()
    while not await holds():
        assert time.monotonic() - began < 3 * HEALED_SECONDS
        await asyncio.sleep(0.05)
    return time.monotonic() - began


async def is_down(storage: PostgresStorage) -> bool:
    try:
        await storage.check()
    except StorageDown:
        return True
    return False


async def serves(storage: PostgresStorage) -> bool:
    """Return True if everything that is asked for at once succeeds."""
    return not any(await crowd(storage, last_id)) and not await is_down(storage)


@pytest.fixture
def sessions(postgres_url: str, postgres_database: str) -> Iterator[SessionCount]:
    with SessionCount(postgres_url, postgres_database.rpartition("/")[2]) as count:
        yield count


async def test_a_silent_database_is_an_outage_within_five_seconds_and_gets_no_flood_of_connections(
    storage: PostgresStorage, proxy: TcpProxy, sessions: SessionCount
) -> None:
    proxy.hold()
    began = time.monotonic()
    outcomes = await crowd(storage)
    assert time.monotonic() - began < OUTAGE_SECONDS
    assert {type(outcome) for outcome in outcomes} == {StorageDown}
    assert await is_down(storage)

    # From now on a refusal takes no time.
    began = time.monotonic()
    assert {type(outcome) for outcome in await crowd(storage)} == {StorageDown}
    assert time.monotonic() - began < 1.0

    proxy.heal()
    assert await seconds_until(lambda: serves(storage)) < HEALED_SECONDS
    assert 0 < sessions.most <= postgres.MAX_CONNECTIONS


async def test_an_idle_store_notices_a_database_that_loses_its_bytes(
    storage: PostgresStorage, proxy: TcpProxy
) -> None:
    proxy.swallow()
    assert await seconds_until(lambda: is_down(storage)) < OUTAGE_SECONDS
    proxy.heal()
    assert await seconds_until(lambda: serves(storage)) < HEALED_SECONDS


async def test_connections_that_are_dead_while_new_ones_work_are_replaced(
    storage: PostgresStorage, proxy: TcpProxy, sessions: SessionCount
) -> None:
    proxy.kill_open()
    began = time.monotonic()
    await crowd(storage)
    assert time.monotonic() - began < OUTAGE_SECONDS
    assert await seconds_until(lambda: serves(storage)) < HEALED_SECONDS - OUTAGE_SECONDS
    assert sessions.most <= postgres.MAX_CONNECTIONS


async def test_a_database_that_opens_no_sessions_is_down_whatever_reason_it_gives(
    storage: PostgresStorage,
    proxy: TcpProxy,
    postgres_url: str,
    postgres_database: str,
    elsewhere: Elsewhere,
) -> None:
    name = postgres_database.rpartition("/")[2]
    allow = f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS'
    elsewhere(postgres_url, f"{allow} false")
    proxy.refuse()
    proxy.heal()
    assert {type(outcome) for outcome in await crowd(storage)} == {StorageDown}
    elsewhere(postgres_url, f"{allow} true")
    assert await seconds_until(lambda: serves(storage)) < HEALED_SECONDS


async def test_too_many_clients_is_no_reason_to_give_up_the_connections_there_are(
    postgres_database: str, elsewhere: Elsewhere, sessions: SessionCount
) -> None:
    few = 6
    role = f"few_{postgres_database.rpartition('_')[2]}"
    elsewhere(postgres_database, f"CREATE ROLE {role} LOGIN PASSWORD 'few' CONNECTION LIMIT {few}")
    elsewhere(postgres_database, f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")
    place = urlsplit(postgres_database)
    url = f"postgresql://{role}:few@{place.hostname}:{place.port}{place.path}"
    storage = await PostgresStorage.open(url, lambda _: None)
    await storage.write(nap)
    own = {await storage.read(pid), await storage.glance(pid)}
    for _ in range(2):
        outcomes = await crowd(storage)
        assert StorageDown in {type(outcome) for outcome in outcomes}
        # Whoever gets one of the connections that are open is served.
        assert None in outcomes
        assert not storage._breaker.is_open
    assert own & set(await crowd(storage, pid))
    assert sessions.most <= few
    await storage.close()
    elsewhere(postgres_database, f"DROP OWNED BY {role}")
    elsewhere(postgres_database, f"DROP ROLE {role}")


async def test_a_broken_connection_is_replaced_alone(
    storage: PostgresStorage, postgres_database: str, elsewhere: Elsewhere
) -> None:
    def dying(tx: Transaction) -> int:
        elsewhere(postgres_database, f"SELECT pg_terminate_backend({pid(tx)})")
        return last_id(tx)

    before = set(await crowd(storage, pid))
    with pytest.raises(StorageDown):
        await storage.read(dying)
    assert await serves(storage)
    assert len(before - set(await crowd(storage, pid))) == 1


async def test_presence_does_not_wait_behind_a_replica_that_holds_the_write_lock(
    storage: PostgresStorage, postgres_database: str
) -> None:
    other = await PostgresStorage.open(postgres_database, lambda _: None)
    async with other._writer.begin() as holding:
        await holding.execute(text("SELECT pg_advisory_xact_lock(7231968001)"))
        waiting = asyncio.create_task(storage.write(last_id))
        await asyncio.wait_for(storage.write_aside(lambda tx: tx.presence.seen("one")), 1.0)
        assert not waiting.done()
    assert await waiting == 0
    await other.close()


async def test_connections_have_time_outs_of_tcp(storage: PostgresStorage) -> None:
    async with storage._reader.connect() as connection:
        raw: Any = await connection.get_raw_connection()
        client: socket.socket = raw.driver_connection._transport.get_extra_info("socket")
        assert client.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 4000
        shown = await connection.execute(text("SHOW client_connection_check_interval"))
        assert shown.scalar_one() == "1s"


def pid(tx: Transaction) -> int:
    assert isinstance(tx, SqlTransaction)
    nap(tx)
    return tx.connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()


@pytest.mark.parametrize(
    ("problem", "breaks"),
    [
        (asyncpg.exceptions.InternalClientError("got result for unknown protocol state 3"), True),
        (asyncpg.exceptions.IdleInTransactionSessionTimeoutError("terminating connection"), True),
        (asyncpg.exceptions.CannotConnectNowError("the database system is shutting down"), True),
        (asyncpg.exceptions.PostgresIOError("could not read block 0"), True),
        (asyncpg.exceptions.DiskFullError("could not extend file"), False),
        (asyncpg.exceptions.TooManyConnectionsError("too many clients already"), False),
    ],
)
def test_errors_of_a_database_that_cannot_work_are_outages(problem: Exception, breaks: bool) -> None:
    assert driver_errors.is_outage(problem)
    assert driver_errors.breaks_connection(problem) == breaks
