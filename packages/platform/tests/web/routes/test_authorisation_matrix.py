"""Every route of the OpenAPI document × every kind of principal: let in is exactly who the document says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from molecule_platform.domain.principals import IMPERSONATED_SCOPES, KNOWN_SCOPES
from molecule_platform.web.pipeline import openapi
from molecule_platform.web.pipeline.route_table import TABLE
from tests.rows import each_row

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Answer, Visitor

DOCUMENT = openapi.document(TABLE, "0")
OPERATIONS = [
    (method.upper(), path)
    for path, methods in DOCUMENT["paths"].items()
    for method in methods
    if path != "/ws"
]
WORKSPACE_SCOPES = sorted({*IMPERSONATED_SCOPES, "ws.secrets.read"})
ORG_SCOPES = sorted(scope for scope in KNOWN_SCOPES if scope.startswith("org.") or scope == "metrics.read")
RULE = re.compile(r"(\w+)(?:\((.*)\))?")
NOT_LET_IN = {"scope-required", "forbidden", "hierarchy-denied", "identity-mismatch"}


@dataclass(frozen=True)
class Kind:
    """A kind of principal: its relation to the workspace of the path, and its scopes."""

    name: str
    relation: str
    scopes: frozenset[str]

    def __str__(self) -> str:
        return self.name


KINDS = [
    Kind("nobody", "nobody", frozenset()),
    Kind("self", "self", frozenset({"workspace"})),
    *(Kind(f"self with {scope}", "self", frozenset({scope})) for scope in WORKSPACE_SCOPES),
    Kind("peer", "peer", frozenset({"workspace"})),
    Kind("stranger", "stranger", frozenset({"workspace"})),
    Kind("foreign workspace", "foreign-workspace", frozenset({"workspace"})),
    *(Kind(f"org token with {scope}", "org", frozenset({scope})) for scope in ORG_SCOPES),
    Kind("org token that mints", "org", frozenset({"org.tokens", "org.impersonate"})),
    Kind("foreign org token", "foreign-org", frozenset({"org"})),
    Kind("administrator", "org", frozenset({"admin"})),
]


def implied(scopes: frozenset[str], wanted: str) -> bool:
    """Whether scopes are enough, said independently of the product."""
    umbrella = wanted.split(".", maxsplit=1)[0]
    if wanted in scopes or umbrella in scopes:
        return True
    if umbrella == "ws":
        return "workspace" in scopes
    return "admin" in scopes


def is_let_in(kind: Kind, rules: list[str], names_a_workspace: bool) -> bool:
    """What the document says."""
    for rule in rules:
        match = RULE.fullmatch(rule)
        assert match, rule
        who, scope = match[1], match[2] or ""
        if who == "public":
            return True
        if kind.relation == "nobody":
            continue
        foreign = kind.relation.startswith("foreign") and names_a_workspace
        fits = {
            "any": not foreign,
            "self": kind.relation == "self",
            "peer": kind.relation == "peer",
            "workspace": kind.relation in ("self", "peer", "stranger", "foreign-workspace") and not foreign,
            "org": kind.relation == "org" or (kind.relation == "foreign-org" and not names_a_workspace),
        }[who]
        if fits and (not scope or implied(kind.scopes, scope)):
            return True
    return False


class World:
    """A target in a team, its sibling, a stranger in another team, and another organisation."""

    def __init__(self, visit: Visitor) -> None:
        self.visit = visit
        self.tokens: dict[str, str | None] = {"nobody": None}

    async def build(self) -> None:
        team, _ = await self.visit.workspace("team")
        other_team, _ = await self.visit.workspace("other team")
        self.team = team
        _, self.tokens["peer"] = await self.visit.workspace("peer", parent_id=team)
        _, self.tokens["stranger"] = await self.visit.workspace("stranger", parent_id=other_team)
        elsewhere = await self.visit("POST", "/orgs", {"name": f"Elsewhere {uuid4()}"})
        there = {"x-molecule-org-id": elsewhere.json["slug"]}
        foreign = await self.visit("POST", "/workspaces", {"name": "far", "external": True}, headers=there)
        self.tokens["foreign-workspace"] = foreign.json["connection"]["auth_token"]
        minted = await self.visit("POST", "/org/tokens", {"scopes": ["org"]}, headers=there)
        self.tokens["foreign-org"] = minted.json["auth_token"]
        self.unchanged = await self.target()

    async def token(self, kind: Kind, target: str) -> str | None:
        if kind.name == "administrator":
            return "the-administrator-s-token"
        if kind.relation in self.tokens:
            return self.tokens[kind.relation]
        path = "/org/tokens" if kind.relation == "org" else f"/workspaces/{target}/tokens"
        key = kind.name if kind.relation == "org" else f"{kind.name} of {target}"
        if key not in self.tokens:
            minted = await self.visit("POST", path, {"scopes": sorted(kind.scopes)})
            assert minted.status < 300, minted.raw
            self.tokens[key] = minted.json["auth_token"]
        return self.tokens[key]

    async def target(self) -> str:
        workspace_id, token = await self.visit.workspace("target", parent_id=self.team)
        body = {"id": workspace_id, "agent_card": {"name": "target"}}
        assert (await self.visit("POST", "/registry/register", body, token=token)).status == 200
        return workspace_id


def filled(path: str, target: str) -> str:
    return re.sub(r"\{\w+\}", "name", path.replace("{id}", target))


def body_of(path: str, target: str) -> dict[str, Any]:
    """What a route needs to know whom it is about."""
    if path == "/registry/check-access":
        return {"caller_id": target, "target_id": target}
    if path.startswith("/registry/"):
        return {"id": target, "workspace_id": target, "agent_card": {"name": "target"}}
    if path.endswith("/tokens"):
        # Nobody grants more than they hold: ask for the scope that minting itself needs.
        return {"scopes": ["org.tokens" if path == "/org/tokens" else "ws.manage"]}
    message: dict[str, Any] = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
    if path in ("/agents/{id}", "/workspaces/{id}/a2a"):
        return {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    if path.endswith("/pushNotificationConfigs"):
        url = {"url": "https://hooks.example/a"}
        return {**url, "config": {"pushNotificationConfig": url}}
    if path.endswith(":send"):
        return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
    return {}


def headers_of(path: str) -> dict[str, str]:
    """Nobody waits; and paths of A2A 1.0 want to be told so."""
    modern = path.startswith("/agents/{id}/") and not path.startswith(
        ("/agents/{id}/v1", "/agents/{id}/.well")
    )
    return {"prefer": "wait=0", **({"a2a-version": "1.0"} if modern else {})}


def was_let_in(answer: Answer) -> bool:
    """Whether an answer comes from behind the door: a bad request or an unknown name does."""
    if answer.status == 401:
        return False
    if answer.status in (403, 404) and answer.raw.startswith(b"{"):
        return answer.code not in NOT_LET_IN | {"workspace-not-found"}
    return True


MINTING = {("POST", "/workspaces/{id}/tokens"), ("POST", "/workspaces/{id}/enrolment-tokens")}


def expectation(kind: Kind, method: str, path: str, rules: list[str], names_a_workspace: bool) -> bool:
    """What the document says; the two routes that ask about a pair say in words who may ask about which."""
    if path == "/registry/register" and kind.relation != "nobody":
        # Without a credential it is a claim; with one it is the workspace's own.
        return is_let_in(kind, [rule for rule in rules if rule != "public"], names_a_workspace)
    if path.startswith("/agents/{id}/.well-known/"):
        # Everybody's when the workspace is public, which the target is not.
        return is_let_in(kind, [rule for rule in rules if rule != "public"], names_a_workspace)
    if (method, path) in MINTING and kind.relation == "org":
        # A token of a workspace acts as it.
        return is_let_in(kind, rules, names_a_workspace) and implied(kind.scopes, "org.impersonate")
    if path not in ("/access/explain", "/registry/check-access") or kind.relation == "nobody":
        return is_let_in(kind, rules, names_a_workspace)
    if kind.relation in ("org", "foreign-org"):
        return implied(kind.scopes, "org.read")
    return kind.relation == "self"


# Streams answer until they are left; their doors are opened by the same rule and tested with them.
STREAMS = {route.path for route in TABLE if route.stream or route.path.endswith("message:stream")}


@pytest.fixture
async def world(visit: Visitor) -> World:
    world = World(visit)
    await world.build()
    return world


@each_row(("method", "path"), [one for one in OPERATIONS if one[1] not in STREAMS])
async def test_a_route_lets_in_exactly_whom_its_document_names(
    visit: Visitor, world: World, method: str, path: str
) -> None:
    rules = DOCUMENT["paths"][path][method.lower()]["x-who"]
    names_a_workspace = "{id}" in path or path in ("/registry/heartbeat", "/registry/update-card")
    # What is let in may change its target; what is not must leave it as it is.
    changes_it = method != "GET" and ("{id}" in path or path.startswith("/registry/"))
    for kind in KINDS:
        expected = expectation(kind, method, path, rules, names_a_workspace)
        target = await world.target() if expected and changes_it else world.unchanged
        token = await world.token(kind, target)
        asked = filled(path, target)
        asked += f"?caller={target}&target={target}" if path == "/access/explain" else ""
        answer = await visit(method, asked, body_of(path, target), token=token, headers=headers_of(path))
        assert was_let_in(answer) is expected, (str(kind), rules, answer.status, answer.raw[:300])


# Success paths: what gives power, with valid bodies, for every kind of principal

POWERFUL = [
    *KINDS,
    *(
        Kind(f"org token with {' and '.join(scopes)}", "org", frozenset(scopes))
        for scopes in (
            ("org.read", "org.write"),
            ("org.read", "org.write", "org.secrets"),
            ("org.tokens", "org.secrets"),
            ("org.tokens", "org.write", "org.secrets"),
            ("org.tokens", "org.impersonate", "org.secrets"),
            ("org",),
        )
    ),
]
ROLES = {
    "viewer": {"org.read"},
    "member": {"org.read", "org.send", "org.approve"},
    "admin": {scope for scope in ORG_SCOPES if scope != "org.impersonate"},
    "owner": {"org", "metrics.read"},
}


def may(kind: Kind, *scopes: str) -> bool:
    return all(implied(kind.scopes, scope) for scope in scopes)


def passes_on(kind: Kind) -> set[str]:
    """The scopes of the target that a kind of principal may give to others."""
    if kind.relation == "self" and may(kind, "ws.manage"):
        return {scope for scope in WORKSPACE_SCOPES if may(kind, scope)}
    if kind.relation == "org" and may(kind, "org.tokens", "org.impersonate"):
        return {scope for scope in WORKSPACE_SCOPES if scope != "ws.secrets.read" or may(kind, "org.secrets")}
    return set()


class Gains:
    """Tries what gives power as one kind of principal, and holds what came of it to what it may give."""

    def __init__(self, world: World, kind: Kind) -> None:
        self.world, self.kind = world, kind
        # Somebody of the other organisation has there what others of their scopes have here.
        self.is_in_org = kind.relation in ("org", "foreign-org")

    async def ask(self, method: str, path: str, body: Any = None, target: str = "") -> Answer:
        token = await self.world.token(self.kind, target or self.world.unchanged)
        return await self.world.visit(method, path, body, token=token)

    def holds(self, answer: Answer, allowed: bool, what: object) -> bool:
        """Whether it was done: exactly when it may be, and otherwise refused."""
        told = (what, answer.status, answer.raw[:300])
        assert (answer.status < 300) is allowed, told
        assert allowed or answer.status in (401, 403, 404), told
        return allowed

    async def scopes_of(self, token: str | None, **headers: str) -> set[str]:
        held = await self.world.visit("GET", "/auth/session", token=token, headers=headers)
        assert held.status == 200, held.raw
        held_scopes = frozenset(held.json["scopes"])
        return {scope for scope in (*WORKSPACE_SCOPES, *ORG_SCOPES) if implied(held_scopes, scope)}

    async def joins(self, target: str, **proof: str) -> Answer:
        """An agent registers without a credential."""
        card = {"id": target, "agent_card": {"name": "target"}}
        return await self.world.visit("POST", "/registry/register", card | proof, token=None)


@each_row("kind", POWERFUL)
async def test_a_token_of_the_organisation_is_made_within_the_scopes_of_its_maker(
    world: World, kind: Kind
) -> None:
    gains = Gains(world, kind)
    for wish in ORG_SCOPES:
        minted = await gains.ask("POST", "/org/tokens", {"scopes": [wish]})
        if gains.holds(minted, gains.is_in_org and may(kind, "org.tokens", wish), wish):
            assert await gains.scopes_of(minted.json["auth_token"]) == {wish}
            assert (await gains.ask("DELETE", f"/org/tokens/{minted.json['id']}")).status == 200
    usual = {"org.read", "org.send", "org.write", "org.secrets", "org.approve"}
    minted = await gains.ask("POST", "/org/tokens", {})
    if gains.holds(minted, gains.is_in_org and may(kind, "org.tokens", *usual), "the usual"):
        assert await gains.scopes_of(minted.json["auth_token"]) == usual
    victim = (await world.visit("POST", "/org/tokens", {"scopes": ["org.read"]})).json["id"]
    ended = await gains.ask("DELETE", f"/org/tokens/{victim}")
    gains.holds(ended, kind.relation == "org" and may(kind, "org.tokens"), "delete")


@each_row("kind", POWERFUL)
async def test_a_token_of_a_workspace_is_made_within_what_its_maker_passes_on(
    world: World, kind: Kind
) -> None:
    gains, path = Gains(world, kind), f"/workspaces/{world.unchanged}/tokens"
    for wish in WORKSPACE_SCOPES:
        minted = await gains.ask("POST", path, {"scopes": [wish]})
        if gains.holds(minted, wish in passes_on(kind), wish):
            assert await gains.scopes_of(minted.json["auth_token"]) == {wish}
            ended = await gains.ask("DELETE", f"{path}/{minted.json['id']}")
            assert ended.status == 200
    minted = await gains.ask("POST", path, {})
    if gains.holds(minted, bool(passes_on(kind)), "all"):
        assert await gains.scopes_of(minted.json["auth_token"]) == passes_on(kind)
        assert (await gains.ask("DELETE", f"{path}/{minted.json['id']}")).status == 200
    victim = (await world.visit("POST", path, {})).json["id"]
    is_own = kind.relation == "self" and may(kind, "ws.manage")
    ends = is_own or (kind.relation == "org" and may(kind, "org.tokens"))
    if not gains.holds(await gains.ask("DELETE", f"{path}/{victim}"), ends, "delete"):
        assert (await world.visit("DELETE", f"{path}/{victim}")).status == 200


@each_row("kind", POWERFUL)
async def test_a_token_is_rotated_by_itself_alone_and_stays_what_it_is(world: World, kind: Kind) -> None:
    gains, target = Gains(world, kind), await world.target()
    rotated = await gains.ask("POST", f"/workspaces/{target}/tokens/rotate", {}, target)
    if gains.holds(rotated, kind.relation == "self", "rotate"):
        given = {scope for scope in WORKSPACE_SCOPES if may(kind, scope)}
        assert await gains.scopes_of(rotated.json["auth_token"]) == given


@each_row("kind", POWERFUL)
async def test_an_enrolment_token_yields_once_what_its_issuer_could_make(world: World, kind: Kind) -> None:
    gains, target = Gains(world, kind), await world.target()
    issued = await gains.ask("POST", f"/workspaces/{target}/enrolment-tokens", {"ttl_seconds": 60}, target)
    if gains.holds(issued, kind.relation == "org" and bool(passes_on(kind)), "issue"):
        proof = issued.json["enrolment_token"]
        joined = await gains.joins(target, enrolment_token=proof)
        assert await gains.scopes_of(joined.json["auth_token"]) == passes_on(kind)
        assert (await gains.joins(target, enrolment_token=proof)).status == 401
        recovered = await gains.joins(target, recovery_secret=joined.json["recovery_secret"])
        assert await gains.scopes_of(recovered.json["auth_token"]) == passes_on(kind)
        lost = await world.visit("GET", "/auth/session", token=joined.json["auth_token"])
        assert lost.status == 401


@each_row("kind", POWERFUL)
async def test_a_workspace_and_its_claim_give_what_the_creator_may_hand_out(world: World, kind: Kind) -> None:
    gains = Gains(world, kind)
    given = {scope for scope in WORKSPACE_SCOPES if scope != "ws.secrets.read" or may(kind, "org.secrets")}
    for claims in (False, True):
        made = await gains.ask("POST", "/workspaces", {"name": "made", "external": True})
        if gains.holds(made, gains.is_in_org and may(kind, "org.write"), "create"):
            token = made.json["connection"]["auth_token"]
            if claims:
                token = (await gains.joins(made.json["id"])).json["auth_token"]
            assert await gains.scopes_of(token) == given


@each_row("kind", POWERFUL)
async def test_only_who_gains_nothing_by_a_claim_learns_what_can_be_claimed(world: World, kind: Kind) -> None:
    gains = Gains(world, kind)
    made = await world.visit("POST", "/workspaces", {"name": "unjoined", "external": True})
    target = made.json["id"]
    sees = kind.relation == "org" and may(kind, "org.read", "org.write", "org.secrets")
    gains.holds(await gains.ask("GET", f"/workspaces/{target}"), sees, "look")
    listed = await gains.ask("GET", "/workspaces")
    assert (target in listed.raw.decode()) is sees
    token = (await gains.joins(target)).json["auth_token"]
    assert await gains.scopes_of(token) == set(WORKSPACE_SCOPES)
    again = await gains.joins(target)
    assert (again.status, again.json["applied"], "auth_token" in again.json) == (200, False, False)


@each_row("kind", POWERFUL)
async def test_people_are_invited_changed_and_removed_within_the_scopes_of_who_does_it(
    world: World, kind: Kind
) -> None:
    gains, decides = Gains(world, kind), may(kind, "org.tokens", "org.read")
    for role, scopes in ROLES.items():
        name = f"u-{uuid4()}"
        invited = await gains.ask("POST", "/auth/login-codes", {"user": name, "role": role})
        if gains.holds(invited, gains.is_in_org and may(kind, "org.tokens", *scopes), ("invite", role)):
            entered = await world.visit("POST", "/auth/login", {"code": invited.json["code"]}, token=None)
            cookie = entered.headers["set-cookie"].partition(";")[0]
            held = {scope for scope in ORG_SCOPES if implied(frozenset(scopes), scope)}
            assert await gains.scopes_of(None, cookie=cookie) == held
        viewer = f"v-{uuid4()}"
        await world.visit("POST", "/auth/login-codes", {"user": viewer, "role": "viewer"})
        changed = await gains.ask("PATCH", f"/users/{viewer}", {"role": role})
        is_changed = kind.relation == "org" and decides and may(kind, *scopes)
        gains.holds(changed, is_changed, ("change", role))
        removed = await gains.ask("DELETE", f"/users/{viewer}")
        gains.holds(removed, kind.relation == "org" and decides, ("remove", role))


def test_every_operation_says_who_may_call_it() -> None:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            assert operation["x-who"], (method, path)
            assert all(RULE.fullmatch(rule) for rule in operation["x-who"])


def test_a_route_that_does_not_say_who_cannot_be_written() -> None:
    from molecule_platform.web.pipeline.route import Route

    with pytest.raises(TypeError):
        Route("x", "GET", "/x", summary="Nobody said who.")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
