"""Agents with a URL: the platform carries each message to them."""

import json
import threading
from typing import Any

import pytest

from molecule_wire.a2a import text
from tests.spec.platforms import Platform, Start
from tests.spec.scripted_agent import ScriptedAgent, join_push

pytestmark = [pytest.mark.both_engines, pytest.mark.usefixtures("prompt_retries")]


@pytest.fixture
def platform(patient: Platform) -> Platform:
    """What is asked here is also answered."""
    return patient


def test_a_message_is_carried_to_the_agent_and_its_answer_comes_back(
    platform: Platform, agent: ScriptedAgent
) -> None:
    client = join_push(platform, agent, dispatch_secret="sesame")
    answer = platform.send(client.workspace_id, "hello", headers={"X-Timeout": "30"})
    assert answer.status_code == 200
    body = answer.json()
    assert body["id"] == "1"
    assert text.text_of(body["result"]) == "re: hello"
    headers, sent = agent.received[0]
    assert sent["params"]["message"]["parts"] == [{"kind": "text", "text": "hello"}]
    assert headers["X-Molecule-Attempt"] == "1"
    assert headers["Authorization"] == "Bearer sesame"
    assert 1 <= int(headers["X-Timeout"]) <= 30
    assert platform.admin_token not in json.dumps(headers)
    row = platform.ok("GET", f"/messages/{headers['X-Molecule-Message-Id']}")
    assert (row["status"], row["attempts"], row["delivery_mode"]) == ("answered", 1, "push")


def test_the_message_is_a_row_before_the_agent_sees_it(platform: Platform, agent: ScriptedAgent) -> None:
    client = join_push(platform, agent)
    seen: list[list[dict[str, Any]]] = []

    def look(_body: dict[str, Any]) -> dict[str, Any]:
        seen.append(platform.ok("GET", "/events?type=MESSAGE_ACCEPTED"))
        return {"result": "ok"}

    agent.respond = look
    platform.send(client.workspace_id, "hello")
    assert [event["workspace_id"] for event in seen[0]] == [client.workspace_id]


def test_an_old_push_server_gets_the_members_it_knows(platform: Platform, agent: ScriptedAgent) -> None:
    client = join_push(platform, agent, "/a2a/inbound")
    agent.script = [(200, {"status": "ok", "result": {"text": "old but good"}})]
    body = platform.send(client.workspace_id, "hello").json()
    assert text.text_of(body["result"]) == "old but good"
    headers, sent = agent.received[0]
    assert sent["message"] == "hello"
    assert sent["sender"] == "user:admin"
    assert sent["idempotency_key"] == headers["X-Molecule-Message-Id"]
    assert sent["jsonrpc"] == "2.0"


def test_a_failing_agent_is_tried_again_with_the_same_message_id(
    platform: Platform, agent: ScriptedAgent
) -> None:
    client = join_push(platform, agent)
    agent.script = [(500, {"error": "x"})]
    sent = platform.send(client.workspace_id, "hello", headers={"Prefer": "respond-async"}).json()
    ended = platform.ok("GET", f"/messages/{sent['message_id']}?wait=20")
    assert (ended["status"], ended["attempts"]) == ("answered", 2)
    ids = {headers["X-Molecule-Message-Id"] for headers, _ in agent.received}
    assert ids == {sent["message_id"]}


def test_an_agent_that_owns_its_retries_is_asked_once(platform: Platform, agent: ScriptedAgent) -> None:
    client = join_push(platform, agent)
    beat = {
        "workspace_id": client.workspace_id,
        "runtime_metadata": {"capabilities": {"retry": True}},
    }
    platform.ok("POST", "/registry/heartbeat", client.load_token(), json=beat)
    agent.script = [(500, {"error": "x"})]
    sent = platform.send(client.workspace_id, "hello", headers={"Prefer": "respond-async"}).json()
    ended = platform.ok("GET", f"/messages/{sent['message_id']}?wait=15")
    assert (ended["status"], ended["attempts"], len(agent.received)) == ("failed", 1, 1)


def test_after_all_attempts_the_message_is_a_dead_letter(configured: Start, agent: ScriptedAgent) -> None:
    platform = configured(MESSAGE_MAX_ATTEMPTS=1, MOLECULE_A2A_HOLD_SECONDS=30)
    client = join_push(platform, agent)
    agent.script = [(500, {"error": "x"})]
    answer = platform.send(client.workspace_id, "hello")
    assert answer.status_code == 502
    assert answer.json()["code"] == "invalid-agent-response"
    ended = platform.ok("GET", f"/messages/{answer.json()['message_id']}")
    assert (ended["status"], ended["dead_letter"]) == ("failed", True)


def test_the_sender_is_told_with_which_status_the_agent_answered(
    platform: Platform, agent: ScriptedAgent
) -> None:
    client = join_push(platform, agent)
    agent.script = [(404, {"error": "x"})]
    answer = platform.send(client.workspace_id, "hello")
    assert answer.status_code == 502
    [info] = answer.json()["error"]["data"]
    assert info["metadata"] == {
        "code": "invalid-agent-response",
        "agent_status": "404",
        "request_id": answer.headers["X-Request-Id"],
    }


def test_an_outcome_has_one_code_in_every_place_and_names_the_request(platform: Platform) -> None:
    client = platform.join("a")
    client.heartbeat()
    answer = platform.send(client.workspace_id, "hello", headers={"X-Timeout": "1", "Prefer": "wait=5"})
    assert answer.status_code == 504
    told, request_id = answer.json(), answer.headers["X-Request-Id"]
    [info] = told["error"]["data"]
    assert info["metadata"] == {"code": "deadline-exceeded", "request_id": request_id}
    assert (told["code"], told["request_id"]) == ("deadline-exceeded", request_id)


def test_the_agents_own_error_is_passed_on_unchanged(platform: Platform, agent: ScriptedAgent) -> None:
    client = join_push(platform, agent)
    error = {"code": -32004, "message": "not me", "data": [{"odd": 2**60}]}
    agent.script = [(200, {"jsonrpc": "2.0", "id": "1", "error": error})]
    answer = platform.send(client.workspace_id, "hello")
    assert answer.status_code == 400
    assert answer.json()["error"] == error


def test_one_at_a_time_where_the_operators_say_so(platform: Platform, agent: ScriptedAgent) -> None:
    client = join_push(platform, agent)
    platform.ok("PATCH", f"/workspaces/{client.workspace_id}", json={"max_concurrent_tasks": 1})
    together: list[int] = []
    most: list[int] = []
    lock = threading.Lock()

    def slow(_body: dict[str, Any]) -> dict[str, Any]:
        with lock:
            together.append(1)
            most.append(len(together))
        threading.Event().wait(0.05)
        with lock:
            together.pop()
        return {"result": "ok"}

    agent.respond = slow
    ids = [
        platform.send(client.workspace_id, f"{n}", headers={"Prefer": "respond-async"}).json()["message_id"]
        for n in range(6)
    ]
    for mid in ids:
        assert platform.ok("GET", f"/messages/{mid}?wait=20")["status"] == "answered"
    assert max(most) == 1


def test_a_1_0_caller_and_a_0_3_agent_understand_each_other(platform: Platform, agent: ScriptedAgent) -> None:
    client = join_push(platform, agent)
    body = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "SendMessage",
        "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}},
    }
    answer = platform.ok(
        "POST", f"/workspaces/{client.workspace_id}/a2a", json=body, headers={"A2A-Version": "1.0"}
    )
    assert answer["result"]["message"]["role"] == "ROLE_AGENT"
    assert answer["result"]["message"]["parts"] == [{"text": "re: hello"}]
    assert agent.received[0][1]["method"] == "message/send"
