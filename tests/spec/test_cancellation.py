"""A cancel reaches an agent with a URL that has not answered yet, on real sockets.

The outcome is there at once. The agent, of whose task nobody knows a name, is told as soon as it names one,
or by the id of the message if it knows that; and whoever never says a word is hung up on.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import requests

from molecule_agent import InboundMessage, PushDelivery, RemoteAgentClient
from molecule_platform.app import services as app_services
from molecule_platform.services.dispatch.delivery_attempt import AttemptLimits
from molecule_platform.testing import misbehaving_agent
from molecule_platform.testing.misbehaving_agent import MisbehavingAgent
from molecule_platform.testing.misbehaving_exchange import Arrival
from molecule_wire.a2a import operations
from tests.spec import streams
from tests.spec.platforms import Platform, Start

PATIENCE_SECONDS = 30.0
SOON_SECONDS = 10.0
CARD: dict[str, Any] = {"name": "rude", "skills": []}
A2A_CARD = {
    **CARD,
    "supportedInterfaces": [{"url": "http://x", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
}


@pytest.fixture
def agent() -> Iterator[MisbehavingAgent]:
    """An agent that is polite until it is told otherwise."""
    with misbehaving_agent.running() as running:
        yield running


def joined(platform: Platform, agent: MisbehavingAgent, card: dict[str, Any] = A2A_CARD) -> RemoteAgentClient:
    client = platform.join("rude")
    body = {"id": client.workspace_id, "url": agent.url, "agent_card": card}
    platform.ok("POST", "/registry/register", token=client.load_token(), json=body)
    return client


def body_of(method: str = "SendMessage") -> dict[str, Any]:
    said = {"role": "ROLE_USER", "messageId": "m1", "parts": [{"text": "hello"}]}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": said}}


def handed_over(platform: Platform, workspace_id: str, arrived: Callable[[], bool]) -> str:
    """The id of a message that its agent has and does not answer."""
    headers = {"A2A-Version": "1.0", "Prefer": "respond-async"}
    path = f"/workspaces/{workspace_id}/a2a"
    sent = platform.ok("POST", path, json=body_of(), headers=headers)
    eventually(arrived)
    return sent["message_id"]


class Held:
    """A caller who waits for an answer at one of the doors, meanwhile on a thread."""

    def __init__(self, platform: Platform, path: str, body: dict[str, Any]) -> None:
        headers = {"A2A-Version": "1.0", "Prefer": "wait=30"}
        self._call = partial(platform.call, "POST", path, json=body, headers=headers)
        self._pool = ThreadPoolExecutor(1)
        self._answer = self._pool.submit(self._call)

    def answer(self) -> requests.Response:
        with self._pool:
            return self._answer.result(PATIENCE_SECONDS)


def open_message(platform: Platform, workspace_id: str) -> str:
    [listed] = platform.ok("GET", f"/workspaces/{workspace_id}/messages?direction=in")["messages"]
    return listed["id"]


def called_off(platform: Platform, message_id: str) -> None:
    ended = platform.ok("POST", f"/messages/{message_id}/cancel", json={"reason": "enough"})
    assert ended["status"] == "cancelled"


def cancels(agent: MisbehavingAgent) -> list[str]:
    """The names of the tasks that the agent was asked to cancel."""
    seen: list[Arrival] = list(agent.seen)
    asked = [arrival.request for arrival in seen if arrival.request.operation is operations.CANCEL]
    return [request.task_id or "" for request in asked]


def task_ids(agent: MisbehavingAgent) -> list[str]:
    return list(agent._tasks)


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_task_that_is_named_after_the_cancel_is_cancelled_by_its_name(
    platform: Platform, agent: MisbehavingAgent
) -> None:
    client = joined(platform, agent)
    agent.script.append("slow-task")
    sent = handed_over(platform, client.workspace_id, lambda: len(agent.seen) == 1)
    called_off(platform, sent)
    agent.may_answer.set()
    eventually(lambda: len(cancels(agent)) == 2)
    assert sorted(cancels(agent)) == sorted([sent, *task_ids(agent)])
    assert streams.steps(platform, sent)[-1] == "cancelled"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/workspaces/{}/a2a", body_of()),
        ("/workspaces/{}/a2a", body_of("SendStreamingMessage")),
        ("/agents/{}/", body_of()),
        ("/agents/{}/", body_of("SendStreamingMessage")),
        ("/agents/{}/message:send", body_of()["params"]),
    ],
)
def test_whoever_waits_for_the_answer_learns_of_the_cancel_before_the_agent_has_spoken(
    platform: Platform, agent: MisbehavingAgent, path: str, body: dict[str, Any]
) -> None:
    client = joined(platform, agent, CARD)
    agent.script.append("slow-task")
    held = Held(platform, path.format(client.workspace_id), body)
    eventually(lambda: len(agent.seen) == 1)
    called_off(platform, open_message(platform, client.workspace_id))
    answer = held.answer()
    assert answer.status_code == 409, answer.text
    told = answer.json()
    assert "cancelled by user:admin: enough" in told["error"]["message"]
    [info] = told["error"].get("data") or told["error"]["details"]
    assert info["metadata"] == {"code": "cancelled", "request_id": answer.headers["X-Request-Id"]}
    assert told.get("code", "cancelled") == "cancelled"
    agent.may_answer.set()
    eventually(lambda: cancels(agent) != [])
    assert cancels(agent) == task_ids(agent)


def test_an_agent_that_does_not_say_what_it_speaks_is_only_listened_to(
    platform: Platform, agent: MisbehavingAgent
) -> None:
    client = joined(platform, agent, CARD)
    agent.script.append("slow-task")
    sent = handed_over(platform, client.workspace_id, lambda: len(agent.seen) == 1)
    called_off(platform, sent)
    agent.may_answer.set()
    eventually(lambda: cancels(agent) != [])
    assert cancels(agent) == task_ids(agent)


@pytest.mark.parametrize("manner", ["slow-end", "slow-message"])
def test_an_agent_that_is_done_is_asked_nothing_more(
    platform: Platform, agent: MisbehavingAgent, manner: str
) -> None:
    client = joined(platform, agent, CARD)
    agent.script += [manner, "polite"]
    sent = handed_over(platform, client.workspace_id, lambda: len(agent.seen) == 1)
    called_off(platform, sent)
    agent.may_answer.set()
    # The agent is free at once, and its next message finds it so.
    path = f"/agents/{client.workspace_id}/"
    platform.ok("POST", path, json=body_of(), headers={"A2A-Version": "1.0"})
    assert len(agent.seen) == 2
    assert platform.ok("GET", f"/messages/{sent}")["status"] == "cancelled"


def test_an_agent_that_never_speaks_is_hung_up_on_after_a_while(
    patched: Start, agent: MisbehavingAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_services, "AttemptLimits", partial(AttemptLimits, listen_seconds=0.3))
    platform = patched()
    client = joined(platform, agent, CARD)
    agent.script.append("silent")
    sent = handed_over(platform, client.workspace_id, lambda: len(agent.seen) == 1)
    assert agent.left == 0
    called_off(platform, sent)
    eventually(lambda: agent.left == 1)
    assert cancels(agent) == []


def test_a_deadline_is_told_as_a_cancel_is(platform: Platform, agent: MisbehavingAgent) -> None:
    client = joined(platform, agent, CARD)
    agent.script.append("slow-task")
    headers = {"A2A-Version": "1.0", "X-Timeout": "2", "Prefer": "wait=30"}
    answer = platform.call("POST", f"/workspaces/{client.workspace_id}/a2a", json=body_of(), headers=headers)
    assert answer.status_code == 504
    agent.may_answer.set()
    eventually(lambda: cancels(agent) != [])
    assert cancels(agent) == task_ids(agent)


def test_a_platform_that_stops_waits_for_no_first_event(restarting: Start, agent: MisbehavingAgent) -> None:
    platform = restarting(MOLECULE_A2A_HOLD_SECONDS=1)
    client = joined(platform, agent)
    agent.script.append("silent")
    called_off(platform, handed_over(platform, client.workspace_id, lambda: len(agent.seen) == 1))
    began = time.monotonic()
    platform.stop()
    assert time.monotonic() - began < SOON_SECONDS
    eventually(lambda: agent.left == 1)


class Served:
    """An agent behind the SDK's server, whose handler works until nobody wants it any more."""

    def __init__(self, platform: Platform, **card: Any) -> None:
        self.began, self.learnt = threading.Event(), threading.Event()
        workspace = platform.create("served")
        self.client = platform.client(workspace["id"], agent_card={"name": "served", "skills": [], **card})
        self.server = self.client.start_a2a_server(self._work, host="127.0.0.1")
        self.client.register()

    def _work(self, message: InboundMessage, client: RemoteAgentClient) -> str:
        self.began.set()
        if message.cancelled.wait(PATIENCE_SECONDS):
            self.learnt.set()
        return "for nobody"


def test_a_handler_behind_the_sdk_s_server_learns_of_a_cancel_before_it_has_answered(
    platform: Platform,
) -> None:
    served = Served(platform, protocolVersion="1.0")
    try:
        sent = handed_over(platform, served.client.workspace_id, served.began.is_set)
        called_off(platform, sent)
        assert served.learnt.wait(SOON_SECONDS)
    finally:
        PushDelivery(served.client, served.server).stop()
