"""What is forgotten, what is not, and that a batch is never larger than asked for; on every store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Table, func, insert, select

from molecule_platform.domain.messages import MessageOutcome
from molecule_platform.domain.tasks import Task
from molecule_platform.ports.activity import ActivityFilter, ActivityRow
from molecule_platform.ports.audit_log import AuditEntry
from molecule_platform.ports.storage import Transaction
from molecule_platform.storage import tables
from molecule_platform.storage.transaction import SqlTransaction
from molecule_wire import ids

if TYPE_CHECKING:
    from packages.platform.tests.conftest import MakeMessage
    from packages.platform.tests.storage.conftest import Store

# Ids are made by the real clock, so the rows here are as old as it says.
NOW = datetime.now(UTC).replace(microsecond=0)
LONG_AGO, LATER = NOW - timedelta(days=400), NOW + timedelta(days=1)


def add(tx: Transaction, table: Table, **values: Any) -> None:
    assert isinstance(tx, SqlTransaction)
    tx.connection.execute(insert(table).values(values))


def left(tx: Transaction, table: Table) -> int:
    assert isinstance(tx, SqlTransaction)
    return tx.connection.execute(select(func.count()).select_from(table)).scalar_one()


def log(tx: Transaction, store: Store, at: datetime, message_id: str | None = None) -> str:
    row_id = ids.uuid7()
    tx.activity.insert(
        ActivityRow(
            row_id,
            store.org.id,
            tx.activity.next_seq(),
            store.ada.id,
            "agent_log",
            "user:ann",
            at,
            message_id=message_id,
        )
    )
    return row_id


async def test_old_activity_is_forgotten_but_not_that_of_open_messages(
    store: Store, make_message: MakeMessage
) -> None:
    def work(tx: Transaction) -> list[Any]:
        for number, name in enumerate(("open", "done")):
            tx.mailbox.insert(make_message(id=name, target_id=store.ada.id, seq=10**9 + number))
        tx.mailbox.settle("done", MessageOutcome("answered"), NOW)
        of_open = log(tx, store, LONG_AGO, "open")
        log(tx, store, LONG_AGO, "done")
        log(tx, store, LONG_AGO)
        fresh = log(tx, store, LATER)
        batches = [tx.retention.activity(NOW + timedelta(hours=5), 1) for _ in range(3)]
        kept = [row.id for row in tx.activity.rows(store.ada.id, ActivityFilter(oldest_first=True))]
        return [batches, kept == [of_open, fresh]]

    assert await store.storage.write(work) == [[1, 1, 0], True]


async def test_an_activity_row_that_outlives_its_message_keeps_what_became_of_it(
    store: Store, make_message: MakeMessage
) -> None:
    def work(tx: Transaction) -> tuple[int, list[ActivityRow]]:
        name = ids.uuid7()
        row_id = log(tx, store, NOW, name)
        tx.mailbox.insert(
            make_message(id=name, target_id=store.ada.id, seq=10**9, activity_id=row_id, created_at=NOW)
        )
        tx.mailbox.settle(name, MessageOutcome("expired", error={"code": "x", "message": "late"}), NOW)
        forgotten = tx.retention.messages(LATER, 10)
        return forgotten, tx.activity.rows(store.ada.id, ActivityFilter())

    forgotten, [row] = await store.storage.write(work)
    assert (forgotten, row.message) == (1, None)
    assert (row.status, row.duration_ms, row.error_detail) == ("timeout", 0, "late")


async def test_messages_are_forgotten_some_time_after_they_ended(
    store: Store, make_message: MakeMessage
) -> None:
    def work(tx: Transaction) -> list[Any]:
        ended = {"open": None, "lately": LATER, "once": LONG_AGO, "too": LONG_AGO}
        made = {name: ids.uuid7() for name in ended}
        for number, (name, at) in enumerate(ended.items()):
            tx.mailbox.insert(make_message(id=made[name], target_id=store.ada.id, seq=10**9 + number))
            if at is not None:
                tx.mailbox.settle(made[name], MessageOutcome("answered"), at)
        batches = [tx.retention.messages(NOW + timedelta(hours=5), 1) for _ in range(3)]
        return [batches, [name for name in made if tx.mailbox.get(made[name]) is not None]]

    assert await store.storage.write(work) == [[1, 1, 0], ["open", "lately"]]
    totals = await store.storage.read(lambda tx: tx.mailbox.totals())
    assert {status: many for status, many in totals.items() if many} == {"accepted": 1, "answered": 1}


async def test_a_message_made_after_the_line_is_kept_whatever_its_row_says(
    store: Store, make_message: MakeMessage
) -> None:
    def work(tx: Transaction) -> int:
        tx.mailbox.insert(make_message(target_id=store.ada.id))
        return tx.retention.messages(LONG_AGO, 10)

    assert await store.storage.write(work) == 0


def a_task(tx: Transaction, store: Store, name: str, **more: Any) -> None:
    told = {
        "state": "working",
        "status_at": LONG_AGO,
        "created_at": LONG_AGO,
        "last_seq": 1,
        "snapshot_seq": 1,
    }
    made = Task(
        store.ada.id,
        "",
        name,
        store.org.id,
        "user:ann",
        "c",
        name,
        **(told | more),  # pyright: ignore[reportArgumentType]
    )
    tx.tasks.insert(made)


async def test_the_log_of_a_task_outlives_it_while_anybody_may_come_back_to_it(store: Store) -> None:
    def work(tx: Transaction) -> list[Any]:
        a_task(tx, store, "open")
        a_task(tx, store, "asks", state="input-required")
        a_task(tx, store, "lately", state="completed", finished_at=NOW)
        a_task(tx, store, "not in one piece", state="completed", finished_at=LONG_AGO, snapshot_seq=0)
        a_task(tx, store, "done", state="completed", finished_at=LONG_AGO)
        for task in ("open", "asks", "lately", "not in one piece", "done", "a bare message"):
            said = {"message_id": task, "kind": "status", "payload": b"{}", "created_at": LONG_AGO}
            place = {"workspace_id": store.ada.id, "org_id": store.org.id}
            add(tx, tables.message_events, task_id=task, seq=1, tenant="", **place, **said)
        pruned = tx.retention.message_events(NOW, 10)
        return [pruned, left(tx, tables.message_events)]

    assert await store.storage.write(work) == [2, 4]


async def test_only_tasks_that_are_over_are_forgotten(store: Store) -> None:
    def work(tx: Transaction) -> list[int]:
        a_task(tx, store, "asks", state="input-required")
        a_task(tx, store, "lately", state="failed", finished_at=NOW)
        a_task(tx, store, "done", state="completed", finished_at=LONG_AGO)
        return [tx.retention.tasks(NOW, 10), left(tx, tables.tasks)]

    assert await store.storage.write(work) == [1, 2]


@pytest.mark.parametrize(
    ("table", "column", "verb", "rest"),
    [
        (
            "idempotency",
            "expires_at",
            "idempotency",
            {"body_hash": "h", "replica": "r"},
        ),
        (
            "login_codes",
            "expires_at",
            "sign_ins",
            {"user": "ann", "role": "owner"},
        ),
        (
            "sessions",
            "expires_at",
            "sign_ins",
            {"user": "ann", "role": "owner", "scopes": [], "seen_at": NOW},
        ),
        ("stream_tickets", "expires_at", "sign_ins", {"credential": "c"}),
        (
            "enrolment_tokens",
            "expires_at",
            "sign_ins",
            {"workspace_id": "ada", "scopes": [], "created_by": "user:admin"},
        ),
        ("replicas", "seen_at", "replicas", {}),
    ],
)
async def test_what_expired_is_forgotten(
    store: Store, table: str, column: str, verb: str, rest: dict[str, Any]
) -> None:
    target = tables.metadata.tables[table]
    values = dict(rest)
    if "workspace_id" in values:
        values["workspace_id"] = store.ada.id
    if "org_id" in target.c:
        values["org_id"] = store.org.id
    if "created_at" in target.c:
        values["created_at"] = LONG_AGO

    def work(tx: Transaction) -> list[int]:
        before = left(tx, target)
        for number, at in enumerate((LONG_AGO, LATER)):
            key = {name.name: f"key-{number}" for name in target.primary_key.columns}
            add(tx, target, **key, **values, **{column: at})
        return [getattr(tx.retention, verb)(NOW, 10), left(tx, target) - before]

    assert await store.storage.write(work) == [1, 1]


async def test_ended_tokens_are_forgotten_but_not_the_proof_that_a_workspace_was_removed(
    store: Store,
) -> None:
    rows: dict[str, dict[str, Any]] = {
        "good": {},
        "ends": {"expires_at": LATER},
        "expired": {"expires_at": LONG_AGO},
        "revoked": {"revoked_at": LONG_AGO, "revoke_reason": "revoked"},
        "lately": {"revoked_at": LATER, "revoke_reason": "revoked"},
        "tombstone": {
            "revoked_at": LONG_AGO,
            "expires_at": LONG_AGO,
            "revoke_reason": "workspace-removed",
        },
    }

    def work(tx: Transaction) -> list[Any]:
        for name, row in rows.items():
            same: dict[str, Any] = {
                "kind": "org",
                "token_hash": name,
                "prefix": "p",
                "name": name,
                "scopes": [],
            }
            add(
                tx, tables.tokens, id=name, org_id=store.org.id, created_by="x", created_at=NOW, **same, **row
            )
        gone = tx.retention.tokens(NOW, 10)
        return [gone, [name for name in rows if tx.tokens.get(name) is not None]]

    assert await store.storage.write(work) == [2, ["good", "ends", "lately", "tombstone"]]


async def test_ended_grants_and_old_deeds_are_forgotten(store: Store) -> None:
    def work(tx: Transaction) -> list[int]:
        same = {
            "org_id": store.org.id,
            "from_id": store.ada.id,
            "to_id": store.bob.id,
            "bidirectional": False,
        }
        for name, ends in (("old", LONG_AGO), ("new", LATER)):
            more = {"expires_at": ends, "reason": "", "created_by": "x", "created_at": LONG_AGO}
            add(tx, tables.access_grants, id=name, **same, **more)
        tx.audit.note(AuditEntry(store.org.id, "user:ann", "secret.read", "x", "r", NOW))
        kept = tx.retention.security_log(NOW - timedelta(minutes=5), 10)
        return [tx.retention.grants(NOW, 10), kept, tx.retention.security_log(LATER, 10)]

    assert await store.storage.write(work) == [1, 0, 1]
