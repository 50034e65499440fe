"""Any order of minting, claiming, enrolling, revoking and removing, by anyone: nobody gains a scope.

The whole platform in process, beside a model that knows of each secret what its holder was given. After every
step each secret must open exactly that.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from molecule_platform.app import resources
from molecule_platform.services.identity import authentication
from molecule_wire import times

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Answer, OpenHouse, Visitor

Run = Callable[[Coroutine[Any, Any, Any]], Any]
Scopes = frozenset[str]

# What the contract says of scopes, said independently of the product.
OWN: Scopes = frozenset(
    f"ws.{name}"
    for name in ("runtime", "inbox", "send", "memory", "secrets.write", "plugins", "manage", "events")
)
ALL_OWN = OWN | {"ws.secrets.read"}
ORG: Scopes = frozenset(
    f"org.{name}"
    for name in ("read", "send", "approve", "write", "secrets", "tokens", "audit", "impersonate")
)
ROLES: dict[str, Scopes] = {
    "viewer": frozenset({"org.read"}),
    "member": frozenset({"org.read", "org.send", "org.approve"}),
    "admin": (ORG - {"org.impersonate"}) | {"metrics.read"},
    "owner": frozenset({"org", "metrics.read"}),
}
DEFAULT_TOKEN: Scopes = frozenset({"org.read", "org.send", "org.write", "org.secrets", "org.approve"})
WORKSPACE: Scopes = frozenset({"workspace"})

# Those that decide about power; every subset of them is a principal.
DECIDING = ("org.read", "org.write", "org.secrets", "org.tokens", "org.impersonate")
SUBSETS = [
    frozenset(some) for size in range(1, len(DECIDING) + 1) for some in itertools.combinations(DECIDING, size)
]
ORG_WISHES = [frozenset[str](), frozenset({"org"}), frozenset({"ws.send"}), *SUBSETS]
OWN_WISHES = [
    frozenset[str](),
    *map(frozenset, (["workspace"], ["ws"], ["ws.secrets"], ["ws.send", "ws.manage"])),
    *map(frozenset, (["ws.secrets.read"], ["ws.inbox"], ["ws.manage", "ws.secrets.read"], ["org.read"])),
]
PEOPLE = {"bert": "owner", "cleo": "admin", "dora": "viewer"}
MAX_PLACES = 4
CHANCE = st.integers(0, 2**32)
CHANGES = ("removed", "disabled", *ROLES)
# How often each is tried.
ACTIONS = {
    "create": 2,
    "remove_workspace": 1,
    "act_as": 3,
    "mint_org_token": 3,
    "mint_workspace_token": 3,
    "mint_of_its_own": 3,
    "rotate": 2,
    "revoke": 2,
    "exchange": 2,
    "claim": 3,
    "issue": 2,
    "prove": 3,
    "use": 2,
    "change": 4,
    "promote": 2,
    "invite": 1,
    "wait": 2,
}
# Never a number of minutes that adds up to an hour with others: what ends, ended clearly before or after.
MINUTES = (7, 23, 61)
WINDOW = timedelta(hours=1)


def single(scopes: Iterable[str]) -> Scopes:
    """The single scopes that some scopes stand for."""
    umbrellas = {"workspace": ALL_OWN, "ws": ALL_OWN, "org": ORG}
    umbrellas["ws.secrets"] = frozenset({"ws.secrets.read", "ws.secrets.write"})
    return frozenset[str]().union(*(umbrellas.get(scope, {scope}) for scope in scopes))


def covers(held: Scopes, wanted: Iterable[str]) -> bool:
    """Whether each of the scopes is held, by itself or by an umbrella."""
    return all(
        scope in held
        or any(scope.startswith(f"{one}.") for one in held)
        or ("workspace" in held and scope.startswith("ws"))
        for scope in wanted
    )


def hands_out(held: Scopes) -> Scopes:
    """The scopes of the token that comes with a workspace."""
    return WORKSPACE if covers(held, ["org.secrets"]) else OWN


def grantable(held: Scopes) -> Scopes:
    """The scopes of a workspace that a person or a token of the organisation passes on."""
    return hands_out(held) if covers(held, ["org.impersonate"]) else frozenset()


def within_reach(held: Scopes) -> Scopes:
    """All that somebody may get hold of: what they hold, and what an operator gets of workspaces."""
    gets = covers(held, ["org.impersonate"]) or covers(held, ["org.write"])
    return single(held | hands_out(held)) if gets else single(held)


@dataclass
class Place:
    """A workspace as the model knows it."""

    id: str
    reads_secrets: bool
    claim_until: datetime | None
    claimed: bool = False
    removed: bool = False

    def can_be_claimed(self, now: datetime) -> bool:
        is_open = self.claim_until is not None and self.claim_until > now
        return is_open and not self.claimed and not self.removed


@dataclass(eq=False)
class Credential:
    """A secret that somebody holds, with what it was given and what ends it."""

    secret: str
    scopes: Scopes
    # Of a workspace, of a session (then the token against forgery), or of the organisation.
    place: Place | None = None
    csrf: str = ""
    id: str = ""
    until: datetime | None = None
    # The person whose leaving ends it; nobody's leaving ends what is the agent's own.
    person: str = ""
    # The token that a session was exchanged for.
    origin: Credential | None = None
    is_ended: bool = False
    # What it was when it was last looked at.
    was_good: bool | None = None

    def __str__(self) -> str:
        kind = "session" if self.csrf else "token"
        whose = self.person or ("agent" if self.origin is None else "exchanged")
        return f"{kind} {self.secret[-6:]} of {whose} with {','.join(sorted(self.scopes))}"

    def is_good(self, now: datetime) -> bool:
        if self.is_ended or (self.until is not None and self.until <= now):
            return False
        if self.place is not None and self.place.removed:
            return False
        return self.origin is None or self.origin.is_good(now)


@dataclass(eq=False)
class Proof:
    """An enrolment token, or the recovery secret of a token: it lets an agent in once."""

    kind: str
    secret: str
    place: Place
    scopes: Scopes
    holder: Credential
    until: datetime | None
    token_until: datetime | None
    person: str = ""
    lost: Credential | None = None
    is_ended: bool = False

    def is_good(self, now: datetime) -> bool:
        if self.is_ended or self.place.removed or (self.until is not None and self.until <= now):
            return False
        return self.lost is None or self.lost.is_good(now)


@dataclass
class ShiftedClock:
    """The time, and how much later it is here."""

    ahead: timedelta = timedelta()

    def now(self) -> datetime:
        moment = datetime.now(UTC) + self.ahead
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead.total_seconds()


@dataclass
class Organisation:
    """What the model knows of an organisation."""

    roles: dict[str, str] = field(default_factory=dict[str, str])
    places: list[Place] = field(default_factory=list[Place])
    credentials: list[Credential] = field(default_factory=list[Credential])
    proofs: list[Proof] = field(default_factory=list[Proof])


class Powers(RuleBasedStateMachine):
    """One organisation, whose people, tokens and agents try to get at more than they were given."""

    def __init__(self, run: Run, platform: Visitor, clock: ShiftedClock) -> None:
        super().__init__()
        self.run, self.clock = run, clock
        slug = f"org-{uuid4()}"
        assert run(platform("POST", "/orgs", {"name": slug, "slug": slug})).status == 201
        self.visit = type(platform)(platform.platform, slug)
        self.model = Organisation()
        self.turn = 0
        self.admin("POST", "/settings/secrets", {"key": "ORG", "value": slug})
        self.secrets = {"ORG": slug}
        self.host = self.new_place(claimable=False)
        # An organisation keeps its last owner: one who does nothing, so that all others may leave.
        self.admin("POST", "/auth/login-codes", {"user": "ann", "role": "owner"})
        for name, role in PEOPLE.items():
            self.sign_in(name, role)

    @initialize(chance=CHANCE)
    def begin(self, chance: int) -> None:
        """Tokens of one who may leave later, and a workspace that nobody has joined."""
        bert, by_chance = self.model.credentials[0], Random(chance)
        minters = [one for one in SUBSETS if one >= {"org.tokens", "org.impersonate"}]
        operators = [one for one in SUBSETS if one >= {"org.read", "org.write"}]
        for some, hours in ((SUBSETS, None), (minters, by_chance.choice((None, 3))), (operators, None)):
            self.mint_for_org(bert, by_chance.choice(some), hours)
        self.issue_for(bert, self.new_place(claimable=True, by=bert))

    @rule(chance=CHANCE)
    def act(self, chance: int) -> None:
        """One of them does something.

        Hypothesis gives the chance alone: of many rules it leaves some out, and of many values it prefers
        the smallest, which is something else in each step.
        """
        by_chance = Random(f"{chance} {self.turn}")
        [action] = by_chance.choices(list(ACTIONS), list(ACTIONS.values()))
        note(f"— {action}")
        getattr(self, action)(by_chance)

    # How they speak to the platform

    def admin(self, method: str, path: str, body: Any = None) -> Answer:
        """The administrator of the platform, who keeps the organisation going."""
        answer = self.run(self.visit(method, path, body))
        assert answer.status < 300, answer.raw
        return answer

    def call(self, by: Credential | None, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return self.run(self.ask(by, method, path, body, **headers))

    async def ask(
        self, by: Credential | None, method: str, path: str, body: Any = None, **headers: str
    ) -> Answer:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        token = None
        if by is not None and by.csrf:
            # A browser on our own page.
            sent |= {"cookie": by.secret, "x-csrf-token": by.csrf, "origin": "http://platform"}
        elif by is not None:
            token = by.secret
        answer = await self.visit(method, path, body, token=token, headers=sent)
        if method != "GET":
            note(f"{by}: {method} {path} {body} → {answer.status}")
        if by is not None and by.place is not None and by.is_good(self.clock.now()):
            # Whoever uses a token of a workspace has it.
            by.place.claimed = True
        return answer

    def expect(self, answer: Answer, allowed: bool, what: object) -> bool:
        """Whether something was done: exactly when the model allows it."""
        assert (answer.status < 300) is allowed, (what, allowed, answer.status, answer.raw[:300])
        assert allowed or answer.status in (400, 401, 403, 404, 410), (what, answer.raw[:300])
        return allowed

    # What the model knows

    def may(self, by: Credential, *scopes: str) -> bool:
        return by.is_good(self.clock.now()) and covers(by.scopes, scopes)

    def sees(self, by: Credential, place: Place) -> bool:
        """Whether the workspace exists for somebody of its organisation."""
        if not place.can_be_claimed(self.clock.now()) or by.place is place:
            return True
        needed = ("org.write", "org.secrets") if place.reads_secrets else ("org.write",)
        return by.place is None and covers(by.scopes, needed)

    def actor(self, by_chance: Random, *scopes: str, of_workspace: bool = False) -> Credential:
        """Mostly somebody who may do it, often who came last; sometimes anybody, even one of the past."""
        anybody = [one for one in self.model.credentials if (one.place is not None) is of_workspace]
        able = [one for one in anybody if self.may(one, *scopes)] if by_chance.random() < 0.85 else []
        chosen = able or anybody or self.model.credentials
        return by_chance.choice(chosen[-4:] if by_chance.random() < 0.5 else chosen)

    def place(self, by_chance: Random, by: Credential) -> Place:
        """A workspace whose id somebody can know, often one that can be claimed, perhaps one that is gone."""
        known = [one for one in self.model.places if self.sees(by, one)]
        still_open = [one for one in known if one.can_be_claimed(self.clock.now())]
        return by_chance.choice(still_open if still_open and by_chance.random() < 0.5 else known)

    def gain(self, by: Credential, got: Credential) -> Credential:
        """Somebody got hold of a secret. The theorem: it gives nothing that was not within their reach."""
        above = single(got.scopes) - within_reach(by.scopes)
        assert not above, ("the rules themselves give more than was given", sorted(by.scopes), sorted(above))
        self.model.credentials.append(got)
        return got

    def root(self, by: Credential) -> str:
        """The person whose leaving ends what is minted with a credential."""
        return by.person if by.origin is None else by.origin.person

    def until(self, by: Credential) -> datetime | None:
        return by.until if by.origin is None else by.origin.until

    # People

    def sign_in(self, name: str, role: str) -> None:
        """Somebody joins, or comes again, invited by the administrator."""
        self.model.roles.setdefault(name, role)
        code = self.admin("POST", "/auth/login-codes", {"user": name, "role": role}).json["code"]
        self.enter(name, code)

    def enter(self, name: str, code: str) -> None:
        session = self.session({"code": code})
        session.person, session.scopes = name, ROLES[self.model.roles[name]]
        self.model.credentials.append(session)

    def session(self, body: dict[str, str]) -> Credential:
        answer = self.run(self.visit("POST", "/auth/login", body, token=None))
        assert answer.status == 200, answer.raw
        cookie = answer.headers["set-cookie"].partition(";")[0]
        return Credential(cookie, frozenset(), csrf=answer.json["csrf_token"])

    def invite(self, by_chance: Random) -> None:
        name, role = by_chance.choice(("bert", "cleo", "eve")), by_chance.choice(list(ROLES))
        by = self.actor(by_chance, "org.tokens")
        answer = self.call(by, "POST", "/auth/login-codes", {"user": name, "role": role})
        # Who is a member already keeps the role.
        becomes = ROLES[self.model.roles.get(name, role)]
        allowed = self.may(by, "org.tokens") and covers(by.scopes, becomes)
        if self.expect(answer, allowed, ("invite", name, role)):
            self.model.roles.setdefault(name, role)
            assert single(becomes) <= single(by.scopes)
            self.enter(name, answer.json["code"])

    def change(self, by_chance: Random) -> None:
        """Somebody gets another role, is shut out or leaves; or comes again."""
        name, to = by_chance.choice(("bert", "bert", "cleo", "dora")), by_chance.choice(CHANGES)
        if name not in self.model.roles:
            self.sign_in(name, to if to in ROLES else "viewer")
            return
        self.change_to(self.actor(by_chance, "org", "metrics.read"), name, to)

    def promote(self, by_chance: Random) -> None:
        """Somebody who may decide over a person makes the most of them."""
        if not self.model.roles:
            return
        name = by_chance.choice(list(self.model.roles))
        by = self.actor(by_chance, "org.tokens", *ROLES[self.model.roles[name]])
        self.change_to(by, name, by_chance.choice(("admin", "owner")))

    def change_to(self, by: Credential, name: str, to: str) -> None:
        known = ROLES[self.model.roles[name]] | ROLES.get(to, frozenset())
        body = {"role": to} if to in ROLES else {"disabled": True}
        if to == "removed":
            answer = self.call(by, "DELETE", f"/users/{name}")
        else:
            answer = self.call(by, "PATCH", f"/users/{name}", body)
        allowed = self.may(by, "org.tokens") and covers(by.scopes, known)
        if not self.expect(answer, allowed, ("change", name, to)) or to == self.model.roles[name]:
            return
        self.lose(name, to)
        if to == "disabled":
            self.run(self.try_out(self.model.credentials))
            self.admin("DELETE", f"/users/{name}")

    def lose(self, name: str, becomes: str) -> None:
        """Somebody is no more what they were: their sessions end, and what they could not mint now."""
        del self.model.roles[name]
        if becomes in ROLES:
            self.model.roles[name] = becomes
        held = ROLES.get(becomes, frozenset())
        for one in self.model.credentials:
            if one.person == name:
                kept = held if one.place is None else grantable(held)
                one.is_ended |= bool(one.csrf and one.origin is None) or not covers(kept, one.scopes)
        for proof in self.model.proofs:
            proof.is_ended |= proof.person == name and not covers(grantable(held), proof.scopes)

    # Workspaces

    def new_place(self, *, claimable: bool, by: Credential | None = None) -> Place:
        body = {"name": "w", "runtime": "external", "claimable": claimable}
        answer = (
            self.admin("POST", "/workspaces", body)
            if by is None
            else self.call(by, "POST", "/workspaces", body)
        )
        if by is not None and not self.expect(answer, self.may(by, "org.write"), "create"):
            return self.host
        until = self.clock.now() + WINDOW if claimable else None
        held = frozenset({"org"}) if by is None else by.scopes
        made = Place(answer.json["id"], covers(held, ["org.secrets"]), until)
        self.model.places.append(made)
        self.admin("POST", f"/workspaces/{made.id}/secrets", {"key": "OWN", "value": made.id})
        if by is not None:
            token = answer.json["connection"]["auth_token"]
            self.gain(by, Credential(token, hands_out(held), made))
        return made

    def create(self, by_chance: Random) -> None:
        if len(self.model.places) < MAX_PLACES:
            self.new_place(
                claimable=by_chance.random() < 0.7,
                by=self.actor(by_chance, "org.write"),
            )

    def remove_workspace(self, by_chance: Random) -> None:
        by = self.actor(by_chance, "org.write")
        place = self.place(by_chance, by)
        if place is self.host or place.removed:
            return
        answer = self.call(by, "DELETE", f"/workspaces/{place.id}?confirm=true")
        if self.expect(answer, self.may(by, "org.write"), "remove"):
            place.removed = True

    def act_as(self, by_chance: Random) -> None:
        # Half of them see what can be claimed.
        needed = ("org.impersonate", *by_chance.choice(((), ("org.write", "org.secrets"))))
        by, now = self.actor(by_chance, *needed), self.clock.now()
        unjoined = [one for one in self.model.places if one.can_be_claimed(now) and self.sees(by, one)]
        place = unjoined[-1] if unjoined else self.place(by_chance, by)
        allowed = self.may(by, "org.impersonate") and not place.removed
        answer = self.call(by, "GET", f"/workspaces/{place.id}/inbox", x_workspace_id=place.id)
        if self.expect(answer, allowed, "act as"):
            # From then on others may know its id, so that it proves nothing.
            place.claim_until = None
            self.claim_openly(by, place)
        values = self.call(by, "GET", f"/workspaces/{place.id}/secrets/values", x_workspace_id=place.id)
        assert values.status in (401, 403, 410), (sorted(by.scopes), values.raw)

    # Tokens

    def mint_org_token(self, by_chance: Random) -> None:
        hours = by_chance.choice((None, None, 1, 3))
        self.mint_for_org(self.actor(by_chance, "org.tokens"), by_chance.choice(ORG_WISHES), hours)

    def mint_for_org(self, by: Credential, wish: Scopes, hours: int | None) -> None:
        body: dict[str, Any] = {"scopes": sorted(wish)} | ({"ttl_seconds": hours * 3600} if hours else {})
        until, asked = self.until(by), None if hours is None else self.clock.now() + timedelta(hours=hours)
        wanted = wish or DEFAULT_TOKEN
        outlives = until is not None and asked is not None and asked > until
        allowed = self.may(by, "org.tokens") and covers(by.scopes, wanted) and not outlives
        answer = self.call(by, "POST", "/org/tokens", body)
        if self.expect(answer, allowed, ("mint", sorted(by.scopes), sorted(wanted))):
            minted = Credential(answer.json["auth_token"], wanted, id=answer.json["id"], person=self.root(by))
            minted.until = ends(answer, asked or until)
            self.gain(by, minted)

    def mint_workspace_token(self, by_chance: Random) -> None:
        by = self.actor(by_chance, "org.tokens", "org.impersonate")
        place, enters = self.place(by_chance, by), self.may(by, "org.tokens")
        self.mint(by, place, grantable(by.scopes), enters, by_chance.choice(OWN_WISHES))

    def mint_of_its_own(self, by_chance: Random) -> None:
        by = self.actor(by_chance, "ws.manage", of_workspace=True)
        if by.place is not None:
            self.mint(by, by.place, by.scopes, self.may(by, "ws.manage"), by_chance.choice(OWN_WISHES))

    def mint(self, by: Credential, place: Place, held: Scopes, enters: bool, wish: Scopes) -> None:
        wanted = wish or held
        is_one = all(scope == "workspace" or scope.startswith("ws") for scope in wanted)
        allowed = enters and not place.removed and bool(held) and is_one and covers(held, wanted)
        answer = self.call(by, "POST", f"/workspaces/{place.id}/tokens", {"scopes": sorted(wish)})
        if self.expect(answer, allowed, ("mint", sorted(by.scopes), sorted(wanted))):
            secret, token_id = answer.json["auth_token"], answer.json["id"]
            got = Credential(secret, wanted, place, id=token_id, person=self.root(by))
            got.until = ends(answer, self.until(by))
            self.gain(by, got)

    def rotate(self, by_chance: Random) -> None:
        by = self.actor(by_chance, of_workspace=True)
        if by.place is None:
            return
        allowed = self.may(by)
        answer = self.call(by, "POST", f"/workspaces/{by.place.id}/tokens/rotate", {"overlap_seconds": 0})
        if self.expect(answer, allowed, "rotate"):
            secret, token_id = answer.json["auth_token"], answer.json["id"]
            self.gain(
                by, Credential(secret, by.scopes, by.place, id=token_id, until=by.until, person=by.person)
            )
            by.is_ended = True

    def revoke(self, by_chance: Random) -> None:
        itself = by_chance.random() < 0.5
        tokens = [one for one in self.model.credentials if not one.csrf and one.is_good(self.clock.now())]
        if not tokens:
            return
        token = by_chance.choice(tokens)
        place, path = token.place, f"/org/tokens/{self.id_of(token)}"
        by = self.actor(by_chance, "org.tokens")
        allowed = self.may(by, "org.tokens")
        if place is not None:
            path = f"/workspaces/{place.id}/tokens/{self.id_of(token)}"
            allowed = allowed and self.sees(by, place)
        if place is not None and itself:
            by, allowed = token, self.may(token, "ws.manage")
        if self.expect(self.call(by, "DELETE", path), allowed, ("revoke", path)):
            token.is_ended = True

    def id_of(self, token: Credential) -> str:
        if token.place is not None and not token.id:
            listed = self.admin("GET", f"/workspaces/{token.place.id}/tokens").json["tokens"]
            [token.id] = [row["id"] for row in listed if token.secret.startswith(row["prefix"])]
        return token.id

    def exchange(self, by_chance: Random) -> None:
        by = self.actor(by_chance)
        if by.csrf or by.place is not None or not by.is_good(self.clock.now()):
            return
        session = self.session({"token": by.secret})
        session.scopes, session.origin = by.scopes, by
        self.gain(by, session)

    def use(self, by_chance: Random) -> None:
        """An agent uses its token for the first time, perhaps."""
        self.run(self.identify(self.actor(by_chance, of_workspace=True)))

    # Joining

    def claim(self, by_chance: Random) -> None:
        """Somebody registers, without a credential, a workspace whose id they see."""
        of_workspace = by_chance.random() < 0.25
        needed = (
            ("ws.send",) if of_workspace else by_chance.choice((("org.read",), ("org.write", "org.secrets")))
        )
        by = self.actor(by_chance, *needed, of_workspace=of_workspace)
        if not self.may(by):
            return
        self.claim_openly(by, self.place(by_chance, by))

    def claim_openly(self, by: Credential, place: Place) -> None:
        is_open = place.can_be_claimed(self.clock.now())
        answer = self.call(None, "POST", "/registry/register", card(place))
        self.expect(answer, not place.removed and (place.claimed or is_open), "claim")
        assert ("auth_token" in answer.json) is is_open, answer.raw
        if is_open:
            self.end_tokens(place)
            ended = [proof for proof in self.model.proofs if proof.place is place]
            self.join(by, answer, place, WORKSPACE if place.reads_secrets else OWN, None)
            for proof in ended:
                self.try_proof(proof)

    def issue(self, by_chance: Random) -> None:
        by = self.actor(by_chance, "org.tokens", "org.impersonate")
        self.issue_for(by, self.place(by_chance, by))

    def issue_for(self, by: Credential, place: Place) -> None:
        allowed = self.may(by, "org.tokens", "org.impersonate") and not place.removed
        answer = self.call(by, "POST", f"/workspaces/{place.id}/enrolment-tokens", {"ttl_seconds": 3600})
        if self.expect(answer, allowed, ("issue", sorted(by.scopes))):
            until, ends = self.until(by), self.clock.now() + WINDOW
            ends = ends if until is None else min(ends, until)
            secret, scopes = answer.json["enrolment_token"], grantable(by.scopes)
            proof = Proof("enrolment_token", secret, place, scopes, by, ends, until, self.root(by))
            self.model.proofs.append(proof)

    def prove(self, by_chance: Random) -> None:
        """An agent joins by an enrolment token or a recovery secret, a spent one perhaps."""
        if not self.model.proofs:
            self.issue(by_chance)
            return
        proof = by_chance.choice(self.model.proofs[-4:])
        self.try_proof(proof)

    def try_proof(self, proof: Proof) -> None:
        allowed = proof.is_good(self.clock.now())
        answer = self.call(None, "POST", "/registry/register", card(proof.place) | {proof.kind: proof.secret})
        if self.expect(answer, allowed, proof.kind):
            proof.is_ended = True
            if proof.lost is not None:
                proof.lost.is_ended = True
            self.join(proof.holder, answer, proof.place, proof.scopes, proof.token_until)

    def join(
        self, by: Credential, answer: Answer, place: Place, scopes: Scopes, until: datetime | None
    ) -> None:
        place.claimed = True
        got = self.gain(by, Credential(answer.json["auth_token"], scopes, place, until=until))
        secret = answer.json["recovery_secret"]
        self.model.proofs.append(Proof("recovery_secret", secret, place, scopes, got, None, until, lost=got))

    def end_tokens(self, place: Place) -> None:
        """Every other way into a workspace ends with a claim."""
        for one in (*self.model.credentials, *self.model.proofs):
            one.is_ended |= one.place is place

    def wait(self, by_chance: Random) -> None:
        self.clock.ahead += timedelta(minutes=by_chance.choice(MINUTES))

    # What each secret opens

    @invariant()
    def every_credential_gives_what_it_was_given(self) -> None:
        """What is new, what has just ended, and a few others in turn; of one of them, all that it opens."""
        self.turn += 1
        held, now = self.model.credentials, self.clock.now()
        turns = [held[self.turn % len(held)], held[-1]]
        changed = [one for one in held if one.is_good(now) is not one.was_good]
        wholly = turns[self.turn // 2 % 2 :][:1] if self.turn % 2 else []
        self.run(self.try_out([*changed, *turns], *wholly))

    def teardown(self) -> None:
        """All that each one opens; then what is open is claimed, all proofs are tried, and everybody goes."""
        everyone = self.model.credentials
        self.run(self.try_out([], *(one for one in everyone if one.is_good(self.clock.now()))))
        for place in self.model.places:
            self.claim_openly(everyone[0], place)
        for proof in list(self.model.proofs):
            self.try_proof(proof)
        self.run(self.try_out(everyone))
        for name in list(self.model.roles):
            self.admin("DELETE", f"/users/{name}")
            self.lose(name, "removed")
            self.run(self.try_out(everyone))
        for place in self.model.places:
            if not place.removed:
                self.admin("DELETE", f"/workspaces/{place.id}?confirm=true")
                place.removed = True
        self.run(self.try_out(everyone))

    async def try_out(self, held: list[Credential], *wholly: Credential) -> None:
        for one in filter(self.is_used, held):
            await self.identify(one)
            one.was_good = one.is_good(self.clock.now())
        living = [place for place in self.model.places if not place.removed]
        for one in filter(self.is_used, wholly):
            if one.place is None:
                await self.try_in_org(one, living)
            else:
                await self.try_as_agent(one, one.place, living)
            seen = {place.id for place in living if self.sees(one, place)}
            rows = await self.opens(one, "/workspaces", one.place is not None or self.may(one, "org.read"))
            assert rows is None or {row["id"] for row in rows} == seen, (sorted(one.scopes), rows)

    def is_used(self, one: Credential) -> bool:
        """To look at the token of a workspace that can be claimed would be to use it."""
        return one.place is None or not one.place.can_be_claimed(self.clock.now())

    async def identify(self, one: Credential) -> None:
        answer, good = await self.ask(one, "GET", "/auth/session"), one.is_good(self.clock.now())
        assert answer.status == (200 if good else 401), (good, str(one), answer.raw)
        assert not good or set(answer.json["scopes"]) == one.scopes, (sorted(one.scopes), answer.raw)

    async def opens(self, one: Credential, path: str, allowed: bool, **headers: str) -> Any:
        """What it reads at a path, if it may."""
        answer = await self.ask(one, "GET", path, **headers)
        good = one.is_good(self.clock.now())
        expected = (200,) if good and allowed else (403, 404) if good else (401, 410)
        assert answer.status in expected, (str(one), path, answer.status, answer.raw[:300])
        return answer.json if answer.status == 200 else None

    async def try_in_org(self, one: Credential, living: list[Place]) -> None:
        for place in living[-3:]:
            sees = self.sees(one, place)
            await self.opens(one, f"/workspaces/{place.id}", sees and self.may(one, "org.read"))
            await self.opens(one, f"/workspaces/{place.id}/secrets", sees and self.may(one, "org.secrets"))
            await self.opens(one, f"/workspaces/{place.id}/secrets/values", False)
        await self.opens(one, "/org/tokens", self.may(one, "org.tokens"))
        await self.opens(one, "/access/grants", self.may(one, "org.write"))
        await self.opens(one, f"/workspaces/{self.host.id}/activity", self.may(one, "org.read"))
        acts = self.may(one, "org.impersonate")
        await self.opens(one, f"/workspaces/{self.host.id}/inbox", acts, x_workspace_id=self.host.id)

    async def try_as_agent(self, one: Credential, own: Place, living: list[Place]) -> None:
        at = f"/workspaces/{own.id}"
        values = await self.opens(one, f"{at}/secrets/values", self.may(one, "ws.secrets.read"))
        assert values is None or values == self.secrets | {"OWN": own.id}
        await self.opens(one, f"{at}/inbox", self.may(one, "ws.inbox"))
        await self.opens(one, f"{at}/tokens", self.may(one, "ws.manage"))
        await self.opens(one, "/org/tokens", False)
        for other in living[-2:]:
            if other is not own:
                await self.opens(one, f"/workspaces/{other.id}/secrets/values", False)


def ends(answer: Answer, expected: datetime | None) -> datetime | None:
    """When the platform says that a token ends, which is when it was to end."""
    if expected is None:
        assert answer.json["expires_at"] is None
        return None
    said = times.parse_time(answer.json["expires_at"])
    assert abs(said - expected) < timedelta(seconds=30), (said, expected)
    return said


def card(place: Place) -> dict[str, Any]:
    """What an agent says when it registers."""
    return {"id": place.id, "agent_card": {"name": "w"}}


@pytest.mark.slow  # forty organisations of 25 steps each, with thousands of looks at what each secret opens
def test_no_order_of_mint_claim_enrol_and_remove_gives_a_scope_that_was_not_given(
    open_house: OpenHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ShiftedClock()
    monkeypatch.setattr(resources, "SystemClock", lambda: clock)
    monkeypatch.setattr(authentication, "time", clock)
    bounded = settings(
        max_examples=40,
        stateful_step_count=25,
        deadline=None,
        # A run is at most 25 steps, which can be read; making it shorter takes minutes.
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    with asyncio.Runner() as runner:
        platform = runner.run(open_house())
        try:
            machine: Any = functools.partial(Powers, runner.run, platform, clock)
            run_state_machine_as_test(machine, settings=bounded)
        finally:
            runner.run(platform.platform.close())
