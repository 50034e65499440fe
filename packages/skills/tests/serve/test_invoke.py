"""`POST /invoke/{skill}`: a run, its reply, its errors, its idempotency."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from molecule_skill.auth import APIKeyAuth, APIKeyAuthResolver
from molecule_skill.serve import build_app, callers
from molecule_skill.store import MemoryRunStore
from packages.skills.tests.auth.tokens import digest
from packages.skills.tests.serve.sample import Sample
from packages.skills.tests.serve.served import Served, serving, until


@pytest.fixture(scope="module")
async def served() -> AsyncIterator[Served]:
    async with serving() as one:
        yield one


async def test_a_run_answers_with_its_result_events_and_artifacts(served: Served) -> None:
    answer = await served.invoke("add", a=2, b=3)
    body = answer.json()
    assert answer.status_code == 200
    assert body.keys() == {"run_id", "result", "events", "artifacts", "grant_id", "changes"}
    assert body["result"] == {"sum": 5}
    assert [event["seq"] for event in body["events"]] == list(range(1, len(body["events"]) + 1))
    assert {"kind": "progress", "payload": {"message": "adding"}}.items() <= body["events"][1].items()
    assert (body["grant_id"], body["changes"], body["artifacts"]) == (None, {"pending": []}, [])
    assert answer.headers["x-request-id"]


async def test_arguments_are_coerced_and_a_body_may_be_empty(served: Served) -> None:
    assert (await served.invoke("add", a="2")).json()["result"] == {"sum": 3}
    assert (await served.http.post("/invoke/nothing")).json()["result"] is None
    assert (await served.http.post("/invoke/nothing", json={"arguments": {}})).json()["result"] is None


@pytest.mark.parametrize(
    ("skill", "arguments", "status", "code"),
    [
        ("absent", {}, 404, "skill-not-found"),
        ("add", {}, 400, "skill-input-invalid"),
        ("add", {"a": "x"}, 400, "skill-input-invalid"),
        ("add", {"a": 1, "c": 2}, 400, "skill-input-invalid"),
        ("guarded", {}, 403, "missing-scopes"),
        ("fail", {"message": "boom"}, 500, "skill-failed"),
        ("wrong", {}, 500, "skill-output-invalid"),
    ],
)
async def test_every_error_has_the_platforms_shape_and_detail(
    served: Served, skill: str, arguments: dict[str, Any], status: int, code: str
) -> None:
    answer = await served.invoke(skill, **arguments)
    body = answer.json()
    assert (answer.status_code, body["code"]) == (status, code)
    assert body["error"] == body["detail"]
    assert body["request_id"] == answer.headers["x-request-id"]
    assert ("run_id" in body) == (status == 500)


async def test_input_errors_name_the_places_and_scopes_come_before_them(served: Served) -> None:
    body = (await served.invoke("add", a="x", c=1)).json()
    assert {tuple(error["loc"]) for error in body["errors"]} >= {("a",)}
    assert (await served.invoke("guarded", unknown=1)).json()["missing"] == ["secret.read"]


async def test_fields_of_original_clients_are_ignored_and_not_kept(served: Served) -> None:
    body = {"arguments": {"a": 1}, "llm_creds": {"key": "sk-123456"}, "cp_jwt": "ey", "cp_url": "http://x"}
    answer = await served.http.post("/invoke/add", json=body)
    assert answer.status_code == 200
    assert "sk-123456" not in answer.text


async def test_respond_async_answers_at_once(served: Served) -> None:
    answer = await served.http.post(
        "/invoke/add", json={"arguments": {"a": 1}}, headers={"prefer": "respond-async"}
    )
    assert answer.status_code == 202
    assert answer.json().keys() == {"run_id"}
    run_id = answer.json()["run_id"]
    stream = await served.frames("GET", f"/runs/{run_id}/events")
    assert stream[-2][1]["result"] == {"sum": 2}


async def test_one_key_is_one_run_and_another_body_is_refused(served: Served) -> None:
    Sample.calls.clear()
    headers = {"idempotency-key": "k1"}
    first, second = await asyncio.gather(
        *(
            served.http.post("/invoke/shout", json={"arguments": {"text": "a"}}, headers=headers)
            for _ in range(2)
        )
    )
    assert first.json()["run_id"] == second.json()["run_id"]
    assert Sample.calls == ["shout"]
    other = await served.http.post("/invoke/shout", json={"arguments": {"text": "b"}}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency-conflict")


async def test_a_run_that_asks_answers_202_and_goes_on_with_the_answer(served: Served) -> None:
    waiting = await served.invoke("ask", question="why?")
    body = waiting.json()
    assert waiting.status_code == 202
    assert body.keys() == {"run_id", "state", "interaction"}
    interaction = body["interaction"]
    assert (body["state"], interaction["kind"], interaction["prompt"]) == ("waiting", "question", "why?")
    assert interaction["state"] == "pending"
    done = await served.http.post(f"/answers/{interaction['id']}", json={"answer": "because"})
    assert done.json() == {"state": "answered"}
    stream = await served.frames("GET", f"/runs/{body['run_id']}/events")
    assert stream[-2][1]["result"] == "answer: because"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"arguments": []}, "invalid-request"),
        ({"session_id": 3}, "invalid-request"),
        ({"session_id": ""}, "invalid-request"),
        ({"deadline_seconds": 0}, "invalid-request"),
        ({"deadline_seconds": True}, "invalid-request"),
        ({"deadline_seconds": "1"}, "invalid-request"),
        ({"on_disconnect": "explode"}, "invalid-request"),
        ({"consumer_config": 1}, "invalid-request"),
        ({"grant": 1}, "invalid-request"),
        ([], "invalid-request"),
    ],
)
async def test_a_body_of_the_wrong_shape_is_a_400_that_says_what(
    served: Served, body: Any, code: str
) -> None:
    answer = await served.http.post("/invoke/nothing", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, code)


async def test_a_caller_sees_only_its_own_runs() -> None:
    keys = [
        {"id": name, "sha256": digest(f"key-{name}"), "scopes": ["secret.read"] if name == "ada" else []}
        for name in ("ada", "bob")
    ]

    class Keyed(Sample):
        name = "keyed"
        auth_model = APIKeyAuth
        auth_resolver = APIKeyAuthResolver(keys)

    async with serving(Keyed()) as served:
        ada, bob = ({"authorization": f"Bearer key-{name}"} for name in ("ada", "bob"))
        nobody = await served.http.post("/invoke/nothing")
        assert (nobody.status_code, nobody.json()["code"]) == (401, "unauthenticated")
        assert nobody.headers["www-authenticate"] == "Bearer"
        assert (await served.http.post("/invoke/guarded", headers=bob)).status_code == 403
        done = await served.http.post("/invoke/guarded", headers=ada)
        assert done.json()["result"] == "let in"
        path = f"/runs/{done.json()['run_id']}"
        assert (await served.http.get(path, headers=ada)).status_code == 200
        for place in (path, f"{path}/events", f"{path}/artifacts/x"):
            assert (await served.http.get(place, headers=bob)).status_code == 404
        assert (await served.http.post(f"{path}/cancel", headers=bob)).status_code == 404
        assert (await served.http.get("/healthz")).status_code == 200
        assert (await served.http.get("/.well-known/agent-card.json")).status_code == 401
        assert (await served.http.get("/.well-known/agent-card.json", headers=bob)).status_code == 200


async def test_without_authentication_only_this_machine_is_served() -> None:
    app = build_app(Sample(), store=MemoryRunStore())
    far = httpx.ASGITransport(app, client=("203.0.113.9", 1))
    async with httpx.AsyncClient(transport=far, base_url="http://agent.example") as client:
        assert (await client.post("/invoke/nothing")).status_code == 401
    near = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=near, base_url="http://127.0.0.1") as client:
        assert (await client.post("/invoke/nothing")).status_code == 200
        forwarded = {"x-forwarded-for": "203.0.113.9"}
        assert (await client.post("/invoke/nothing", headers=forwarded)).status_code == 401
    await app.stop()
    with pytest.raises(callers.RefusedToStart, match="without authentication"):
        callers.check_bind(app.resolver, "0.0.0.0")
    callers.check_bind(app.resolver, "127.0.0.1")


async def test_a_web_page_of_somebody_else_reaches_nothing(served: Served) -> None:
    evil = {"origin": "https://evil.example"}
    assert (await served.http.post("/invoke/nothing", headers=evil)).status_code == 403
    rebound = {"host": "evil.example"}
    assert (await served.http.post("/invoke/nothing", headers=rebound)).status_code == 403
    own = {"origin": served.url}
    assert (await served.http.post("/invoke/nothing", headers=own)).status_code == 200
    preflight = await served.http.options("/invoke/nothing", headers=evil)
    assert "access-control-allow-origin" not in preflight.headers


async def test_an_agent_can_be_mounted_below_a_prefix() -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    app = build_app(Sample(), store=MemoryRunStore())
    outer = Starlette(routes=[Mount("/agents/sample", app)])
    transport = httpx.ASGITransport(outer)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        assert (await client.post("/agents/sample/invoke/nothing")).status_code == 200
        card = (await client.get("/agents/sample/.well-known/agent-card.json")).json()
        assert card["url"] == "http://127.0.0.1/agents/sample/"
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {}}
        answer = await client.post("/agents/sample/", json=body, headers={"a2a-version": "1.0"})
        assert answer.json()["error"]["code"] == -32602
    await app.stop()


async def test_a_deadline_ends_a_run(served: Served) -> None:
    answer = await served.http.post(
        "/invoke/wait", json={"arguments": {"seconds": 30}, "deadline_seconds": 1}
    )
    assert answer.status_code == 504


async def test_the_last_reader_gone_cancels_a_run_that_asked_for_it() -> None:
    async with serving() as served:
        served.app._readers._seconds = 0.05
        body = {"arguments": {"seconds": 30}, "on_disconnect": "cancel"}
        frames = await served.frames("POST", "/invoke/wait", json=body, limit=1)
        run_id = frames[0][1]["run_id"]
        await until(lambda: is_in(served, run_id, "cancelled"))


async def test_a_run_goes_on_without_readers(served: Served) -> None:
    frames = await served.frames("POST", "/invoke/ask", json={"arguments": {"question": "?"}}, limit=1)
    run_id = frames[0][1]["run_id"]
    await until(lambda: is_in(served, run_id, "waiting"))
    run = (await served.http.get(f"/runs/{run_id}")).json()
    assert run["interaction"]["prompt"] == "?"


async def is_in(served: Served, run_id: str, state: str) -> bool:
    return (await served.http.get(f"/runs/{run_id}")).json()["state"] == state
