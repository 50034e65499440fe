"""Any order of inviting, promoting, demoting, disabling and removing, by anyone: an owner always stays."""

from __future__ import annotations

import asyncio
import functools
import shutil
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from molecule_platform.domain import principals
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.people import ROLES, Person
from molecule_platform.domain.principals import Principal
from molecule_platform.ports.people import Org
from molecule_platform.services.identity.members import MemberChange, MemberService
from molecule_platform.storage.sqlite import SqliteStorage

START = datetime(2026, 5, 2, 12, tzinfo=UTC)
NAMES = ("ann", "bert", "cleo")
ROLE = st.sampled_from(ROLES)
NAME = st.sampled_from(NAMES)
ACTOR = st.sampled_from((*NAMES, "root"))

Run = Callable[[Coroutine[Any, Any, Any]], Any]


class Standing:
    """A clock that nobody looks at."""

    def now(self) -> datetime:
        return START + timedelta(hours=1)


class Owners(RuleBasedStateMachine):
    """One organisation's people beside a model of them."""

    def __init__(self, run: Run, storage: SqliteStorage) -> None:
        super().__init__()
        self.execute, self.storage = run, storage
        self.org = str(uuid4())
        self.service = MemberService(storage, Standing())
        self.model: dict[str, Person] = {}
        self.execute(storage.write(lambda tx: tx.people.insert_org(Org(self.org, self.org[:13], "", START))))
        self.join("ann", "owner")

    def principal(self, actor: str) -> Principal:
        person = self.model.get(actor)
        if actor == "root":
            scopes = principals.ADMIN_SCOPES
        else:
            scopes = person.scopes if person is not None and not person.disabled else frozenset[str]()
        return Principal(f"user:{actor}", self.org, scopes, actor)

    def allowed(self, actor: str, before: Person | None, after: Person | None) -> bool:
        """What the model says: no power over more than one's own, and never the last owner."""
        by = self.principal(actor)
        if before is None or not all(by.may(s) for p in (before, after or before) for s in p.scopes):
            return False
        others = [p for p in self.model.values() if p.is_owner and p.name != before.name]
        return bool(others) or not before.is_owner or (after is not None and after.is_owner)

    def attempt(self, work: Coroutine[Any, Any, Any]) -> bool:
        try:
            self.execute(work)
        except ApiError:
            return False
        return True

    @rule(name=NAME, role=ROLE)
    def join(self, name: str, role: str) -> None:
        self.execute(self.storage.write(lambda tx: tx.people.put_member(name, self.org, role, START)))
        self.model.setdefault(name, Person(name, self.org, role, START))

    @rule(actor=ACTOR, name=NAME, role=st.none() | ROLE, disabled=st.none() | st.booleans())
    def change(self, actor: str, name: str, role: str | None, disabled: bool | None) -> None:
        before = self.model.get(name)
        change = MemberChange(role, disabled)
        after = None if before is None else change.of(before)
        done = self.attempt(self.service.change(self.principal(actor), name, change, "r"))
        assert done == self.allowed(actor, before, after)
        if done and after is not None:
            self.model[name] = after

    @rule(actor=ACTOR, name=NAME)
    def remove(self, actor: str, name: str) -> None:
        done = self.attempt(self.service.remove(self.principal(actor), name, "r"))
        assert done == self.allowed(actor, self.model.get(name), None)
        if done:
            del self.model[name]

    @invariant()
    def an_owner_stays_and_the_model_is_right(self) -> None:
        kept = self.execute(self.storage.read(lambda tx: tx.people.members(self.org, "", 10)))
        assert [replace(person, platform_admin=False) for person in kept] == [
            self.model[name] for name in sorted(self.model)
        ]
        assert any(person.is_owner for person in kept)


def test_no_order_of_changes_takes_the_last_owner(empty_database: Path, tmp_path: Path) -> None:
    shutil.copy(empty_database, tmp_path / "molecule.db")
    bounded = settings(
        max_examples=30,
        stateful_step_count=20,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    with asyncio.Runner() as runner:
        storage = runner.run(SqliteStorage.open(tmp_path / "molecule.db", lambda _: None))
        try:
            machine: Any = functools.partial(Owners, runner.run, storage)
            run_state_machine_as_test(machine, settings=bounded)
        finally:
            runner.run(storage.close())
