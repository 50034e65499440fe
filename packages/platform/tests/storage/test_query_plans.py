"""What is asked for every message, poll or second must not take longer the more messages there are.

SQLite keeps no statistics here, so which index it takes shows on an empty database already.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from molecule_platform.domain import messages
from molecule_platform.domain.tasks import TaskKey
from molecule_platform.ports.activity import ActivityFilter
from molecule_platform.ports.mailbox import InboxFilter, TraceFilter
from molecule_platform.ports.storage import Transaction
from molecule_platform.storage.sqlite import SqliteStorage
from molecule_platform.storage.transaction import SqlTransaction
from tests.rows import each_row

NOW = datetime(2026, 1, 1, tzinfo=UTC)
# What has a row for each message, and the steps of a plan that pass by all of them, or by all of one agent.
WALKS = re.compile(
    r"SCAN (messages|message_events|message_transitions|activity_logs|events|tasks)\b"
    r"|ix_messages_(queue|sent|repeat) \(\w+=\?\)$"
    r"|USE TEMP B-TREE FOR ORDER BY$"
)
# Sorted are here repeats of one message, the messages of one task, what waits in one inbox, a page of a
# trace, the newest of a conversation, and the activity of open messages: few each.
SORTS_FEW = {
    "by_reference",
    "by_task",
    "waiting",
    "first_waiting",
    "inbox",
    "inbox of the dead",
    "messages of a trace",
    "what was sent for messages",
    "conversation",
    "activity that is open",
}

A_MESSAGE = messages.new_message(seq=7, target_id="w", caller="workspace:v", context_id="c")

VERBS: dict[str, Callable[[Transaction], Any]] = {
    "get": lambda tx: tx.mailbox.get("m"),
    "by_key": lambda tx: tx.mailbox.by_key("user:a", "w", "k"),
    "by_reference": lambda tx: tx.mailbox.by_reference("user:a", "w", "m", "hash", NOW),
    "by_activity": lambda tx: tx.mailbox.by_activity("a"),
    "by_task": lambda tx: tx.mailbox.by_task("w", "t"),
    "by_reply": lambda tx: tx.mailbox.by_reply("w", "hash"),
    "load": lambda tx: tx.mailbox.load("w"),
    "counts": lambda tx: tx.mailbox.counts("w"),
    "open_count": lambda tx: tx.mailbox.open_count("w"),
    "usage": lambda tx: tx.mailbox.usage("w"),
    "open_bytes": lambda tx: tx.mailbox.open_bytes("o"),
    "is_anyone_waiting": lambda tx: tx.mailbox.is_anyone_waiting("w"),
    "is_context_open": lambda tx: tx.mailbox.is_context_open("w", "c"),
    "waiting": lambda tx: tx.mailbox.waiting("w"),
    "first_waiting": lambda tx: tx.mailbox.first_waiting("w", NOW, 10),
    "inbox": lambda tx: tx.mailbox.inbox("w", 10),
    "inbox of the dead": lambda tx: tx.mailbox.inbox("w", 10, InboxFilter(status="dead")),
    "in_work": lambda tx: tx.mailbox.in_work("w", NOW),
    "messages of a trace": lambda tx: tx.mailbox.trace(TraceFilter(ids=["m", "n"]), 10),
    "what was sent for messages": lambda tx: tx.mailbox.trace(TraceFilter(parent_ids=["m", "n"]), 10),
    "conversation": lambda tx: tx.mailbox.conversation(A_MESSAGE, ("message",), 50, 1000),
    "overdue": lambda tx: tx.mailbox.overdue(NOW, 10),
    "lapsed": lambda tx: tx.mailbox.lapsed(NOW, 10),
    "orphaned": lambda tx: tx.mailbox.orphaned(["r"], 10),
    "dispatched_by": lambda tx: tx.mailbox.dispatched_by("r", NOW),
    "targets_to_dispatch": lambda tx: tx.mailbox.targets_to_dispatch(NOW, "", 10),
    "transitions": lambda tx: tx.mailbox.transitions("m", 0),
    "totals": lambda tx: tx.mailbox.totals(),
    "activity": lambda tx: tx.activity.rows("w", ActivityFilter()),
    "activity of one type": lambda tx: tx.activity.rows("w", ActivityFilter(activity_type="agent_log")),
    "activity that is open": lambda tx: tx.activity.rows(
        "w", ActivityFilter(activity_type="a2a_receive", oldest_first=True, is_mail=True, only_open=True)
    ),
    "activity that is polled": lambda tx: tx.activity.rows(
        "w", ActivityFilter(activity_type="a2a_receive", after_seq=7, oldest_first=True)
    ),
    "newest of tasks": lambda tx: tx.tasks.newest([TaskKey("w", "", "t"), TaskKey("v", "", "u")]),
    "abandoned tasks": lambda tx: tx.tasks.abandoned(NOW, 10),
    "tasks to look at": lambda tx: tx.tasks.due(NOW, 10),
    "last settled": lambda tx: tx.upkeep.last_settled("w"),
    "events after": lambda tx: tx.events.after(7, 10, org_id="o"),
    "events of one": lambda tx: tx.events.newest("o", 10, workspace_id="w"),
}


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncGenerator[SqliteStorage]:
    opened = await SqliteStorage.open(tmp_path / "molecule.db", lambda _subjects: None)
    yield opened
    await opened.close()


def plan_of(tx: Transaction, verb: Callable[[Transaction], Any]) -> list[str]:
    """The steps of every statement that the verb runs."""
    assert isinstance(tx, SqlTransaction)
    driver = tx.connection.connection.dbapi_connection
    assert isinstance(driver, sqlite3.Connection)
    said: list[str] = []
    driver.set_trace_callback(said.append)
    verb(tx)
    driver.set_trace_callback(None)
    return [row[3] for statement in said for row in driver.execute(f"EXPLAIN QUERY PLAN {statement}")]


@each_row("name", VERBS)
async def test_a_question_is_answered_without_passing_by_all_messages(
    storage: SqliteStorage, name: str
) -> None:
    steps = await storage.read(lambda tx: plan_of(tx, VERBS[name]))
    assert steps
    walks = [step for step in steps if WALKS.search(step)]
    if name in SORTS_FEW:
        walks = [step for step in walks if not step.startswith("USE TEMP")]
    assert not walks, steps


async def test_a_page_of_rare_activity_is_found_by_its_type(storage: SqliteStorage) -> None:
    steps = await storage.read(lambda tx: plan_of(tx, VERBS["activity of one type"]))
    assert "ix_activity_logs_type (workspace_id=? AND activity_type=?)" in steps[0]
