"""Any order of minting, claiming, enrolling, recovering and removing, by anyone: nobody gains a scope."""

from __future__ import annotations

import asyncio
import functools
import shutil
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from molecule_platform.bus.memory import MemoryBus
from molecule_platform.domain import credentials
from molecule_platform.domain.people import ROLES
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.refusals import Refusal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.people import Org
from molecule_platform.services.bells import Bells
from molecule_platform.services.creation import Creation, Plan
from molecule_platform.services.directory import Asked, Directory
from molecule_platform.services.identity import Identity, Presented
from molecule_platform.services.login import Login
from molecule_platform.services.people import Change, PeopleService
from molecule_platform.services.registration import Application, ClaimRules, Registration
from molecule_platform.services.tokens import Tokens, TokenWish
from molecule_platform.storage.sqlite import SqliteStorage

START = datetime(2026, 5, 2, 12, tzinfo=UTC)
Run = Callable[[Coroutine[Any, Any, Any]], Any]

OWN = frozenset(
    f"ws.{name}"
    for name in ("runtime", "inbox", "send", "memory", "secrets.write", "plugins", "manage", "events")
)
KNOWS = frozenset({"ws.secrets.read"})
ORG = frozenset(
    f"org.{name}"
    for name in ("read", "send", "approve", "write", "secrets", "tokens", "audit", "impersonate")
) | {"metrics.read"}
# What a role gives, said independently of the product.
GIVEN = {
    "viewer": frozenset({"org.read"}),
    "member": frozenset({"org.read", "org.send", "org.approve"}),
    "admin": ORG - {"org.impersonate"},
    "owner": ORG,
}
WISHES: st.SearchStrategy[tuple[str, ...]] = st.sampled_from(
    (
        (),
        ("org",),
        ("org.read", "org.tokens"),
        ("org.read", "org.write"),
        ("org.read", "org.write", "org.tokens", "org.impersonate"),
        ("org.secrets", "org.impersonate", "org.tokens"),
        ("workspace",),
        ("ws",),
        ("ws.secrets",),
        ("ws.send", "ws.manage"),
        ("ws.secrets.read",),
    )
)
# Tokens of the organisation that the owner hands out at first.
TOKENS = (
    ("org.read", "org.write"),
    ("org.read", "org.tokens"),
    ("org.read", "org.tokens", "org.impersonate"),
    ("org.read", "org.secrets", "org.write"),
)
PICK = st.integers(0, 30)


def leaves(scopes: frozenset[str]) -> frozenset[str]:
    """The single scopes that some scopes stand for."""
    umbrellas = {"workspace": OWN | KNOWS, "ws": OWN | KNOWS, "ws.secrets": KNOWS | {"ws.secrets.write"}}
    umbrellas |= {"org": ORG - {"metrics.read"}}
    return frozenset[str]().union(*(umbrellas.get(scope, frozenset({scope})) for scope in scopes))


def passes_on(held: frozenset[str]) -> frozenset[str]:
    """What may come of what somebody was given: acting as a workspace, knowing what it knows."""
    if "org.impersonate" not in held:
        return held
    return held | OWN | (KNOWS if "org.secrets" in held else frozenset[str]())


def hands_out(held: frozenset[str]) -> frozenset[str]:
    """What whoever creates a workspace may get of it."""
    if "org.write" not in held:
        return held
    return held | OWN | (KNOWS if "org.secrets" in held else frozenset[str]())


def claims(held: frozenset[str]) -> frozenset[str]:
    """What operators may get of a workspace that nobody has joined: its id, which they see, is the proof."""
    return held | OWN | KNOWS if "org.write" in held else held


@dataclass(frozen=True)
class Held:
    """A secret somebody got hold of, and the most that it may give them."""

    secret: str
    most: frozenset[str]
    user: str
    until: datetime | None = None
    # Tokens that somebody mints end with their power; what comes with a workspace is the agent's.
    is_minted: bool = False
    is_session: bool = False


class Clock:
    def __init__(self) -> None:
        self.at = START

    def now(self) -> datetime:
        return self.at


class Powers(RuleBasedStateMachine):
    """One organisation, whose people and tokens try to get at more than they were given."""

    def __init__(self, run: Run, storage: SqliteStorage) -> None:
        super().__init__()
        self.execute, self.storage, self.clock = run, storage, Clock()
        self.org = str(uuid4())
        self.identity = Identity(storage, Bells(MemoryBus()), self.clock, "the-administrator-s", self.org)
        self.login = Login(storage, self.clock, self.identity)
        self.people = PeopleService(storage, self.clock)
        self.tokens = Tokens(storage, self.clock)
        self.directory = Directory(storage, self.clock)
        nothing: Any = None
        self.creation = Creation(storage, self.clock, timedelta(hours=1), nothing, nothing, nothing)
        self.registration = Registration(
            storage, self.clock, ClaimRules(), nothing, self._unsigned, lambda text, _: text, 90
        )
        self.roles: dict[str, str] = {}
        self.held: list[Held] = []
        self.proofs: list[tuple[dict[str, Any], Held, str]] = []
        self.execute(storage.write(lambda tx: tx.people.insert_org(Org(self.org, self.org[:13], "", START))))
        for name, role in (("ann", "owner"), ("bert", "admin"), ("cleo", "member"), ("dora", "viewer")):
            self.sign_in(name, role)
        for wish in TOKENS:
            self.mint_org_token(0, wish, None)

    async def _unsigned(self, _workspace_id: str, _card: dict[str, Any]) -> str:
        return "unsigned"

    def sign_in(self, name: str, role: str) -> None:
        self.roles[name] = role
        code, _ = self.execute(self.login.new_code(name, role, self.org))
        session = self.execute(self.login.with_code(code)).token
        self.held.append(Held(session, passes_on(GIVEN[role]), name, is_session=True))

    # Who does it

    def scopes(self, held: Held) -> frozenset[str] | None:
        """What a secret gives now. To look at a token does not use it."""
        if held.is_session:
            principal = self.attempt(self.identity.authenticate(Presented(session=held.secret)))
            return None if principal is None else leaves(principal.scopes)
        digest, now = credentials.digest(held.secret), self.clock.now()
        token = self.execute(self.storage.read(lambda tx: tx.tokens.by_hash(digest)))
        ended = token.revoked_at is not None or (token.expires_at is not None and token.expires_at <= now)
        return None if ended else leaves(frozenset(token.scopes))

    def actor(self, pick: int, scope: str) -> tuple[Held, Principal] | None:
        """One of those who get past the door of a route."""
        able = [one for one in self.held if scope in (self.scopes(one) or ())]
        if not able:
            return None
        held = able[pick % len(able)]
        self.identity._tokens.clear()
        shown = Presented(session=held.secret) if held.is_session else Presented(bearer=held.secret)
        return held, self.execute(self.identity.authenticate(shown))

    def seen(self, principal: Principal, pick: int) -> Workspace | None:
        """A workspace whose id the principal knows: it is in its list."""
        rows = self.execute(self.directory.listing(principal, Asked())).rows
        if not rows:
            return None
        workspace_id = rows[pick % len(rows)]["id"]
        return self.execute(self.storage.read(lambda tx: tx.workspaces.get(workspace_id)))

    def attempt(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self.execute(work)
        except Refusal:
            return None

    def gained(self, secret: str, by: Held, most: frozenset[str], **more: Any) -> Held:
        """Somebody got a secret: it gives no more than they have, and whoever has it is given just that."""
        got = Held(secret, most, by.user, **more)
        scopes = self.scopes(got) or frozenset[str]()
        assert scopes <= most, (by.user, sorted(scopes - most))
        self.held.append(replace(got, most=passes_on(scopes)))
        return self.held[-1]

    # What they do

    @rule(pick=PICK)
    def create(self, pick: int) -> None:
        if (acting := self.actor(pick, "org.write")) is not None:
            held, principal = acting
            made = self.execute(self.creation.create(Plan("w", runtime="external"), principal))
            self.gained(made.auth_token, held, hands_out(held.most))

    @rule(pick=PICK, wish=WISHES, hours=st.none() | st.integers(1, 3))
    def mint_org_token(self, pick: int, wish: tuple[str, ...], hours: int | None) -> None:
        if (acting := self.actor(pick, "org.tokens")) is None:
            return
        held, principal = acting
        ends = None if hours is None else self.clock.now() + timedelta(hours=hours)
        minted = self.attempt(self.tokens.mint_for_org(principal, TokenWish("t", wish, ends)))
        if minted is not None:
            until = minted.token.expires_at
            self.gained(minted.secret, held, held.most, is_minted=True, until=until)
            assert held.until is None or (until is not None and until <= held.until)

    @rule(pick=PICK, which=PICK, wish=WISHES)
    def mint_workspace_token(self, pick: int, which: int, wish: tuple[str, ...]) -> None:
        if (acting := self.actor(pick, "org.tokens")) is None:
            return
        held, principal = acting
        if (workspace := self.seen(principal, which)) is not None:
            minted = self.attempt(self.tokens.mint_for_workspace(principal, workspace, TokenWish("t", wish)))
            if minted is not None:
                self.gained(minted.secret, held, held.most, is_minted=True)

    @rule(pick=PICK, wish=WISHES, rotates=st.booleans())
    def mint_of_its_own(self, pick: int, wish: tuple[str, ...], rotates: bool) -> None:
        if (acting := self.actor(pick, "ws.manage")) is None:
            return
        held, principal = acting
        own = principal.workspace_id or ""
        workspace = self.execute(self.storage.read(lambda tx: tx.workspaces.get(own)))
        if rotates:
            minted = self.attempt(self.tokens.rotate(principal, workspace, timedelta(0)))
        else:
            minted = self.attempt(self.tokens.mint_for_workspace(principal, workspace, TokenWish("t", wish)))
        if minted is not None:
            self.gained(minted.secret, held, held.most, is_minted=rotates and held.is_minted)

    @rule(pick=PICK, which=PICK, scope=st.sampled_from(("org.read", "ws.send")))
    def claim(self, pick: int, which: int, scope: str) -> None:
        if (acting := self.actor(pick, scope)) is None:
            return
        held, principal = acting
        if (workspace := self.seen(principal, which)) is not None:
            self.join({}, workspace.id, held, claims(held.most))

    @rule(pick=PICK, which=PICK)
    def issue(self, pick: int, which: int) -> None:
        if (acting := self.actor(pick, "org.tokens")) is None:
            return
        held, principal = acting
        if (workspace := self.seen(principal, which)) is not None:
            issued = self.attempt(self.tokens.new_enrolment(principal, workspace, timedelta(hours=1)))
            if issued is not None:
                self.proofs.append(({"enrolment_token": issued[0]}, held, workspace.id))

    @rule(pick=PICK)
    def prove(self, pick: int) -> None:
        if self.proofs:
            proof, held, workspace_id = self.proofs[pick % len(self.proofs)]
            self.join(proof, workspace_id, held, held.most)

    def join(self, proof: dict[str, Any], workspace_id: str, held: Held, most: frozenset[str]) -> None:
        application = Application(workspace_id, {"name": "w"}, **proof)
        came = self.attempt(self.registration.register(application, None))
        if came is not None and came.auth_token is not None:
            got = self.gained(came.auth_token, held, most)
            self.proofs.append(({"recovery_secret": came.recovery_secret}, got, workspace_id))

    @rule(name=st.sampled_from(("bert", "cleo", "dora")), role=st.none() | st.sampled_from(ROLES))
    def remove_or_change(self, name: str, role: str | None) -> None:
        acting = self.actor(0, "org.impersonate")
        assert acting is not None
        if name not in self.roles:
            self.sign_in(name, role or "viewer")
        elif role is None:
            self.execute(self.people.remove(acting[1], name, "r"))
            del self.roles[name]
        else:
            self.execute(self.people.change(acting[1], name, Change(role), "r"))
            self.sign_in(name, role)

    @rule(minutes=st.integers(1, 40))
    def wait(self, minutes: int) -> None:
        self.clock.at += timedelta(minutes=minutes)

    @invariant()
    def nobody_holds_more_than_they_were_given(self) -> None:
        for held in self.held:
            scopes = self.scopes(held) or frozenset[str]()
            assert scopes <= held.most, (held.user, sorted(scopes - held.most))
            if held.is_minted:
                role = self.roles.get(held.user)
                given = passes_on(GIVEN[role]) if role else frozenset[str]()
                assert scopes <= given, (held.user, role, sorted(scopes - given))


def test_no_order_of_mint_claim_enrol_and_remove_gives_a_scope_that_was_not_given(
    empty_database: Path, tmp_path: Path
) -> None:
    shutil.copy(empty_database, tmp_path / "molecule.db")
    bounded = settings(
        max_examples=20,
        stateful_step_count=20,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    with asyncio.Runner() as runner:
        storage = runner.run(SqliteStorage.open(tmp_path / "molecule.db", lambda _: None))
        try:
            machine: Any = functools.partial(Powers, runner.run, storage)
            run_state_machine_as_test(machine, settings=bounded)
        finally:
            runner.run(storage.close())
