"""A database that goes away and comes back, and a process that is killed: nothing written is lost."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from molecule_platform.ports.people import Org
from molecule_platform.ports.storage import StorageDown, Transaction
from molecule_platform.storage import postgres_connections
from molecule_platform.storage.postgres import PostgresStorage
from molecule_platform.storage.sqlite import SqliteStorage
from molecule_platform.storage.transaction import SqlTransaction
from tests.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from packages.platform.tests.storage.conftest import Elsewhere

T = TypeVar("T")

SECONDS = 30.0


@pytest.fixture
def proxy(postgres_database: str) -> Iterator[TcpProxy]:
    """The network between a store and PostgreSQL."""
    with TcpProxy(urlsplit(postgres_database).port or 0) as proxy:
        yield proxy


def through(proxy: TcpProxy, url: str) -> str:
    return url.replace(f":{proxy.upstream_port}/", f":{proxy.port}/")


def found(name: str) -> Org:
    return Org(name, name, name, datetime(2026, 5, 2, tzinfo=UTC))


async def test_a_database_that_goes_away_is_down_and_the_store_recovers_when_it_is_back(
    proxy: TcpProxy, postgres_database: str
) -> None:
    storage = await PostgresStorage.open(through(proxy, postgres_database), lambda _: None)
    await storage.write(lambda tx: tx.people.insert_org(found("before")))
    assert await storage.glance(lambda tx: tx.people.org("before")) is not None
    proxy.refuse()
    with pytest.raises(StorageDown):
        await asyncio.wait_for(storage.glance(lambda tx: tx.people.org("before")), SECONDS)
    with pytest.raises(StorageDown):
        await asyncio.wait_for(storage.write(lambda tx: tx.people.insert_org(found("during"))), SECONDS)
    with pytest.raises(StorageDown):
        await asyncio.wait_for(storage.read(lambda tx: tx.people.org("before")), SECONDS)
    proxy.heal()
    await eventually(lambda: storage.write(lambda tx: tx.people.insert_org(found("after"))))
    assert await storage.glance(lambda tx: tx.people.org("during")) is None
    names = ("before", "during", "after")
    kept = await storage.read(lambda tx: [tx.people.org(name) is not None for name in names])
    assert kept == [True, False, True]
    await storage.close()


async def eventually(attempt: Callable[[], Awaitable[T]]) -> T:
    """Try until the store is no longer down."""
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                return await attempt()
            except StorageDown:
                await asyncio.sleep(0.05)


def own_pid(tx: Transaction) -> int:
    assert isinstance(tx, SqlTransaction)
    return tx.connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()


async def test_a_connection_lost_in_the_middle_of_a_write_fails_the_group_and_not_the_store(
    postgres_database: str, elsewhere: Elsewhere
) -> None:
    storage = await PostgresStorage.open(postgres_database, lambda _: None)

    def dying(tx: Transaction) -> None:
        tx.people.insert_org(found("lost"))
        elsewhere(postgres_database, f"SELECT pg_terminate_backend({own_pid(tx)})")
        tx.events.last_id()

    writes = [storage.write(lambda tx: tx.people.insert_org(found("with it"))), storage.write(dying)]
    ended = await asyncio.wait_for(asyncio.gather(*writes, return_exceptions=True), SECONDS)
    assert [type(end) for end in ended] == [StorageDown, StorageDown]
    await asyncio.wait_for(storage.write(lambda tx: tx.people.insert_org(found("later"))), SECONDS)
    kept = await storage.read(lambda tx: [tx.people.org(n) is not None for n in ("lost", "with it", "later")])
    assert kept == [False, False, True]
    await storage.close()


async def test_a_connection_lost_in_the_middle_of_a_read_is_the_database_being_down(
    postgres_database: str, elsewhere: Elsewhere
) -> None:
    storage = await PostgresStorage.open(postgres_database, lambda _: None)

    def dying(tx: Transaction) -> int:
        elsewhere(postgres_database, f"SELECT pg_terminate_backend({own_pid(tx)})")
        return tx.events.last_id()

    with pytest.raises(StorageDown):
        await asyncio.wait_for(storage.read(dying), SECONDS)
    assert await storage.read(lambda tx: tx.events.last_id()) == 0
    await storage.close()


async def test_a_database_that_does_not_answer_stops_the_start(
    proxy: TcpProxy, postgres_database: str
) -> None:
    proxy.refuse()
    with pytest.raises(StorageDown):
        await PostgresStorage.open(through(proxy, postgres_database), lambda _: None)


async def test_a_file_that_cannot_be_written_fails_the_group_and_not_the_store(tmp_path: Path) -> None:
    storage = await SqliteStorage.open(tmp_path / "molecule.db", lambda _: None)

    def full(tx: Transaction, pages: int) -> None:
        assert isinstance(tx, SqlTransaction)
        tx.connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")

    def large(tx: Transaction) -> None:
        tx.people.insert_org(Org("large", "large", "x" * 1_000_000, found("x").created_at))

    await storage.write(lambda tx: full(tx, 1))
    with pytest.raises(StorageDown):
        await asyncio.wait_for(storage.write(large), SECONDS)
    with pytest.raises(StorageDown):
        await storage.check()
    await storage.write(lambda tx: full(tx, 10**6))
    await asyncio.wait_for(storage.write(large), SECONDS)
    await eventually(storage.check)
    await storage.close()


async def test_what_shares_a_group_with_a_full_disk_is_written_or_refused(tmp_path: Path) -> None:
    storage = await SqliteStorage.open(tmp_path / "molecule.db", lambda _: None)

    def little_room(tx: Transaction) -> None:
        assert isinstance(tx, SqlTransaction)
        [[pages]] = tx.connection.exec_driver_sql("PRAGMA page_count").all()
        tx.connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 2}")

    def large(tx: Transaction) -> None:
        tx.people.insert_org(Org("large", "large", "x" * 1_000_000, found("x").created_at))

    await storage.write(little_room)
    works: list[Callable[[Transaction], None]] = [
        lambda tx: tx.people.insert_org(found("one")),
        large,
        lambda tx: tx.people.insert_org(found("two")),
    ]
    done = await asyncio.wait_for(asyncio.gather(*map(storage.write, works), return_exceptions=True), SECONDS)
    assert isinstance(done[1], StorageDown)
    for name, outcome in (("one", done[0]), ("two", done[2])):
        kept = await storage.read(lambda tx, name=name: tx.people.org_named(name))
        assert (kept is None) == isinstance(outcome, StorageDown)
    await storage.close()


async def test_a_start_waits_for_a_process_that_is_just_ending(tmp_path: Path) -> None:
    await (await SqliteStorage.open(tmp_path / "molecule.db", lambda _: None)).close()
    other = sqlite3.connect(tmp_path / "molecule.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    asyncio.get_running_loop().call_later(0.2, other.execute, "ROLLBACK")
    storage = await asyncio.wait_for(SqliteStorage.open(tmp_path / "molecule.db", lambda _: None), SECONDS)
    await storage.close()
    other.close()


async def test_a_bell_that_breaks_does_not_stop_the_store(tmp_path: Path) -> None:
    def broken(_subjects: object) -> None:
        raise RuntimeError("a listener failed")

    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    storage = await SqliteStorage.open(tmp_path / "molecule.db", broken)
    for name in ("one", "two"):
        await asyncio.wait_for(
            storage.write(lambda tx, name=name: tx.people.insert_org(found(name))), SECONDS
        )
    await storage.close()


async def test_a_file_that_cannot_be_opened_again_fails_the_group_and_not_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = await SqliteStorage.open(tmp_path / "molecule.db", lambda _: None)

    def gone() -> None:
        raise sqlite3.OperationalError("unable to open database file")

    with monkeypatch.context() as patched:
        patched.setattr(storage._writer, "connect", gone)
        with pytest.raises(StorageDown):
            await asyncio.wait_for(storage.write(lambda tx: tx.people.insert_org(found("one"))), SECONDS)
    await asyncio.wait_for(storage.write(lambda tx: tx.people.insert_org(found("two"))), SECONDS)
    await storage.close()


async def test_a_replica_that_vanishes_in_the_middle_of_a_write_does_not_keep_the_others_from_writing(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgres_connections._SESSION, "idle_in_transaction_session_timeout", "500")
    storage = await PostgresStorage.open(postgres_database, lambda _: None)
    silent = await PostgresStorage.open(postgres_database, lambda _: None)
    holding = await silent._writer.connect()
    await holding.execute(text("SELECT pg_advisory_xact_lock(7231968001)"))
    await asyncio.wait_for(storage.write(lambda tx: tx.people.insert_org(found("one"))), SECONDS)
    with pytest.raises(DBAPIError):
        await holding.execute(text("SELECT 1"))
    await holding.close()
    await silent.close()
    await storage.close()


async def test_a_file_that_somebody_else_locks_is_down_until_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("molecule_platform.storage.sqlite.BUSY_SECONDS", 0.2)
    storage = await SqliteStorage.open(tmp_path / "molecule.db", lambda _: None)
    other = sqlite3.connect(tmp_path / "molecule.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageDown):
        await asyncio.wait_for(storage.write(lambda tx: tx.people.insert_org(found("one"))), SECONDS)
    other.execute("ROLLBACK")
    other.close()
    await asyncio.wait_for(storage.write(lambda tx: tx.people.insert_org(found("two"))), SECONDS)
    await storage.close()


WRITER = """
import asyncio, os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from molecule_platform.ports.people import Org
from molecule_platform.storage.postgres import PostgresStorage
from molecule_platform.storage.sqlite import SqliteStorage

async def main(place):
    if place.startswith("postgresql"):
        storage = await PostgresStorage.open(place, lambda _: None)
    else:
        storage = await SqliteStorage.open(Path(place), lambda _: None)
    async def write(number):
        org = Org(f"o{number}", f"o{number}", "", datetime(2026, 5, 2, tzinfo=UTC))
        await storage.write(lambda tx: tx.people.insert_org(org))
        os.write(1, f"o{number}\\n".encode())
    for start in range(0, 100, 20):
        await asyncio.gather(*(write(start + number) for number in range(20)))
    asyncio.get_running_loop().create_task(write(1000))
    await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(sys.argv[1]))
"""


async def killed_while_writing(place: str) -> list[str]:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, place, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    said, problems = await asyncio.wait_for(child.communicate(), 30)
    assert child.returncode == -signal.SIGKILL, problems.decode()
    return said.decode().split()


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
async def test_what_a_write_returned_survives_sigkill(
    dialect: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if dialect == "postgres":
        place: str = request.getfixturevalue("postgres_database")
        reported = await killed_while_writing(place)
        storage: PostgresStorage | SqliteStorage = await PostgresStorage.open(place, lambda _: None)
    else:
        reported = await killed_while_writing(str(tmp_path / "molecule.db"))
        storage = await SqliteStorage.open(tmp_path / "molecule.db", lambda _: None)
    kept = await storage.read(lambda tx: [name for name in reported if tx.people.org(name) is not None])
    await storage.close()
    assert len(reported) >= 100
    assert kept == reported


async def test_a_file_that_is_no_database_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "molecule.db"
    path.write_bytes(b"this is no database" * 500)
    with pytest.raises(StorageDown, match="is not a database, or is damaged"):
        await SqliteStorage.open(path, lambda _: None)
