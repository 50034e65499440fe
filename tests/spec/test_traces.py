"""A W3C trace goes on over every hop: to agents with a URL and without one, to delegations, and back."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from molecule_agent import A2AServer, InboundMessage, RemoteAgentClient
from tests.spec.platforms import Platform, message
from tests.spec.scripted_agent import Body, ScriptedAgent, join_push

pytestmark = pytest.mark.both_engines

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
GIVEN = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
ASYNC = {"Prefer": "respond-async"}


def leased(platform: Platform, agent: RemoteAgentClient) -> dict[str, Any]:
    path = f"/workspaces/{agent.workspace_id}/inbox/lease"
    [item] = platform.ok("POST", path, agent.load_token(), json={"wait": 20, "limit": 1})["messages"]
    return item


def trace_of(traceparent: str) -> str:
    version, trace, step, flags = traceparent.split("-")
    assert (version, len(step), flags) == ("00", 16, "01")
    return trace


def tell(platform: Platform, agent: RemoteAgentClient, item: dict[str, Any], verb: str, **body: Any) -> None:
    path = f"/workspaces/{agent.workspace_id}/inbox/{item['message_id']}/{verb}"
    platform.ok("POST", path, agent.load_token(), json={"lease_token": item["lease"]["token"], **body})


def send_as(agent: RemoteAgentClient, platform: Platform, target: str, **headers: str) -> None:
    """A message of the agent, by a client that knows nothing of traces unless it is told."""
    path = f"/workspaces/{target}/a2a"
    platform.ok("POST", path, agent.load_token(), json=message("and you?"), headers=ASYNC | headers)


@pytest.fixture
def lead(platform: Platform) -> RemoteAgentClient:
    """An agent that takes its mail from its inbox."""
    return platform.join("lead")


@pytest.fixture
def asked(platform: Platform, lead: RemoteAgentClient) -> dict[str, Any]:
    """The message that it has at work, sent in a trace."""
    platform.send(lead.workspace_id, "hello", headers=ASYNC | GIVEN)
    return leased(platform, lead)


def test_a_message_from_the_inbox_names_its_trace(asked: dict[str, Any]) -> None:
    assert trace_of(asked["traceparent"]) == TRACE
    assert "00f067aa0ba902b7" not in asked["traceparent"], "the step is ours"


@pytest.mark.usefixtures("asked")
def test_what_is_sent_for_a_message_goes_on_with_its_trace_to_an_agent_with_a_url(
    platform: Platform, lead: RemoteAgentClient, agent: ScriptedAgent
) -> None:
    peer = join_push(platform, agent)
    arrived = agent.keep_busy()
    arrived.leave.set()
    send_as(lead, platform, peer.workspace_id)
    assert arrived.arrived.wait(20)
    assert trace_of(agent.received[0][0]["traceparent"]) == TRACE


@pytest.mark.usefixtures("asked")
def test_a_trace_that_the_sender_names_is_not_replaced(platform: Platform, lead: RemoteAgentClient) -> None:
    peer, other = platform.join("peer"), "a" * 32
    send_as(lead, platform, peer.workspace_id, traceparent=f"00-{other}-00f067aa0ba902b7-01")
    assert trace_of(leased(platform, peer)["traceparent"]) == other


@pytest.mark.usefixtures("asked")
def test_a_delegation_and_the_report_of_its_end_are_in_the_trace(
    platform: Platform, lead: RemoteAgentClient
) -> None:
    worker = platform.join("worker")
    path, body = f"/workspaces/{lead.workspace_id}/delegations", {"task": "the work", "report": "inbox"}
    platform.ok("POST", path, lead.load_token(), json=body | {"target_id": worker.workspace_id})
    task = leased(platform, worker)
    assert (task["kind"], trace_of(task["traceparent"])) == ("delegation", TRACE)
    tell(platform, worker, task, "answer", text="done")
    report = leased(platform, lead)
    assert (report["kind"], trace_of(report["traceparent"])) == ("delegation_result", TRACE)


@pytest.mark.usefixtures("asked")
def test_a_reply_that_comes_as_a_message_is_in_the_trace_of_what_it_answers(
    platform: Platform, lead: RemoteAgentClient
) -> None:
    peer = platform.join("peer")
    send_as(lead, platform, peer.workspace_id)
    leased(platform, peer)
    path = f"/workspaces/{lead.workspace_id}/a2a"
    reply = message("an answer", role="agent")
    assert platform.ok("POST", path, peer.load_token(), json=reply)["result"]["settled"] is True
    came = leased(platform, lead)
    assert (came["kind"], trace_of(came["traceparent"])) == ("reply", TRACE)


def test_the_servers_of_agents_hand_the_trace_to_what_their_handlers_send(
    platform: Platform, agent: ScriptedAgent
) -> None:
    """Over three hops: a person, an agent with the SDK's server, and one whose requests are seen."""
    last = join_push(platform, agent)
    first = platform.join("first")

    def ask(message: InboundMessage, client: RemoteAgentClient) -> str:
        return client.ask_peer(last.workspace_id, message.text)

    server: A2AServer = first.start_a2a_server(ask, host="127.0.0.1")
    try:
        first.register()
        answer = platform.send(first.workspace_id, "hello", headers=GIVEN | {"Prefer": "wait=20"})
    finally:
        server.stop()
    assert answer.json()["result"]["parts"][0]["text"] == "re: hello"
    assert trace_of(agent.received[0][0]["traceparent"]) == TRACE


def test_what_is_told_about_a_task_is_in_its_trace(platform: Platform, agent: ScriptedAgent) -> None:
    """The platform's own questions to an agent, such as to cancel, belong to the message they are about."""

    def work(body: Body) -> Body:
        state = "canceled" if body["method"] == "tasks/cancel" else "working"
        task = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": state}}
        return {"jsonrpc": "2.0", "id": body["id"], "result": task}

    agent.respond = work
    client = join_push(platform, agent)
    sent = platform.send(client.workspace_id, "hello", headers=ASYNC | GIVEN).json()
    eventually(lambda: len(agent.received) > 0)
    platform.ok("POST", f"/messages/{sent['message_id']}/cancel", json={})
    eventually(lambda: "tasks/cancel" in [body["method"] for _, body in agent.received])
    assert {trace_of(headers["traceparent"]) for headers, _ in agent.received} == {TRACE}


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
