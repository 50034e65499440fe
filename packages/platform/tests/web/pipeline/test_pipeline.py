"""The way of a request: who is let in, how a bad one is refused, and what every answer carries."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molecule_platform.ports.storage import StorageDown
from molecule_platform.web.pipeline import log_sampling
from molecule_platform.web.pipeline.log_sampling import LogSampler
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.route_table import TABLE
from tests.rows import each_row

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Answer, Visitor

GUARDED = [route for route in TABLE if not route.is_public and route.path != "/ws"]
SEND = {"method": "message/send", "params": {"message": {"parts": [{"kind": "text", "text": "hi"}]}}}


def named(route: Route) -> str:
    return f"{route.method} {route.path}"


def filled(route: Route, workspace_id: str) -> str:
    return re.sub(r"\{\w+\}", "name", route.path.replace("{id}", workspace_id))


def code_of(answer: Answer) -> str | None:
    return answer.code


# Who


@each_row("route", GUARDED)
async def test_nobody_comes_in_without_a_credential_or_with_a_made_up_one(
    visit: Visitor, route: Route
) -> None:
    ada, _ = await visit.workspace()
    for token, code in ((None, "unauthenticated"), ("made up", "invalid-token")):
        answer = await visit(route.method, filled(route, ada), {}, token=token)
        assert (answer.status, code_of(answer)) == (401, code)
        assert answer.headers["www-authenticate"] == 'Bearer realm="molecule", error="invalid_token"'


@each_row("route", [r for r in GUARDED if "{id}" in r.path and "queue" not in r.path])
async def test_an_unknown_workspace_is_not_found_by_anyone(visit: Visitor, route: Route) -> None:
    _, token = await visit.workspace()
    for credential in (token, "the-administrator-s-token"):
        answer = await visit(route.method, filled(route, str(uuid4())), SEND, token=credential)
        assert answer.status == 404


@each_row("route", [r for r in GUARDED if "{id}" in r.path and not r.gone_first])
async def test_an_id_that_is_no_uuid_is_a_bad_request(visit: Visitor, route: Route) -> None:
    answer = await visit(route.method, filled(route, "not-a-uuid"))
    assert (answer.status, code_of(answer)) == (400, "invalid-id")


async def test_the_state_of_an_unknown_workspace_is_told_before_asking_who_wants_to_know(
    visit: Visitor,
) -> None:
    for name in (str(uuid4()), "nonsense"):
        answer = await visit("GET", f"/workspaces/{name}/state", token=None)
        assert (answer.status, answer.json["deleted"], answer.json["status"]) == (404, True, "removed")


@pytest.mark.parametrize("route", ["heartbeat", "update-card", "register"])
async def test_the_token_of_a_removed_workspace_is_told_that_it_is_gone(visit: Visitor, route: str) -> None:
    ada, token = await visit.workspace()
    await visit("DELETE", f"/workspaces/{ada}")
    body = {"id": ada, "workspace_id": ada, "agent_card": {"name": "Ada"}}
    answer = await visit("POST", f"/registry/{route}", body, token=token)
    assert (answer.status, code_of(answer)) == (410, "workspace-removed")


async def test_a_workspace_s_token_does_not_act_for_another_or_for_the_operator(visit: Visitor) -> None:
    ada, token = await visit.agent("Ada")
    bob, _ = await visit.agent("Bob")
    refused = [
        await visit("GET", f"/workspaces/{bob}/inbox", token=token),
        await visit("GET", f"/workspaces/{bob}/secrets/values", token=token),
        await visit("POST", f"/workspaces/{ada}/resume", token=token),
        await visit("DELETE", f"/workspaces/{ada}", token=token),
        await visit("POST", "/workspaces", {"name": "x", "external": True}, token=token),
        await visit("GET", "/events", token=token),
        await visit("GET", f"/workspaces/{ada}", token=token, headers={"x-workspace-id": bob}),
    ]
    assert [answer.status for answer in refused] == [403] * 7
    assert code_of(refused[-1]) == "identity-mismatch"


async def test_not_even_the_administrator_reads_a_secret_s_value(visit: Visitor) -> None:
    ada, token = await visit.workspace(secrets={"KEY": "hush"})
    assert (await visit("GET", f"/workspaces/{ada}/secrets/values")).status == 403
    assert (await visit("GET", f"/workspaces/{ada}/secrets/values", token=token)).json == {"KEY": "hush"}


async def login(visit: Visitor, **invitation: Any) -> dict[str, str]:
    """A browser that signed in: the headers it sends."""
    code = (await visit("POST", "/auth/login-codes", invitation)).json["code"]
    answer = await visit("POST", "/auth/login", {"code": code}, token=None)
    cookie = answer.headers["set-cookie"].split(";")[0]
    return {"cookie": cookie, "x-csrf-token": answer.json["csrf_token"], "origin": "http://platform"}


@pytest.mark.parametrize(("user", "role"), [("admin", "viewer"), ("eve", "owner")])
async def test_nobody_invites_a_person_to_more_than_they_may_do_themselves(
    visit: Visitor, user: str, role: str
) -> None:
    browser = await login(visit, user="mia", role="admin")
    invited = await visit(
        "POST", "/auth/login-codes", {"user": user, "role": role}, token=None, headers=browser
    )
    assert invited.status == 403


async def test_somebody_may_be_invited_to_what_the_inviter_may_do(visit: Visitor) -> None:
    browser = await login(visit, user="mia", role="admin")
    invited = await visit(
        "POST", "/auth/login-codes", {"user": "ann", "role": "member"}, token=None, headers=browser
    )
    assert invited.status == 201


@pytest.mark.parametrize(
    "changes",
    [{"x-csrf-token": ""}, {"x-csrf-token": "made up"}, {"origin": "http://evil"}, {"origin": ""}],
)
async def test_a_browser_changes_nothing_without_its_proof_and_our_own_page(
    visit: Visitor, changes: dict[str, str]
) -> None:
    browser = await login(visit, user="mia", role="admin") | changes
    answer = await visit("POST", "/workspaces", {"name": "x", "external": True}, token=None, headers=browser)
    assert (answer.status, code_of(answer)) == (403, "csrf")
    assert (await visit("GET", "/workspaces", token=None, headers=browser)).status == 200


async def test_a_bearer_is_not_judged_by_its_origin(visit: Visitor) -> None:
    answer = await visit(
        "POST", "/workspaces", {"name": "x", "external": True}, headers={"origin": "http://elsewhere"}
    )
    assert answer.status == 201


# Bad requests


@pytest.mark.parametrize(
    ("path", "body", "code", "field"),
    [
        ("/workspaces", b"{", "invalid-json", None),
        ("/workspaces", b"\xff", "invalid-json", None),
        ("/workspaces", b'{"name":"\\ud800"}', "invalid-json", None),
        ("/workspaces", b"", "invalid-request", "name"),
        ("/workspaces", b"[]", "invalid-request", ""),
        ("/workspaces", b'{"name":7}', "invalid-request", "name"),
        ("/workspaces", b'{"name":"a","tier":"x"}', "invalid-request", "tier"),
        ("/workspaces", b'{"name":"a","canvas":{"x":"y"}}', "invalid-request", "canvas.x"),
        ("/auth/login", b'{"code":"a","more":1}', "invalid-request", "more"),
        ("/auth/login", b"{}", "invalid-request", "code"),
        ("/registry/register", b'{"agent_card":{}}', "invalid-request", "id"),
        ("/registry/register", b'{"id":"x","agent_card":{}}', "invalid-id", None),
    ],
)
async def test_a_bad_body_is_refused_with_the_field_that_is_wrong(
    visit: Visitor, path: str, body: bytes, code: str, field: str | None
) -> None:
    token = None if path.startswith("/registry") else "the-administrator-s-token"
    answer = await visit("POST", path, body, token=token)
    assert (answer.status, code_of(answer)) == (400, code)
    assert answer.json.get("field") == field
    assert answer.json["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    "target",
    [
        "/events?since=\u00b2",
        "/events?since=99999999999999999999999",
        "/events?since=-1",
        "/events?limit=x",
        "/events?limit=nan",
        "/workspaces/{ada}/activity?before_ts=yesterday",
        "/workspaces/{ada}/activity?since_secs=x",
        "/workspaces/{ada}/inbox?wait=x",
        "/registry/{ada}/peers?relation=cousin",
    ],
)
async def test_a_bad_query_is_a_bad_request(visit: Visitor, target: str) -> None:
    ada, _ = await visit.workspace()
    answer = await visit("GET", target.replace("{ada}", ada))
    assert (answer.status, code_of(answer)) == (400, "invalid-request")


@pytest.mark.parametrize(
    "headers",
    [
        {"x-timeout": "\u00b2"},
        {"x-timeout": "0"},
        {"x-timeout": "86401"},
        {"x-timeout": "soon"},
        {"idempotency-key": "\u00e9"},
        {"idempotency-key": "k" * 256},
    ],
)
async def test_a_bad_header_is_a_bad_request(visit: Visitor, headers: dict[str, str]) -> None:
    ada, _ = await visit.agent()
    answer = await visit("POST", f"/workspaces/{ada}/a2a", SEND, headers=headers)
    assert (answer.status, code_of(answer)) == (400, "invalid-request")


@pytest.mark.parametrize(("path", "limit"), [("/workspaces", 65_536), ("/workspaces/{ada}/a2a", 131_072)])
@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_over_its_limit_is_refused_announced_or_not(
    visit: Visitor, path: str, limit: int, announced: bool
) -> None:
    ada, _ = await visit.agent()
    headers = {"content-length": str(limit + 1)} if announced else {}
    body = b"x" * (1 if announced else limit + 1)
    answer = await visit("POST", path.replace("{ada}", ada), body, headers=headers)
    assert (answer.status, code_of(answer)) == (413, "payload-too-large")


async def test_nothing_is_served_elsewhere_and_a_wrong_method_says_so(visit: Visitor) -> None:
    assert code_of(await visit("GET", "/nowhere")) == "not-found"
    answer = await visit("DELETE", "/workspaces")
    assert (answer.status, code_of(answer)) == (405, "method-not-allowed")


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
POSTS = [route for route in TABLE if route.method in ("POST", "PUT")]


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
async def test_no_body_of_any_shape_is_an_internal_error(visit: Visitor, data: st.DataObject) -> None:
    ada, token = await visit.workspace()
    route = data.draw(st.sampled_from(POSTS))
    members = route.body.__struct_fields__ if route.body else ("jsonrpc", "id", "method", "params")
    body = (
        {name: data.draw(values) for name in data.draw(st.lists(st.sampled_from(members), unique=True))}
        if members
        else {}
    )
    if "workspace_id" in body or "id" in body:
        body |= {"id": ada, "workspace_id": ada}
    for credential in (token, "the-administrator-s-token"):
        answer = await visit(route.method, filled(route, ada), body, token=credential)
        assert answer.status < 500 or code_of(answer) in ("no-provisioner",), (named(route), body, answer.raw)


# What every answer carries


async def test_a_request_id_is_kept_when_it_is_one_and_made_when_it_is_not(visit: Visitor) -> None:
    kept = await visit("GET", "/health", headers={"x-request-id": "mine-1.2_3"})
    made = await visit("GET", "/health", headers={"x-request-id": "no spaces\u00e9"})
    assert kept.headers["x-request-id"] == "mine-1.2_3"
    assert re.fullmatch(r"[0-9a-f-]{38,}", made.headers["x-request-id"])


@pytest.mark.parametrize("target", ["/health", "/nowhere", "/workspaces"])
async def test_every_answer_carries_the_headers_that_protect_a_browser(visit: Visitor, target: str) -> None:
    headers = (await visit("GET", target)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    policy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    assert headers["content-security-policy"] == policy


async def test_a_database_that_is_away_is_said_to_be_and_when_to_come_back(
    visit: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(_work: Any) -> None:
        raise StorageDown("away")

    ada, token = await visit.agent()
    with monkeypatch.context() as patched:
        for verb in ("read", "glance", "write"):
            patched.setattr(visit.platform._health._storage, verb, down)
        answers = [
            await visit("GET", "/workspaces"),
            await visit("POST", f"/workspaces/{ada}/a2a", SEND),
            await visit("POST", "/registry/heartbeat", {"workspace_id": ada}, token=token),
        ]
        healthy = await visit("GET", "/health", token=token)
        ready = await visit("GET", "/ready", token=None)
    for answer in answers:
        assert (answer.status, code_of(answer), answer.headers["retry-after"]) == (
            503,
            "platform-unavailable",
            "2",
        )
    assert healthy.status == 200
    assert (ready.status, ready.json["checks"]["storage"]) == (503, "failed")


async def test_refusals_of_an_outage_are_sampled_in_the_log(
    visit: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(_work: Any) -> None:
        raise StorageDown("away")

    lines = Lines()
    monkeypatch.setattr(visit.platform._pipeline, "_log", lines)
    monkeypatch.setattr(visit.platform._pipeline, "_refusals", LogSampler(lambda: 0.0))
    with monkeypatch.context() as patched:
        patched.setattr(visit.platform._health._storage, "read", down)
        answers = [await visit("GET", "/workspaces") for _ in range(50)]
    assert {answer.status for answer in answers} == {503}
    assert {(line["event"], line["status"], line["problem"]) for line in lines.said} == {
        ("request", 503, "away")
    }
    assert len(lines.said) == log_sampling.BURST


class Lines:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.said.append({"event": event, **fields})

    warning = error = info


async def test_a_fault_of_ours_tells_the_caller_an_id_and_the_log_the_rest(
    visit: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_work: Any) -> None:
        raise RuntimeError("inside out")

    lines = Lines()
    monkeypatch.setattr(visit.platform._pipeline, "_log", lines)
    with monkeypatch.context() as patched:
        patched.setattr(visit.platform._health._storage, "read", broken)
        answer = await visit("GET", "/workspaces", headers={"x-request-id": "find-me"})
    assert (answer.status, code_of(answer)) == (500, "internal")
    assert b"inside out" not in answer.raw
    assert answer.json["request_id"] == "find-me"
    failed, told = lines.said
    assert (failed["event"], str(failed["exc_info"])) == ("request failed", "inside out")
    assert (told["event"], told["path"], told["status"]) == ("request", "/workspaces", 500)


# Under which name we are called


@pytest.mark.parametrize("host", ["evil.example", "platform.evil.example", "192.0.2.1", "platform/x"])
async def test_nothing_is_made_for_a_name_that_is_not_ours(visit: Visitor, host: str) -> None:
    ada, _ = await visit.workspace(visibility="public")
    for path in (f"/agents/{ada}/.well-known/agent-card.json", "/workspaces", "/", "/nowhere"):
        answer = await visit("GET", path, headers={"host": host})
        assert answer.status == 421
        assert "MOLECULE_ALLOWED_HOSTS" in answer.raw.decode()
    assert (await visit("GET", "/workspaces", headers={"host": host})).code == "misdirected-request"


@pytest.mark.parametrize(
    "host", ["platform", "platform:81", "localhost:9", "127.0.0.1:9", "host.docker.internal"]
)
async def test_our_own_names_are_those_in_links(visit: Visitor, host: str) -> None:
    ada, _ = await visit.workspace()
    found = (await visit("GET", f"/registry/discover/{ada}", headers={"host": host})).json
    assert found["url"] == f"http://{host}/workspaces/{ada}/a2a"


async def test_a_probe_may_come_by_any_address(visit: Visitor) -> None:
    for path in ("/health", "/healthz", "/ready", "/readyz", "/metrics"):
        assert (await visit("GET", path, headers={"host": "10.1.2.3:8080"})).status == 200


async def test_a_repeated_heartbeat_under_another_name_is_refused_as_the_first_is(visit: Visitor) -> None:
    ada, token = await visit.agent()
    beat = {"workspace_id": ada}
    for _ in range(3):
        assert (await visit("POST", "/registry/heartbeat", beat, token=token)).status == 200
    strange = await visit("POST", "/registry/heartbeat", beat, token=token, headers={"host": "evil.example"})
    assert (strange.status, strange.code) == (421, "misdirected-request")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"content-type": "text/plain"}, "unsupported-media-type"),
        ({"content-type": "application/x-www-form-urlencoded"}, "unsupported-media-type"),
        ({"origin": "http://evil.example"}, "csrf"),
        ({"origin": "null"}, "csrf"),
        ({"origin": "http://platform:81"}, "csrf"),
    ],
)
async def test_no_other_page_signs_its_visitor_in(visit: Visitor, headers: dict[str, str], code: str) -> None:
    invited = (await visit("POST", "/auth/login-codes", {"user": "eve", "role": "viewer"})).json
    body = {"code": invited["code"]}
    refused = await visit("POST", "/auth/login", body, token=None, headers=headers)
    assert refused.code == code
    own = {"origin": "http://platform", "content-type": "application/json; charset=utf-8"}
    assert (await visit("POST", "/auth/login", body, token=None, headers=own)).status == 200
