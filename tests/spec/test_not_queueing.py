"""A sender that would rather be refused than wait in a queue."""

import pytest

from molecule_agent import RemoteAgentClient
from molecule_wire.a2a import text
from tests.spec.platforms import Platform, message
from tests.spec.scripted_agent import ScriptedAgent, join_push

NEVER = {"X-Molecule-Queue": "never"}


@pytest.fixture
def platform(patient: Platform) -> Platform:
    """What is asked here is also answered."""
    return patient


def open_messages(platform: Platform, client: RemoteAgentClient) -> int:
    peeked = platform.ok("GET", f"/workspaces/{client.workspace_id}/inbox")
    return peeked["pending"] + peeked["leased"]


def test_an_agent_that_is_free_answers(platform: Platform, agent: ScriptedAgent) -> None:
    client = join_push(platform, agent)
    answer = platform.send(client.workspace_id, "hello", headers=NEVER)
    assert answer.status_code == 200
    assert text.text_of(answer.json()["result"]) == "re: hello"


def test_a_paused_agent_is_unavailable_and_nothing_is_stored(platform: Platform) -> None:
    client = platform.join("a")
    platform.ok("POST", f"/workspaces/{client.workspace_id}/pause")
    answer = platform.send(client.workspace_id, "hello", headers=NEVER)
    assert (answer.status_code, answer.json()["code"]) == (503, "peer-unavailable")
    assert int(answer.headers["Retry-After"]) > 0
    assert open_messages(platform, client) == 0


def test_an_agent_that_never_came_is_unavailable(platform: Platform) -> None:
    created = platform.create("a")
    answer = platform.send(created["id"], "hello", headers=NEVER)
    assert (answer.status_code, answer.json()["code"]) == (503, "peer-unavailable")
    assert "awaiting_agent" in answer.json()["error"]["message"]


def test_a_busy_agent_is_busy_and_gets_nothing_more(platform: Platform, agent: ScriptedAgent) -> None:
    client = join_push(platform, agent)
    platform.ok("PATCH", f"/workspaces/{client.workspace_id}", json={"max_concurrent_tasks": 1})
    busy = agent.keep_busy()
    first = platform.send(client.workspace_id, "one", headers={"Prefer": "respond-async"}).json()
    assert busy.arrived.wait(30)
    answer = platform.send(client.workspace_id, "two", headers=NEVER)
    busy.leave.set()
    body = answer.json()
    assert (answer.status_code, body["code"]) == (503, "peer-busy")
    assert (body["busy"], body["retry_after"], answer.headers["Retry-After"]) == (True, 30, "30")
    assert platform.ok("GET", f"/messages/{first['message_id']}?wait=20")["status"] == "answered"
    assert len(agent.received) == 1


def test_a_conversation_that_the_agent_is_busy_with_is_busy_though_the_agent_has_room(
    platform: Platform, agent: ScriptedAgent
) -> None:
    client = join_push(platform, agent)
    busy = agent.keep_busy()
    path = f"/workspaces/{client.workspace_id}/a2a"
    one, two = message("one"), message("two")
    for said in (one, two):
        said["params"]["message"]["contextId"] = "c1"
    platform.call("POST", path, json=one, headers={"Prefer": "respond-async"})
    assert busy.arrived.wait(30)
    answer = platform.call("POST", path, json=two, headers=NEVER)
    busy.leave.set()
    assert (answer.status_code, answer.json()["code"]) == (503, "peer-busy")


def test_sending_the_message_again_that_the_agent_is_busy_with_attaches_to_it(
    platform: Platform, agent: ScriptedAgent
) -> None:
    client = join_push(platform, agent)
    busy = agent.keep_busy()
    path = f"/workspaces/{client.workspace_id}/a2a"
    headers = NEVER | {"Prefer": "respond-async"}
    first = platform.ok("POST", path, json=message("one", "m1"), headers=headers)
    assert busy.arrived.wait(30)
    again = platform.call("POST", path, json=message("one", "m1"), headers=headers)
    busy.leave.set()
    assert again.json()["message_id"] == first["message_id"]
    assert again.headers["Idempotency-Replayed"] == "true"


@pytest.mark.parametrize("spelling", ["never", "NEVER"])
def test_the_refusal_answers_the_request_whatever_the_spelling(platform: Platform, spelling: str) -> None:
    client = platform.join("a")
    platform.ok("POST", f"/workspaces/{client.workspace_id}/pause")
    body = platform.send(client.workspace_id, "x", headers={"X-Molecule-Queue": spelling}).json()
    assert body["error"]["data"][0]["reason"] == "PEER_UNAVAILABLE"
    assert body["id"] == "1"


def test_an_agent_with_sessions_of_its_own_says_itself_that_it_is_busy(
    platform: Platform, agent: ScriptedAgent
) -> None:
    client = join_push(platform, agent)
    beat = {
        "workspace_id": client.workspace_id,
        "runtime_metadata": {"capabilities": {"session": True}},
    }
    platform.ok("POST", "/registry/heartbeat", token=client.load_token(), json=beat)
    agent.script.append((503, {}))
    answer = platform.send(client.workspace_id, "hello")
    body = answer.json()
    assert (answer.status_code, body["code"], answer.headers["Retry-After"]) == (503, "peer-busy", "30")
    assert (body["busy"], body["native_session"]) == (True, True)
    assert open_messages(platform, client) == 0


def test_an_agent_with_sessions_of_its_own_that_failed_is_given_the_message_again(
    platform: Platform, agent: ScriptedAgent
) -> None:
    client = join_push(platform, agent)
    beat = {
        "workspace_id": client.workspace_id,
        "runtime_metadata": {"capabilities": {"session": True}},
    }
    platform.ok("POST", "/registry/heartbeat", token=client.load_token(), json=beat)
    asks_again = {"error": "the engine ended", "code": "agent-busy", "retry_after": 1, "redeliver": True}
    agent.script.append((503, asks_again))
    answer = platform.send(client.workspace_id, "hello")
    assert answer.status_code == 200, answer.text
    assert len(agent.received) == 2
    assert open_messages(platform, client) == 0
