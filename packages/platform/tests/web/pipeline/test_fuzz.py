"""Whatever is sent, the house answers: no traceback, no hang, and no word about another organisation."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode
from uuid import uuid4

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.route_table import TABLE

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Answer, Visitor

ADMIN = "the-administrator-s-token"
PATIENCE_SECONDS = 30.0
ROUTES = [route for route in TABLE if not route.stream]
HEADERS: tuple[str, ...] = (
    "a2a-version",
    "accept",
    "content-length",
    "content-type",
    "cookie",
    "idempotency-key",
    "if-none-match",
    "last-event-id",
    "origin",
    "prefer",
    "traceparent",
    "x-csrf-token",
    "x-forwarded-for",
    "x-molecule-in-reply-to",
    "x-molecule-org-id",
    "x-molecule-queue",
    "x-request-id",
    "x-source-workspace-id",
    "x-timeout",
    "x-workspace-id",
)
FUZZ = settings(
    max_examples=settings().max_examples * 3 // 2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

words = st.text(max_size=40)
latin = st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\0"), max_size=60)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


def _just_not_json(body: object) -> st.SearchStrategy[bytes]:
    """A body that is JSON but for one value, which only a careful reader minds."""
    odd = st.sampled_from([b"1" * 5000, b'"\xff"', b"[" * 400 + b"]" * 400, b"1e999", b"-0"])
    rest = json.dumps(body if isinstance(body, dict) else {}).encode()[1:]
    return odd.map(lambda value: b'{"odd":' + value + (b"," if len(rest) > 1 else b"") + rest)


@st.composite
def requests(draw: st.DrawFn) -> tuple[Route, dict[str, str], dict[str, str], dict[str, str], bytes]:
    """A route with nonsense in its path, its query, its headers and its body."""
    route = draw(st.sampled_from(ROUTES))
    named = re.findall(r"\{(\w+)\}", route.path)
    path = {name: draw(st.text(min_size=1, max_size=50)) for name in named}
    known = list(route.query.__struct_fields__) if route.query else []
    names = st.sampled_from([*known, "cursor", "limit", "x"]).filter(lambda name: name != "wait")
    query = draw(st.dictionaries(names, words, max_size=4))
    headers = draw(st.dictionaries(st.sampled_from(HEADERS), latin, max_size=4))
    fields = list(route.body.__struct_fields__) if route.body else ["jsonrpc", "id", "method", "params"]
    body = draw(st.dictionaries(st.sampled_from([*fields, "more"]), values, max_size=6) | values)
    body = {name: value for name, value in body.items() if name != "wait"} if isinstance(body, dict) else body
    raw = draw(st.just(json.dumps(body).encode()) | st.binary(max_size=60) | _just_not_json(body))
    if draw(st.booleans()):
        headers["idempotency-key"] = draw(st.uuids().map(str))
    return route, path, query, headers, raw


async def ask(
    visit: Visitor,
    route: Route,
    path: dict[str, str],
    query: dict[str, str],
    raw: bytes,
    token: str | None,
    headers: dict[str, str],
) -> Answer:
    target = re.sub(r"\{(\w+)\}", lambda match: path[match[1]], route.path)
    asked = f"{target}?{urlencode(query)}" if query and "?" not in target else target
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await visit(route.method, asked, raw, token=token, headers=headers)


def check(answer: Answer) -> None:
    assert answer.status < 500 or answer.code == "no-provisioner", answer.raw
    assert b"Traceback" not in answer.raw
    if answer.headers.get("content-type") == "application/json" and answer.status >= 400:
        # Errors of A2A itself have no place for it but the header.
        assert answer.json.get("request_id", answer.headers["x-request-id"]) == answer.headers["x-request-id"]


@FUZZ
@given(
    request=requests(), known_id=st.booleans(), who=st.sampled_from(["nobody", "made up", "agent", "admin"])
)
async def test_nonsense_is_refused_and_nothing_breaks(
    visit: Visitor,
    request: tuple[Route, dict[str, str], dict[str, str], dict[str, str], bytes],
    known_id: bool,
    who: str,
) -> None:
    route, path, query, headers, raw = request
    ada, token = await visit.workspace()
    if known_id and "id" in path:
        path = {**path, "id": ada}
    credential = {"nobody": None, "made up": "x", "agent": token, "admin": ADMIN}[who]
    check(await ask(visit, route, path, query, raw, credential, headers))


def without_names(answer: Answer, *names: str) -> tuple[int, Any]:
    """An answer without what must differ."""
    text = answer.raw.decode()
    for name in (*names, answer.headers["x-request-id"]):
        text = text.replace(name, "…").replace(quote(name), "…")
    return answer.status, text


@FUZZ
@given(
    route=st.sampled_from([r for r in ROUTES if "{id}" in r.path]),
    body=st.dictionaries(words, values, max_size=3),
    who=st.sampled_from(["agent", "org", "reader"]),
)
async def test_a_workspace_of_another_organisation_looks_like_none_at_all(
    visit: Visitor, route: Route, body: dict[str, Any], who: str
) -> None:
    _, token = await visit.workspace()
    if (await visit("GET", "/orgs/elsewhere")).status == 404:
        await visit("POST", "/orgs", {"name": "Elsewhere", "slug": "elsewhere"})
    there = {"x-molecule-org-id": "elsewhere"}
    made = await visit("POST", "/workspaces", {"name": "far", "external": True}, headers=there)
    scopes = {"org": ["org", "metrics.read"], "reader": ["org.read"]}.get(who)
    if scopes is not None:
        once = {"idempotency-key": who}
        token = (await visit("POST", "/org/tokens", {"scopes": scopes}, headers=once)).json["auth_token"]
    raw = json.dumps(body).encode()
    theirs, nobody_s = made.json["id"], str(uuid4())
    answers = [
        await ask(
            visit,
            route,
            {**dict.fromkeys(re.findall(r"\{(\w+)\}", route.path), "name"), "id": one},
            {},
            raw,
            token,
            {},
        )
        for one in (theirs, nobody_s)
    ]
    # Register and /state may tell a known id from an unknown one; /state does it before anyone is asked.
    if route.gone_first:
        assert answers[0].status in (404, 403, 401)
    else:
        assert without_names(answers[0], theirs) == without_names(answers[1], nobody_s)
