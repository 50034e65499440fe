"""Any order of accepting, leasing, giving back, settling and lapsing, against a model that fits on a page."""

from __future__ import annotations

import asyncio
import functools
import shutil
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from molecule_platform.domain.messages import STATUSES, MessageOutcome
from molecule_platform.ports.people import Org
from molecule_platform.ports.storage import Transaction
from molecule_platform.storage.postgres import PostgresStorage
from molecule_platform.storage.sqlite import SqliteStorage

if TYPE_CHECKING:
    from packages.platform.tests.conftest import MakeMessage, MakeWorkspace
    from packages.platform.tests.storage.conftest import AnyStorage

T = TypeVar("T")
LEASE = timedelta(seconds=60)
EXAMPLES = {"sqlite": 40, "postgres": 8}


@dataclass
class Row:
    """What the model knows of a message."""

    status: str = "accepted"
    epoch: int = 0
    attempts: int = 0
    releases: int = 0
    not_before: datetime | None = None
    lease: tuple[str, str] | None = None
    expires_at: datetime | None = None
    steps: list[str] = field(default_factory=lambda: ["accepted"])

    def is_held_under(self, epoch: int) -> bool:
        return self.status == "leased" and self.epoch == epoch

    def give_back(self, step: str, attempts: int) -> None:
        self.status, self.lease, self.expires_at = "accepted", None, None
        self.attempts += attempts
        self.steps.append(step)


@dataclass
class Ground:
    """A store to run on, and how to make rows for it."""

    run: Callable[[Coroutine[Any, Any, Any]], Any]
    storage: AnyStorage
    make_message: MakeMessage
    make_workspace: MakeWorkspace

    def write(self, work: Callable[[Transaction], T]) -> T:
        return self.run(self.storage.write(work))


EPOCH = st.sampled_from([0, 0, 0, -1, 1])
PICK = st.integers(0, 10**6)


class Mailbox(RuleBasedStateMachine):
    """One workspace's mailbox beside its model."""

    def __init__(self, resources: Ground) -> None:
        super().__init__()
        self.resources = resources
        self.rows: dict[str, Row] = {}
        self.home = resources.make_workspace(org_id=str(uuid4()))
        self.now = self.home.created_at

        def begin(tx: Transaction) -> None:
            tx.people.insert_org(Org(self.home.org_id, self.home.org_id, "", self.now))
            tx.workspaces.insert(self.home)

        resources.write(begin)
        self.before = resources.run(resources.storage.read(lambda tx: tx.mailbox.totals()))

    def pick(self, number: int) -> tuple[str, Row]:
        name = sorted(self.rows)[number % len(self.rows)]
        return name, self.rows[name]

    @rule()
    def accept(self) -> None:
        message = self.resources.make_message(
            org_id=self.home.org_id,
            target_id=self.home.id,
            created_at=self.now,
            deadline_at=self.now + 1000 * LEASE,
        )
        self.resources.write(lambda tx: tx.mailbox.insert(replace(message, seq=tx.activity.next_seq())))
        self.rows[message.id] = Row()

    @precondition(lambda self: bool(self.rows))
    @rule(
        which=PICK, kind=st.sampled_from(["dispatch", "inbox", "cursor"]), owner=st.sampled_from(["r1", "r2"])
    )
    def lease(self, which: int, kind: str, owner: str) -> None:
        name, row = self.pick(which)
        until = self.now + LEASE if kind == "inbox" else None
        end = self.now + 1000 * LEASE
        taken = self.resources.write(
            lambda tx: tx.mailbox.lease(
                name, kind=kind, at=self.now, deadline_at=end, expires_at=until, owner=owner
            )
        )
        assert (taken is not None) == (row.status == "accepted")
        if taken is not None:
            row.status, row.lease, row.expires_at = "leased", (kind, owner), until
            row.epoch, row.attempts, row.not_before = row.epoch + 1, row.attempts + 1, None
            row.steps.append("leased")

    @precondition(lambda self: bool(self.rows))
    @rule(which=PICK, off=EPOCH)
    def extend(self, which: int, off: int) -> None:
        name, row = self.pick(which)
        until, epoch = self.now + 2 * LEASE, row.epoch + off
        done = self.resources.write(lambda tx: tx.mailbox.extend(name, epoch, until))
        assert done == row.is_held_under(epoch)
        if done:
            row.expires_at = until

    @precondition(lambda self: bool(self.rows))
    @rule(which=PICK, off=EPOCH)
    def release(self, which: int, off: int) -> None:
        name, row = self.pick(which)
        epoch = row.epoch + off
        done = self.resources.write(lambda tx: tx.mailbox.release(name, epoch, self.now))
        assert done == row.is_held_under(epoch)
        if done:
            row.give_back("released", -1)

    @precondition(lambda self: bool(self.rows))
    @rule(which=PICK, off=EPOCH)
    def release_for_the_agent(self, which: int, off: int) -> None:
        name, row = self.pick(which)
        epoch, again = row.epoch + off, self.now + LEASE
        back = self.resources.write(lambda tx: tx.mailbox.give_back(name, epoch, self.now, again))
        assert (back is not None) == row.is_held_under(epoch)
        if back is not None:
            row.give_back("released", -1)
            row.releases, row.not_before = row.releases + 1, again

    @precondition(lambda self: bool(self.rows))
    @rule(which=PICK)
    def redeliver(self, which: int) -> None:
        name, row = self.pick(which)
        until = self.now + 1000 * LEASE
        begun = self.resources.write(lambda tx: tx.mailbox.redeliver(name, self.now, until, name))
        assert (begun is not None) == (row.status == "failed")
        if begun is not None:
            row.status, row.lease, row.not_before = "accepted", None, None
            row.attempts = row.releases = 0
            row.steps.append("accepted")

    @precondition(lambda self: bool(self.rows))
    @rule(which=PICK, off=EPOCH)
    def retry(self, which: int, off: int) -> None:
        name, row = self.pick(which)
        epoch = row.epoch + off
        done = self.resources.write(lambda tx: tx.mailbox.retry(name, epoch, self.now, self.now, "x", "x"))
        assert done == row.is_held_under(epoch)
        if done:
            row.give_back("retry", 0)
            row.not_before = self.now

    @precondition(lambda self: bool(self.rows))
    @rule(
        which=PICK,
        off=st.none() | EPOCH,
        status=st.sampled_from(["answered", "failed", "expired", "cancelled"]),
    )
    def settle(self, which: int, off: int | None, status: str) -> None:
        name, row = self.pick(which)
        epoch = None if off is None else row.epoch + off
        may = row.status in ("accepted", "leased") if epoch is None else row.is_held_under(epoch)
        outcome = MessageOutcome(status, dead_letter=status == "failed")
        ended = self.resources.write(lambda tx: tx.mailbox.settle(name, outcome, self.now, epoch))
        assert (ended is not None) == may
        if ended is not None:
            row.status, row.expires_at = status, None
            row.steps.append(status)

    @precondition(lambda self: bool(self.rows))
    @rule(which=PICK, status=st.sampled_from(["answered", "failed"]))
    def settle_in_vain(self, which: int, status: str) -> None:
        """Undo what a job wrote before it failed, and its count."""
        name, _row = self.pick(which)

        def work(tx: Transaction) -> None:
            tx.mailbox.settle(name, MessageOutcome(status), self.now)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            self.resources.write(work)

    @rule(seconds=st.sampled_from([1, 59, 60, 120]))
    def lapse(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

        def work(tx: Transaction) -> set[str]:
            mine = [m for m in tx.mailbox.lapsed(self.now, 10_000) if m.target_id == self.home.id]
            for message in mine:
                tx.mailbox.retry(message.id, message.lease_epoch, self.now, self.now, "lease-lost", "")
            return {message.id for message in mine}

        ran_out = {
            name
            for name, row in self.rows.items()
            if row.lease and row.lease[0] == "inbox" and row.expires_at and row.expires_at <= self.now
        }
        assert self.resources.write(work) == ran_out
        for name in ran_out:
            self.rows[name].give_back("retry", 0)
            self.rows[name].not_before = self.now

    @rule(living=st.sampled_from(["r1", "r2"]))
    def lose_a_replica(self, living: str) -> None:
        def work(tx: Transaction) -> set[str]:
            mine = [m for m in tx.mailbox.orphaned([living], 10_000) if m.target_id == self.home.id]
            for message in mine:
                tx.mailbox.release(message.id, message.lease_epoch, self.now)
            return {message.id for message in mine}

        lost = {
            name
            for name, row in self.rows.items()
            if row.status == "leased" and row.lease and row.lease[0] == "dispatch" and row.lease[1] != living
        }
        assert self.resources.write(work) == lost
        for name in lost:
            self.rows[name].give_back("released", -1)

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        def work(tx: Transaction) -> dict[str, tuple[object, ...]]:
            found = ((name, tx.mailbox.get(name)) for name in self.rows)
            return {
                name: (m.status, m.lease_epoch, m.attempts, m.releases, m.lease_expires_at, m.not_before)
                for name, m in found
                if m
            }

        kept = self.resources.run(self.resources.storage.read(work))
        assert kept == {
            name: (row.status, row.epoch, row.attempts, row.releases, row.expires_at, row.not_before)
            for name, row in self.rows.items()
        }

    @invariant()
    def the_totals_count_every_message_once(self) -> None:
        totals = self.resources.run(self.resources.storage.read(lambda tx: tx.mailbox.totals()))
        here = Counter(row.status for row in self.rows.values())
        changes = {status: totals.get(status, 0) - self.before.get(status, 0) for status in STATUSES}
        assert changes == {status: here[status] for status in STATUSES}

    def teardown(self) -> None:
        def work(tx: Transaction) -> list[str]:
            return [event.event_type for event in tx.events.after(0, 100_000, workspace_id=self.home.id)]

        steps = [step for row in self.rows.values() for step in row.steps]
        shown = [f"MESSAGE_{step.upper()}" for step in steps if step not in ("retry", "released")]
        told = ["A2A_RESPONSE" for step in steps if step in ("answered", "failed", "expired", "cancelled")]
        kept = self.resources.run(self.resources.storage.read(work))
        assert sorted(kept) == sorted(shown + told)


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_no_order_of_steps_leads_the_mailbox_away_from_its_model(
    dialect: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    make_message: MakeMessage,
    make_workspace: MakeWorkspace,
) -> None:
    async def opened() -> AnyStorage:
        if dialect == "postgres":
            return await PostgresStorage.open(request.getfixturevalue("postgres_database"), lambda _: None)
        shutil.copy(request.getfixturevalue("empty_database"), tmp_path / "molecule.db")
        return await SqliteStorage.open(tmp_path / "molecule.db", lambda _: None)

    bounded = settings(
        max_examples=EXAMPLES[dialect],
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    with asyncio.Runner() as runner:
        storage = runner.run(opened())
        resources = Ground(runner.run, storage, make_message, make_workspace)
        try:
            machine: Any = functools.partial(Mailbox, resources)
            run_state_machine_as_test(machine, settings=bounded)
        finally:
            runner.run(storage.close())
