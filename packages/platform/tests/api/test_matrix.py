"""Every route of the OpenAPI document × every kind of principal: let in is exactly who the document says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from molecule_platform.api import openapi
from molecule_platform.api.routes import TABLE
from molecule_platform.domain.principals import IMPERSONATED_SCOPES, KNOWN_SCOPES
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


def test_every_operation_says_who_may_call_it() -> None:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            assert operation["x-who"], (method, path)
            assert all(RULE.fullmatch(rule) for rule in operation["x-who"])


def test_a_route_that_does_not_say_who_cannot_be_written() -> None:
    from molecule_platform.api.route import Route

    with pytest.raises(TypeError):
        Route("x", "GET", "/x", summary="Nobody said who.")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
