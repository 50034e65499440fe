"""The schema is the sum of its migrations, on both dialects, and a newer one is left alone."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import CheckConstraint, Connection, create_engine, inspect, text
from sqlalchemy.ext.asyncio import create_async_engine

from molecule_platform.storage import counters, schema
from molecule_platform.storage.postgres import PostgresStorage
from molecule_platform.storage.sqlite import SqliteStorage
from molecule_platform.storage.tables import metadata

T = TypeVar("T")
Run = Callable[[Callable[[Connection], T]], Awaitable[T]]
DIALECTS = ("sqlite", "postgres")
NOON = datetime(2026, 5, 2, 12, 0, tzinfo=UTC)


@asynccontextmanager
async def empty_database(
    dialect: str, request: pytest.FixtureRequest, path: Path
) -> AsyncGenerator[Run[Any]]:
    if dialect == "sqlite":
        engine = create_engine(f"sqlite:///{path}")

        async def run(work: Callable[[Connection], Any]) -> Any:
            with engine.begin() as connection:
                return work(connection)

        yield run
        engine.dispose()
        return
    url: str = request.getfixturevalue("empty_postgres")
    pool = create_async_engine("postgresql+asyncpg://" + url.split("://", 1)[1])

    async def run_there(work: Callable[[Connection], Any]) -> Any:
        async with pool.begin() as connection:
            return await connection.run_sync(work)

    yield run_there
    await pool.dispose()


@pytest.fixture(params=DIALECTS)
async def run(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Run[Any]]:
    """Runs work on a database that is empty at first."""
    async with empty_database(request.param, request, tmp_path / "empty.db") as run_here:
        yield run_here


def differences(connection: Connection) -> list[Any]:
    context = MigrationContext.configure(
        connection, opts={"compare_type": True, "compare_server_default": False}
    )
    return compare_metadata(context, metadata)


def checks(connection: Connection) -> dict[str, set[str]]:
    look = inspect(connection)
    return {
        name: {str(check["name"]) for check in look.get_check_constraints(name)} for name in metadata.tables
    }


def sql_of_checks(connection: Connection) -> dict[tuple[str, str], str]:
    look = inspect(connection)
    return {
        (name, str(check["name"])): str(check["sqltext"])
        for name in metadata.tables
        for check in look.get_check_constraints(name)
    }


def shape(connection: Connection) -> dict[str, Any]:
    """Everything that a dialect tells of its tables; the order of columns has no meaning."""
    look = inspect(connection)
    found: dict[str, Any] = {}
    for name in look.get_table_names():
        columns = [{**row, "type": str(row["type"])} for row in look.get_columns(name)]
        found[name] = {
            "columns": sorted(columns, key=lambda row: str(row["name"])),
            "key": look.get_pk_constraint(name),
            "foreign": sorted(look.get_foreign_keys(name), key=str),
            "unique": sorted(look.get_unique_constraints(name), key=str),
            "indexes": sorted((_plain(index) for index in look.get_indexes(name)), key=str),
            "options": look.get_table_options(name),
        }
    return found


def _plain(index: Any) -> Any:
    """An index with the text of its condition."""
    options = {name: str(value) for name, value in index.get("dialect_options", {}).items()}
    return {**index, "dialect_options": options}


async def test_a_new_database_is_what_the_migrations_make_of_an_empty_one(
    run: Run[Any], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    def drop(connection: Connection) -> None:
        for one in reversed(metadata.sorted_tables):
            connection.execute(text(f'DROP TABLE "{one.name}"'))
        connection.execute(text("DROP TABLE alembic_version"))

    def content(connection: Connection) -> list[Any]:
        looks = ("SELECT version_num FROM alembic_version", "SELECT name, value FROM counters ORDER BY name")
        return [[tuple(row) for row in connection.execute(text(look))] for look in looks]

    await run(schema.migrate)
    migrated = await run(shape), await run(content), await run(sql_of_checks)
    await run(drop)
    await run(schema.upgrade)
    assert (await run(shape), await run(content), await run(sql_of_checks)) == migrated


async def test_the_migrations_add_up_to_exactly_the_tables(run: Run[Any]) -> None:
    await run(schema.migrate)
    assert await run(differences) == []


async def test_every_check_of_the_tables_is_in_the_migrations(run: Run[Any]) -> None:
    def declared(name: str) -> set[str]:
        found = metadata.tables[name].constraints
        return {str(constraint.name) for constraint in found if isinstance(constraint, CheckConstraint)}

    await run(schema.migrate)
    assert await run(checks) == {name: declared(name) for name in metadata.tables}


async def test_upgrading_again_changes_nothing(run: Run[Any]) -> None:
    await run(schema.upgrade)
    await run(lambda connection: connection.execute(text("UPDATE counters SET value = 7")))
    await run(schema.upgrade)
    rows = await run(
        lambda connection: connection.execute(text("SELECT value FROM counters")).scalars().all()
    )
    assert set(rows) == {7}


async def test_the_counters_start_at_zero(run: Run[Any]) -> None:
    await run(schema.upgrade)
    rows = await run(lambda connection: connection.execute(text("SELECT name, value FROM counters")).all())
    assert {tuple(row) for row in rows} == {(name, 0) for name in counters.NAMES}


async def test_a_newer_schema_is_refused_with_what_to_do(run: Run[Any]) -> None:
    await run(schema.upgrade)
    await run(lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    with pytest.raises(schema.UnknownSchema, match="schema 9999.*start the newer version"):
        await run(schema.upgrade)


@pytest.mark.parametrize("revision", ["0001", "0019"])
async def test_a_schema_from_before_the_first_release_is_refused(run: Run[Any], revision: str) -> None:
    await run(schema.upgrade)
    change = text("UPDATE alembic_version SET version_num = :revision").bindparams(revision=revision)
    await run(lambda connection: connection.execute(change))
    with pytest.raises(schema.UnknownSchema, match=f"schema {revision}.*before the first release"):
        await run(schema.upgrade)


async def test_a_store_with_a_newer_schema_does_not_open(tmp_path: Path, empty_postgres: str) -> None:
    path = tmp_path / "molecule.db"
    await (await SqliteStorage.open(path, lambda _: None)).close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()
    with pytest.raises(schema.UnknownSchema):
        await SqliteStorage.open(path, lambda _: None)
    await (await PostgresStorage.open(empty_postgres, lambda _: None)).close()
    pool = create_async_engine("postgresql+asyncpg://" + empty_postgres.split("://", 1)[1])
    async with pool.begin() as there:
        await there.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    await pool.dispose()
    with pytest.raises(schema.UnknownSchema):
        await PostgresStorage.open(empty_postgres, lambda _: None)


async def test_two_replicas_may_open_an_empty_database_at_once(empty_postgres: str) -> None:
    opened = await asyncio.gather(*(PostgresStorage.open(empty_postgres, lambda _: None) for _ in range(3)))
    for storage in opened:
        await storage.close()
