"""The schema is the sum of its migrations, on both dialects, and a newer one is left alone."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import CheckConstraint, Connection, column, create_engine, inspect, table, text
from sqlalchemy.ext.asyncio import create_async_engine

from molecule_platform.domain.credentials import Token
from molecule_platform.domain.messages import Message
from molecule_platform.domain.workspaces import Workspace
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


# Columns that came after the versions from which the tests upgrade.
LATER = ("claim_reads_secrets", "ends_with")


def insert_old(connection: Connection, name: str, made: Workspace | Token | Message, *unknown: str) -> None:
    """A row of a schema that has not all the columns of today."""
    row = {key: value for key, value in asdict(made).items() if key not in (*LATER, *unknown)}
    old = [column(key, metadata.tables[name].c[key].type) for key in row]
    connection.execute(table(name, *old).insert().values(row))


async def test_signatures_that_nobody_looked_at_are_neither_good_nor_none(
    run: Run[Any], make_workspace: Callable[..., Workspace]
) -> None:
    cards: list[Any] = [None, {"name": "Ada"}, {"name": "Ada", "signatures": [{"protected": "p"}]}]

    def before(connection: Connection) -> None:
        schema.migrate(connection, "0005")
        made = {"id": "org-one", "slug": "o", "name": "O", "created_at": NOON}
        connection.execute(metadata.tables["orgs"].insert().values(made))
        for number, card in enumerate(cards):
            workspace = make_workspace(id=f"w{number}", agent_card=card, max_concurrent_tasks=1)
            insert_old(connection, "workspaces", workspace, "card_signature")

    await run(before)
    await run(schema.upgrade)
    look = text("SELECT card_signature FROM workspaces ORDER BY id")
    rows = await run(lambda connection: connection.execute(look).scalars().all())
    assert rows == ["unsigned", "unsigned", "unverified"]


async def test_what_waits_in_the_outbox_waits_there_after_an_upgrade(
    run: Run[Any], make_workspace: Callable[..., Workspace]
) -> None:
    waiting = {"push_config_id": "c1", "id": "n1", "kind": "push", "attempts": 2, "created_at": NOON}
    config: dict[str, Any] = {
        "id": "c1",
        "org_id": "org-one",
        "workspace_id": "w1",
        "tenant": "",
        "task_id": "t",
        "config_id": "c",
        "owner": "user:ann",
        "dialect": "1.0",
        "url": "http://127.0.0.1/",
        "config": {},
        "failures": 0,
    }

    def before(connection: Connection) -> None:
        schema.migrate(connection, "0008")
        made = {"id": "org-one", "slug": "o", "name": "O", "created_at": NOON}
        connection.execute(metadata.tables["orgs"].insert().values(made))
        insert_old(connection, "workspaces", make_workspace(id="w1", max_concurrent_tasks=1))
        rows: dict[str, dict[str, Any]] = {
            "push_configs": {**config, "created_at": NOON},
            "outbox": {**waiting, "seq": 3, "org_id": "org-one", "next_attempt_at": NOON},
        }
        for name, row in rows.items():
            connection.execute(metadata.tables[name].insert().values(row))

    await run(before)
    await run(schema.upgrade)
    kept = await run(
        lambda connection: connection.execute(metadata.tables["outbox"].select()).mappings().all()
    )
    assert [(row["id"], row["seq"], row["attempts"], row["next_attempt_at"]) for row in kept] == [
        ("n1", 3, 2, NOON)
    ]


async def test_a_limit_of_one_counts_as_the_old_default_and_any_other_as_the_operators(
    run: Run[Any], make_workspace: Callable[..., Workspace]
) -> None:
    def before(connection: Connection) -> None:
        schema.migrate(connection, "0010")
        made = {"id": "org-one", "slug": "o", "name": "O", "created_at": NOON}
        connection.execute(metadata.tables["orgs"].insert().values(made))
        for limit in (1, 4):
            workspace = make_workspace(id=f"w{limit}", max_concurrent_tasks=limit)
            insert_old(connection, "workspaces", workspace)

    await run(before)
    await run(schema.upgrade)
    look = text("SELECT max_concurrent_tasks FROM workspaces ORDER BY id")
    assert await run(lambda connection: connection.execute(look).scalars().all()) == [None, 4]


async def test_a_claim_gives_after_an_upgrade_what_the_first_token_gave(
    run: Run[Any], make_workspace: Callable[..., Workspace]
) -> None:
    scopes = {"w1": [["workspace"]], "w2": [["ws.send", "ws.manage"], ["workspace"]], "w3": list[list[str]]()}

    def before(connection: Connection) -> None:
        schema.migrate(connection, "0014")
        made = {"id": "org-one", "slug": "o", "name": "O", "created_at": NOON}
        connection.execute(metadata.tables["orgs"].insert().values(made))
        for workspace_id, tokens in scopes.items():
            insert_old(connection, "workspaces", make_workspace(id=workspace_id))
            for number, given in enumerate(tokens):
                name = f"{workspace_id}-{number}"
                token = Token(name, "org-one", "workspace", name, name, given, "user:ann", NOON, workspace_id)
                insert_old(connection, "tokens", token)

    await run(before)
    await run(schema.upgrade)
    look = text("SELECT claim_reads_secrets FROM workspaces ORDER BY id")
    rows = await run(lambda connection: connection.execute(look).scalars().all())
    assert [bool(row) for row in rows] == [True, False, False]


async def test_tokens_end_after_an_upgrade_with_the_person_at_the_root_of_them(run: Run[Any]) -> None:
    made_by = {
        "t1": "user:ann",
        "t2": "org-token:t1",
        "t3": "user:t2",  # by a session that was exchanged for it
        "t4": "workspace:w1",
        "t5": "org-token:gone",
    }

    def before(connection: Connection) -> None:
        schema.migrate(connection, "0014")
        made = {"id": "org-one", "slug": "o", "name": "O", "created_at": NOON}
        connection.execute(metadata.tables["orgs"].insert().values(made))
        for name, minter in made_by.items():
            insert_old(connection, "tokens", Token(name, "org-one", "org", name, name, ["org"], minter, NOON))
        first = Token("t0", "org-one", "org", "t0", "t0", ["org"], "user:ann", NOON, recovery_hash="r")
        insert_old(connection, "tokens", first)

    await run(before)
    await run(schema.upgrade)
    look = text("SELECT ends_with FROM tokens ORDER BY id")
    rows = await run(lambda connection: connection.execute(look).scalars().all())
    assert rows == ["", "user:ann", "user:ann", "user:ann", "", "org-token:gone"]


async def test_messages_that_ended_before_an_upgrade_are_counted(
    run: Run[Any], make_workspace: Callable[..., Workspace], make_message: Callable[..., Message]
) -> None:
    def before(connection: Connection) -> None:
        schema.migrate(connection, "0018")
        made = {"id": "org-one", "slug": "o", "name": "O", "created_at": NOON}
        connection.execute(metadata.tables["orgs"].insert().values(made))
        insert_old(connection, "workspaces", make_workspace(id="w1"))
        for number, status in enumerate(("answered", "answered", "failed", "leased")):
            message = make_message(id=str(number), seq=number, target_id="w1", status=status)
            insert_old(connection, "messages", message)

    await run(before)
    await run(schema.upgrade)
    totals = await run(counters.totals)
    assert totals == {"answered": 2, "failed": 1, "expired": 0, "cancelled": 0}


async def test_the_counters_start_at_zero(run: Run[Any]) -> None:
    await run(schema.upgrade)
    rows = await run(lambda connection: connection.execute(text("SELECT name, value FROM counters")).all())
    assert {tuple(row) for row in rows} == {(name, 0) for name in counters.NAMES}


async def test_a_newer_schema_is_refused_with_what_to_do(run: Run[Any]) -> None:
    await run(schema.upgrade)
    await run(lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    with pytest.raises(schema.SchemaTooNew, match="schema 9999.*start the newer version"):
        await run(schema.upgrade)


async def test_a_store_with_a_newer_schema_does_not_open(tmp_path: Path, empty_postgres: str) -> None:
    path = tmp_path / "molecule.db"
    await (await SqliteStorage.open(path, lambda _: None)).close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()
    with pytest.raises(schema.SchemaTooNew):
        await SqliteStorage.open(path, lambda _: None)
    await (await PostgresStorage.open(empty_postgres, lambda _: None)).close()
    pool = create_async_engine("postgresql+asyncpg://" + empty_postgres.split("://", 1)[1])
    async with pool.begin() as there:
        await there.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    await pool.dispose()
    with pytest.raises(schema.SchemaTooNew):
        await PostgresStorage.open(empty_postgres, lambda _: None)


async def test_two_replicas_may_open_an_empty_database_at_once(empty_postgres: str) -> None:
    opened = await asyncio.gather(*(PostgresStorage.open(empty_postgres, lambda _: None) for _ in range(3)))
    for storage in opened:
        await storage.close()
