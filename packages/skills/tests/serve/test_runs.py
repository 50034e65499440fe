"""Routes of runs: look, follow, cancel, answer, download; and what the agent says of itself."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from packages.skills.tests.serve.served import Served, serving, until


@pytest.fixture(scope="module")
async def served() -> AsyncIterator[Served]:
    async with serving() as one:
        yield one


async def test_a_run_is_shown_as_it_is(served: Served) -> None:
    run_id = (await served.invoke("write", name="a.txt", size=1)).json()["run_id"]
    run = (await served.http.get(f"/runs/{run_id}")).json()
    assert run.keys() == {
        "run_id",
        "skill",
        "state",
        "attempt",
        "result",
        "artifacts",
        "changes",
        "created_at",
        "updated_at",
    }
    assert (run["skill"], run["state"], run["attempt"], run["result"]) == (
        "write",
        "succeeded",
        1,
        10,
    )
    failed = (await served.invoke("fail", message="boom")).json()
    run = (await served.http.get(f"/runs/{failed['run_id']}")).json()
    assert run["state"] == "failed"
    assert run["error"]["code"] == "skill-failed"
    assert "LookupError" in run["error"]["error"]


async def test_events_are_pages_that_go_on(served: Served) -> None:
    run_id = (await served.invoke("tell", words=5)).json()["run_id"]
    whole = (await served.http.get(f"/runs/{run_id}/events")).json()
    assert [event["seq"] for event in whole["events"]] == list(range(1, whole["next"] + 1))
    assert all(event["at"].endswith("Z") for event in whole["events"])
    after = (await served.http.get(f"/runs/{run_id}/events?after=3&limit=2")).json()
    assert [event["seq"] for event in after["events"]] == [4, 5]
    assert after["next"] == 5
    empty = (await served.http.get(f"/runs/{run_id}/events?after={whole['next']}")).json()
    assert empty == {"events": [], "next": whole["next"]}


async def test_waiting_for_events_ends_with_the_first_one(served: Served) -> None:
    run_id = (await served.invoke("ask", question="?")).json()["run_id"]
    page = (await served.http.get(f"/runs/{run_id}/events")).json()
    waiting = asyncio.ensure_future(served.http.get(f"/runs/{run_id}/events?after={page['next']}&wait=20"))
    question = next(event for event in page["events"] if event["kind"] == "question")
    await served.http.post(f"/answers/{question['payload']['question_id']}", json={"answer": "x"})
    async with asyncio.timeout(10):
        assert (await waiting).json()["events"]


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("?after=99", 409, "cursor-ahead"),
        ("?after=x", 400, "invalid-request"),
        ("?after=-1", 400, "invalid-request"),
        ("?wait=31", 400, "invalid-request"),
        ("?wait=nan", 400, "invalid-request"),
        ("?limit=0.5", 200, None),
    ],
)
async def test_a_cursor_that_cannot_be_is_refused(
    served: Served, query: str, status: int, code: str | None
) -> None:
    run_id = (await served.invoke("nothing")).json()["run_id"]
    answer = await served.http.get(f"/runs/{run_id}/events{query}")
    assert (answer.status_code, answer.json().get("code")) == (status, code)


async def test_cancelling_ends_a_run_and_repeats_safely(served: Served) -> None:
    run_id = (
        await served.http.post(
            "/invoke/wait", json={"arguments": {"seconds": 60}}, headers={"prefer": "respond-async"}
        )
    ).json()["run_id"]
    assert (await served.http.post(f"/runs/{run_id}/cancel")).status_code == 200
    stream = await served.frames("GET", f"/runs/{run_id}/events")
    assert (stream[-2][1]["type"], stream[-2][1]["code"], stream[-2][1]["status"]) == (
        "error",
        "cancelled",
        499,
    )
    again = await served.http.post(f"/runs/{run_id}/cancel")
    assert (again.status_code, again.json()["state"]) == (200, "cancelled")


async def test_a_caller_that_waits_learns_of_the_cancel(served: Served) -> None:
    posted = asyncio.ensure_future(
        served.http.post(
            "/invoke/wait", json={"arguments": {"seconds": 60}}, headers={"idempotency-key": "w1"}
        )
    )

    async def runs() -> bool:
        return (await served.app.gate.runs(None, limit=1))[0].state == "running"

    await until(runs)
    run_id = (await served.app.gate.runs(None, limit=1))[0].run_id
    await served.http.post(f"/runs/{run_id}/cancel")
    answer = await posted
    assert (answer.status_code, answer.json()["code"], answer.json()["status"]) == (409, "cancelled", 499)


async def ask(served: Served, skill: str = "ask", **arguments: Any) -> tuple[str, str]:
    body = (await served.invoke(skill, **(arguments or ({"question": "?"} if skill == "ask" else {})))).json()
    return body["run_id"], body["interaction"]["id"]


async def test_answers_are_given_once(served: Served) -> None:
    run_id, question = await ask(served)
    path = f"/answers/{question}"
    assert (await served.http.post(path, json={"answer": "a", "run_id": "run_x"})).status_code == 404
    assert (await served.http.post("/input-requests/" + question, json={"value": "a"})).status_code == 404
    assert (await served.http.post(path, json={})).status_code == 400
    assert (await served.http.post(path, json={"answer": 3})).json()["code"] == "answer-invalid"
    assert (await served.http.post(path, json={"answer": "a", "run_id": run_id})).json() == {
        "state": "answered"
    }
    assert (await served.http.post(path, json={"answer": "a"})).status_code == 200
    other = await served.http.post(path, json={"answer": "b"})
    assert (other.status_code, other.json()["code"]) == (409, "already-answered")
    assert (await served.http.post("/answers/q_unknown", json={"answer": "a"})).status_code == 404


async def test_a_form_is_validated_and_stays_open(served: Served) -> None:
    run_id, form = await ask(served, "form")
    path = f"/input-requests/{form}"
    wrong = await served.http.post(path, json={"value": {"name": "Ada", "age": "old"}})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "answer-invalid")
    assert wrong.json()["errors"]
    assert (await served.http.post(path, json={"value": {"name": "Ada", "age": 36}})).status_code == 200
    stream = await served.frames("GET", f"/runs/{run_id}/events")
    assert stream[-2][1]["result"] == "Ada 36"


async def test_a_question_may_be_declined_and_is_closed_with_its_run(served: Served) -> None:
    run_id, question = await ask(served)
    declined = await served.http.post(f"/answers/{question}", json={"declined": True, "reason": "private"})
    assert declined.json() == {"state": "denied"}
    stream = await served.frames("GET", f"/runs/{run_id}/events")
    assert stream[-2][1]["code"] == "declined"
    run_id, question = await ask(served)
    await served.http.post(f"/runs/{run_id}/cancel")
    await served.frames("GET", f"/runs/{run_id}/events")
    late = await served.http.post(f"/answers/{question}", json={"answer": "a"})
    assert (late.status_code, late.json()["code"]) == (410, "interaction-closed")


@pytest.mark.parametrize(
    ("asked_range", "status", "body", "content_range"),
    [
        (None, 200, b"0123456789" * 3, None),
        ("bytes=0-4", 206, b"01234", "bytes 0-4/30"),
        ("bytes=25-", 206, b"56789", "bytes 25-29/30"),
        ("bytes=-3", 206, b"789", "bytes 27-29/30"),
        ("bytes=28-99", 206, b"89", "bytes 28-29/30"),
        ("bytes=30-", 416, b"", "bytes */30"),
        ("bytes=5-2", 200, b"0123456789" * 3, None),
        ("lines=1-2", 200, b"0123456789" * 3, None),
    ],
)
async def test_an_artifact_is_downloaded_whole_or_in_part(
    served: Served, asked_range: str | None, status: int, body: bytes, content_range: str | None
) -> None:
    run_id = (await served.invoke("write", name="out/a b.txt", size=3)).json()["run_id"]
    headers = {"range": asked_range} if asked_range else {}
    answer = await served.http.get(f"/runs/{run_id}/artifacts/out/a%20b.txt", headers=headers)
    assert (answer.status_code, answer.content) == (status, body)
    assert answer.headers.get("content-range") == content_range
    assert answer.headers["x-content-type-options"] == "nosniff"
    tag = answer.headers["etag"]
    again = await served.http.get(f"/runs/{run_id}/artifacts/out/a%20b.txt", headers={"if-none-match": tag})
    assert again.status_code == 304


async def test_an_artifact_that_is_not_there_is_404(served: Served) -> None:
    run_id = (await served.invoke("nothing")).json()["run_id"]
    answer = await served.http.get(f"/runs/{run_id}/artifacts/none.txt")
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


async def test_the_agent_says_what_it_is(served: Served) -> None:
    health = (await served.http.get("/healthz")).json()
    assert health == {"ok": True, "agent": "sample", "version": "1.2.3"}
    assert (await served.http.get("/readyz")).json()["ok"] is True
    native = (await served.http.get("/.well-known/agent-card")).json()
    assert native["skills"][0]["input_schema"]["additionalProperties"] is False
    skills = (await served.http.get("/.well-known/a2a-skills.json")).json()
    assert skills == {"skills": native["skills"]}
    document = (await served.http.get("/.well-known/openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    assert "/invoke/shout" in document["paths"]


async def test_the_a2a_card_has_both_versions_and_its_address(served: Served) -> None:
    answer = await served.http.get("/.well-known/agent-card.json")
    card = answer.json()
    assert {place["protocolVersion"] for place in card["supportedInterfaces"]} == {"1.0", "0.3"}
    assert card["url"] == f"{served.url}/"
    assert card["capabilities"]["extensions"]
    assert [skill["id"] for skill in card["skills"]][:2] == ["shout", "add"]
    again = await served.http.get(
        "/.well-known/agent-card.json", headers={"if-none-match": answer.headers["etag"]}
    )
    assert again.status_code == 304
    assert (await served.http.head("/.well-known/agent-card.json")).status_code == 200


async def test_an_agent_that_lacks_a_secret_is_alive_but_not_ready() -> None:
    from packages.skills.tests.serve.sample import Sample

    class Needy(Sample):
        name = "needy"
        required_secrets = ("TOKEN_THAT_IS_NOT_THERE",)

    async with serving(Needy()) as served:
        assert (await served.http.get("/healthz")).status_code == 200
        ready = await served.http.get("/readyz")
        assert ready.status_code == 503
        assert "TOKEN_THAT_IS_NOT_THERE" in str(ready.json()["reasons"])
        refused = await served.invoke("nothing")
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/invoke/shout", 405),
        ("DELETE", "/runs/run_x", 405),
        ("POST", "/runs/run_x", 405),
        ("GET", "/runs/run_x", 404),
        ("GET", "/nowhere", 404),
        ("GET", "/_dev", 404),
        ("POST", "/mcp", 404),
        ("PUT", "/healthz", 405),
    ],
)
async def test_other_paths_and_methods_have_plain_answers(
    served: Served, method: str, path: str, status: int
) -> None:
    answer = await served.http.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error"]
