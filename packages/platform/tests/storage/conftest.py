"""The stores under test: the same suite runs on SQLite and on a private real PostgreSQL."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.people import Org
from molecule_platform.storage.postgres import PostgresStorage
from molecule_platform.storage.sqlite import SqliteStorage
from molecule_platform.storage.tables import metadata
from molecule_platform.testing import servers

if TYPE_CHECKING:
    from packages.platform.tests.conftest import MakeWorkspace

AnyStorage: TypeAlias = "SqliteStorage | PostgresStorage"
DIALECTS = ("sqlite", "postgres")


@dataclass
class Store:
    """A store, what it rang, and the first rows in it."""

    storage: AnyStorage
    org: Org
    ada: Workspace
    bob: Workspace
    rang: list[str] = field(default_factory=list[str])


@pytest.fixture(scope="session")
def migrated_postgres(postgres_url: str) -> Iterator[str]:
    """One database for the tests that leave nothing behind."""
    with servers.fresh_database(postgres_url) as url:
        yield url


async def _execute(url: str, *statements: str) -> None:
    pool = create_async_engine("postgresql+asyncpg://" + url.split("://", 1)[1])
    async with pool.begin() as connection:
        for statement in statements:
            await connection.execute(text(statement))
    await pool.dispose()


async def _empty(url: str) -> None:
    tables = [table.name for table in reversed(metadata.sorted_tables) if table.name != "counters"]
    statements = "".join(f'DELETE FROM "{name}"; ' for name in tables)
    statements += "UPDATE counters SET value = 0 WHERE name LIKE 'messages-%';"
    await _execute(url, f"DO $$ BEGIN {statements} END $$")


Elsewhere = Callable[[str, str], None]


@pytest.fixture(scope="session")
def elsewhere() -> Elsewhere:
    """Run a statement on a PostgreSQL connection of its own, from another thread, and wait for it."""

    def run(url: str, statement: str) -> None:
        thread = threading.Thread(target=lambda: asyncio.run(_execute(url, statement)))
        thread.start()
        thread.join(30)

    return run


@asynccontextmanager
async def _opened(
    dialect: str, request: pytest.FixtureRequest, tmp_path: Path, rang: list[str]
) -> AsyncGenerator[AnyStorage]:
    def ring(subjects: Sequence[str]) -> None:
        rang.extend(subjects)

    if dialect == "sqlite":
        shutil.copy(request.getfixturevalue("empty_database"), tmp_path / "molecule.db")
        storage: AnyStorage = await SqliteStorage.open(tmp_path / "molecule.db", ring)
    else:
        url: str = request.getfixturevalue("migrated_postgres")
        storage = await PostgresStorage.open(url, ring)
    try:
        yield storage
    finally:
        await storage.close()
        if dialect == "postgres":
            await _empty(request.getfixturevalue("migrated_postgres"))


@pytest.fixture(params=DIALECTS)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, make_workspace: MakeWorkspace
) -> AsyncIterator[Store]:
    """One organisation with two workspaces, on each kind of database."""
    rang: list[str] = []
    async with _opened(request.param, request, tmp_path, rang) as storage:
        ada, bob = make_workspace(name="Ada"), make_workspace(name="Bob")
        org = Org(ada.org_id, "default", "Default organisation", ada.created_at)
        await storage.write(lambda tx: tx.people.insert_org(org))
        for workspace in (ada, bob):
            await storage.write(lambda tx, w=workspace: tx.workspaces.insert(w))
        yield Store(storage, org, ada, bob, rang)
