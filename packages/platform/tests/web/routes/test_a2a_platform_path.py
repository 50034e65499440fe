"""The platform's A2A path: what the sender is told, in its own dialect, in every case of the table."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Answer, Eventually, Visitor
    from packages.platform.tests.web.conftest import MisbehavingAgent


def send(said: str = "hello", rpc_id: Any = 7, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "parts": [{"kind": "text", "text": said}], **more}
    return {"jsonrpc": "2.0", "id": rpc_id, "method": "message/send", "params": {"message": message}}


NEW_SEND: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "SendMessage",
    "params": {"message": {"messageId": "n1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}},
}
NEW = {"a2a-version": "1.0"}
NOW = {"prefer": "respond-async"}
BEFORE_THE_HOLD_ENDS = 20.0


async def post(visit: Visitor, workspace: str, body: Any, **more: Any) -> Answer:
    return await visit("POST", f"/workspaces/{workspace}/a2a", body, **more)


async def test_an_answer_while_held_comes_with_the_request_s_own_id(
    visit: Visitor, agent: MisbehavingAgent
) -> None:
    ada, _ = await visit.agent(url=agent.url)
    answer = await post(visit, ada, send(rpc_id="mine"))
    assert (answer.status, answer.json["id"]) == (200, "mine")
    assert answer.json["result"]["parts"][0]["text"] == "hi"


async def test_a_task_repeats_its_final_text_for_simple_readers_of_0_3(
    visit: Visitor, agent: MisbehavingAgent
) -> None:
    ada, _ = await visit.agent(url=agent.url)
    done = {
        "state": "completed",
        "message": {"role": "agent", "messageId": "x", "parts": [{"kind": "text", "text": "four"}]},
    }
    agent.will_say(200, {"result": {"kind": "task", "id": "t", "contextId": "c", "status": done}})
    result = (await post(visit, ada, send())).json["result"]
    assert (result["kind"], result["parts"]) == ("task", [{"kind": "text", "text": "four"}])


async def answered_from_the_inbox(visit: Visitor, body: Any, **more: Any) -> Answer:
    ada, token = await visit.agent()
    asking = asyncio.ensure_future(post(visit, ada, body, **more))
    taken = await visit("POST", f"/workspaces/{ada}/inbox/lease", {"wait": 20}, token=token)
    [item] = taken.json["messages"]
    settled = {"lease_token": item["lease"]["token"], "text": "four"}
    await visit("POST", f"/workspaces/{ada}/inbox/{item['message_id']}/answer", settled, token=token)
    return await asyncio.wait_for(asking, BEFORE_THE_HOLD_ENDS)


async def test_a_polling_agent_s_answer_reaches_a_held_caller_in_0_3(visit: Visitor) -> None:
    result = (await answered_from_the_inbox(visit, send())).json["result"]
    assert (result["kind"], result["status"]["state"]) == ("task", "completed")
    assert result["parts"] == [{"kind": "text", "text": "four"}]


async def test_a_polling_agent_s_answer_reaches_a_held_caller_in_1_0(visit: Visitor) -> None:
    result = (await answered_from_the_inbox(visit, NEW_SEND, headers=NEW)).json["result"]
    assert list(result) == ["task"]
    assert result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert result["task"]["status"]["message"]["parts"] == [{"text": "four"}]


async def test_a_caller_that_does_not_wait_gets_a_task_and_where_to_ask(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    answer = (await post(visit, ada, send(), headers=NOW)).json
    assert (answer["queued"], answer["status"], answer["queue_depth"]) == (True, "queued", 1)
    assert answer["queue_id"] == answer["message_id"] == answer["result"]["id"]
    assert answer["status_url"] == f"http://platform/messages/{answer['message_id']}"
    assert (answer["delivery_mode"], answer["method"]) == ("poll", "message/send")
    shown = await visit("GET", f"/messages/{answer['message_id']}")
    assert shown.json["status"] == "accepted"


@pytest.mark.parametrize("way", ["header", "0.3", "1.0"])
async def test_there_are_three_ways_to_say_that_one_does_not_wait(visit: Visitor, way: str) -> None:
    ada, _ = await visit.agent()
    body = send()
    headers: dict[str, str] = {}
    if way == "header":
        headers = NOW
    elif way == "0.3":
        body["params"]["configuration"] = {"blocking": False}
    else:
        body, headers = (
            {**NEW_SEND, "params": {**NEW_SEND["params"], "configuration": {"returnImmediately": True}}},
            NEW,
        )
    answer = await asyncio.wait_for(post(visit, ada, body, headers=headers), BEFORE_THE_HOLD_ENDS)
    assert answer.json["queued"] is True


async def test_a_hold_that_is_over_answers_with_the_task_as_it_stands(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    answer = await asyncio.wait_for(
        post(visit, ada, send(), headers={"prefer": "wait=0"}), BEFORE_THE_HOLD_ENDS
    )
    assert (answer.status, answer.json["result"]["status"]["state"]) == (200, "submitted")


async def test_a_paused_target_stores_and_says_so(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    await visit("POST", f"/workspaces/{ada}/pause")
    answer = await post(visit, ada, send())
    assert (answer.status, answer.json["workspace_status"], answer.json["queued"]) == (202, "paused", True)


async def test_a_busy_push_target_answers_202(visit: Visitor, agent: MisbehavingAgent) -> None:
    ada, _ = await visit.agent(url=agent.url)
    agent.silent = True
    answer = await post(visit, ada, send(), headers=NOW)
    assert (answer.status, "delivery_mode" in answer.json) == (202, False)


async def test_whoever_would_rather_be_refused_than_wait_is_refused(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    await visit("POST", f"/workspaces/{ada}/pause")
    answer = await post(visit, ada, send(), headers={"x-molecule-queue": "never"})
    assert (answer.status, answer.json["code"], answer.headers["retry-after"]) == (
        503,
        "peer-unavailable",
        "30",
    )
    assert (await visit("GET", f"/workspaces/{ada}")).json["pending"] == 0


async def test_a_caller_that_goes_away_cancels_nothing(visit: Visitor, eventually: Eventually) -> None:
    ada, token = await visit.agent()
    leaves = asyncio.Event()
    asking = asyncio.ensure_future(post(visit, ada, send(), leaves=leaves))

    async def arrived() -> bool:
        return bool((await visit("GET", f"/workspaces/{ada}/inbox", token=token)).json["messages"])

    await eventually(arrived)
    leaves.set()
    await asyncio.wait_for(asking, BEFORE_THE_HOLD_ENDS)
    assert (await visit("GET", f"/workspaces/{ada}/inbox", token=token)).json["pending"] == 1


async def test_a_repeat_attaches_and_says_so(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    sent = [await post(visit, ada, send(messageId="r1", rpc_id=n), headers=NOW) for n in (1, 2)]
    assert sent[0].json["message_id"] == sent[1].json["message_id"]
    assert [answer.headers.get("idempotency-replayed") for answer in sent] == [None, "true"]


async def test_the_same_key_with_another_body_is_a_conflict(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    headers = NOW | {"idempotency-key": "k"}
    await post(visit, ada, send("one"), headers=headers)
    answer = await post(visit, ada, send("two"), headers=headers)
    assert (answer.status, answer.json["code"]) == (409, "idempotency-conflict")


@pytest.mark.parametrize(
    ("body", "status", "rpc_code", "rpc_id"),
    [
        (b"{", 400, -32700, None),
        (b"[]", 400, -32600, None),
        ({"id": 7}, 400, -32600, 7),
        ({"id": 0, "method": "nonsense"}, 404, -32601, 0),
        ({"id": 7, "method": "message/send", "params": {}}, 400, -32602, 7),
        ({"id": 7, "method": "tasks/get", "params": {"id": "none"}}, 404, -32001, 7),
    ],
)
async def test_an_envelope_that_is_wrong_gets_the_protocol_s_error_with_its_id(
    visit: Visitor, body: Any, status: int, rpc_code: int, rpc_id: Any
) -> None:
    ada, _ = await visit.agent()
    answer = await post(visit, ada, body)
    assert answer.status == status
    assert (answer.json["error"]["code"], answer.json["id"]) == (rpc_code, rpc_id)
    assert answer.json["request_id"] == answer.headers["x-request-id"]


async def test_a_refusal_of_the_house_is_an_error_object_with_its_facts_at_the_top(visit: Visitor) -> None:
    lead, _ = await visit.agent("Lead")
    ada, _ = await visit.workspace("Ada", parent_id=lead)
    other, _ = await visit.agent("Other")
    _leaf, token = await visit.workspace("Leaf", parent_id=other)
    answer = await post(visit, ada, send(), token=token)
    assert (answer.status, answer.json["code"], answer.json["id"]) == (403, "hierarchy-denied", 7)
    [info] = answer.json["error"]["data"]
    assert (answer.json["error"]["code"], info["domain"]) == (-32600, "molecule.ai")
    assert info["metadata"]["rule"] == "denied"
    assert info["metadata"]["explain_url"].startswith("/access/explain?")


async def test_an_agent_s_own_error_reaches_the_caller_as_it_came(
    visit: Visitor, agent: MisbehavingAgent
) -> None:
    ada, _ = await visit.agent(url=agent.url)
    error = {"code": -32602, "message": "no such city", "data": {"city": "Atlantis"}}
    agent.will_say(200, {"jsonrpc": "2.0", "id": 1, "error": error})
    answer = await post(visit, ada, send())
    assert (answer.status, answer.json["error"], answer.json["id"]) == (400, error, 7)


async def test_an_answer_that_is_no_use_is_a_bad_gateway_with_what_is_known(
    visit: Visitor, agent: MisbehavingAgent
) -> None:
    ada, _ = await visit.agent(url=agent.url)
    agent.will_say(404, b"<html>")
    answer = await post(visit, ada, send())
    assert (answer.status, answer.json["code"]) == (502, "invalid-agent-response")
    assert answer.json["delivery_confirmed"] is True


async def test_a_deadline_that_passes_while_held_is_a_gateway_time_out(visit: Visitor) -> None:
    ada, _ = await visit.agent()
    answer = await post(visit, ada, send(), headers={"x-timeout": "1", "prefer": "wait=4"})
    assert (answer.status, answer.json["code"]) == (504, "deadline-exceeded")
    shown = await visit("GET", f"/messages/{answer.json['message_id']}")
    assert shown.json["status"] == "expired"


async def test_the_caller_s_token_never_reaches_the_agent(visit: Visitor, agent: MisbehavingAgent) -> None:
    ada, _ = await visit.agent(url=agent.url, dispatch_secret="hush")
    _, token = await visit.agent("Bob")
    await post(visit, ada, send(), token=token, headers={"cookie": "a=b", "x-molecule-anything": "x"})
    [request] = agent.received
    assert request.headers["authorization"] == "Bearer hush"
    assert token not in repr(request)
    assert {"cookie", "x-molecule-anything"}.isdisjoint(request.headers)


async def test_a_message_that_an_agent_cannot_be_told_in_its_dialect_still_ends(
    visit: Visitor, agent: MisbehavingAgent
) -> None:
    ada, _ = await visit.agent(url=agent.url)
    answer = await post(visit, ada, NEW_SEND, headers=NEW)
    assert answer.json["result"]["message"]["parts"] == [{"text": "hi"}]
