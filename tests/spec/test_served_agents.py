"""An agent behind the SDK's own server, called through the gateway."""

import json
import queue
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from molecule_a2a import AgentApp, Turn
from molecule_agent import Fail, InboundMessage, InboxDelivery, PushDelivery, RemoteAgentClient
from molecule_platform.testing import servers, serving
from molecule_wire import JSONObject
from molecule_wire.calls import delegations, workspaces
from tests.spec.platforms import Engine, Platform


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """The wire is the same on both engines."""
    return request.param


@pytest.fixture
def platform(patient: Platform) -> Platform:
    """What is asked here is also answered."""
    return patient


class Served:
    """Answers at once."""

    def __init__(self, platform: Platform) -> None:
        self.got: list[InboundMessage] = []
        self.client = platform.join("served")
        self.server = self.client.start_a2a_server(self._answer, host="127.0.0.1", dispatch_secret="s3cret")
        self.client.register()

    def _answer(self, message: InboundMessage, client: RemoteAgentClient) -> str:
        self.got.append(message)
        return f"re: {message.text}"


@pytest.fixture
def served(platform: Platform) -> Iterator[Served]:
    agent = Served(platform)
    yield agent
    PushDelivery(agent.client, agent.server).stop()


def test_a_message_reaches_the_handler_with_its_sender(platform: Platform, served: Served) -> None:
    peer = platform.join("peer")
    answer = platform.send(served.client.workspace_id, "hi", peer.load_token()).json()
    assert answer["result"]["parts"][0]["text"] == "re: hi"
    [got] = served.got
    assert (got.source, got.source_id, got.text) == ("peer_agent", peer.workspace_id, "hi")
    assert got.deadline is not None
    assert got.caller is not None
    assert got.caller["principal"] == f"workspace:{peer.workspace_id}"
    assert (got.caller["name"], got.peer_name) == ("peer", "peer")
    assert got.caller["row"] == got.message_id
    assert got.caller["delegation"] is None


def test_a_message_that_the_handler_wants_again_is_delivered_again(
    platform: Platform, served: Served
) -> None:
    def fail_at_first(message: InboundMessage, client: RemoteAgentClient) -> str:
        served.got.append(message)
        if len(served.got) == 1:
            raise Fail("not yet", retry=True)
        return "now"

    again = served.client.start_a2a_server(fail_at_first, host="127.0.0.1", dispatch_secret="s3cret")
    served.client.register()
    answer = platform.send(served.client.workspace_id, "hi").json()
    again.stop()
    assert answer["result"]["parts"][0]["text"] == "now"
    assert [message.message_id for message in served.got] == [served.got[0].message_id] * 2


def streamed(platform: Platform, workspace_id: str) -> list[dict[str, Any]]:
    """What the caller of a stream is told."""
    said = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": said}}
    headers = {**platform.headers(), "A2A-Version": "1.0"}
    answer = requests.post(f"{platform.url}/agents/{workspace_id}/", json=body, headers=headers, timeout=30)
    return [
        json.loads(line.removeprefix("data: "))["result"]
        for line in answer.text.splitlines()
        if line.startswith("data: ")
    ]


@pytest.mark.parametrize("server", ["the SDK's", "asyncio"])
def test_a_message_that_the_handler_wants_again_in_a_stream_is_delivered_again(
    platform: Platform, server: str
) -> None:
    attempts: list[str] = []

    def fail_at_first() -> str:
        attempts.append("hi")
        if len(attempts) == 1:
            raise Fail("not yet", retry=True)
        return "now"

    client = platform.join("again")
    if server == "asyncio":

        async def handle(turn: Turn) -> str:
            return fail_at_first()

        url = f"http://127.0.0.1:{(port := servers.free_port())}/"
        card: JSONObject = {"name": "again", "capabilities": {"streaming": True}}
        with serving.serving(AgentApp(handle, card, url=url), port):
            body = {"id": client.workspace_id, "url": url, "agent_card": card}
            platform.ok("POST", "/registry/register", token=client.load_token(), json=body)
            events = streamed(platform, client.workspace_id)
    else:
        own = client.start_a2a_server(
            lambda message, _: fail_at_first(), host="127.0.0.1", dispatch_secret="s3cret"
        )
        client.register()
        events = streamed(platform, client.workspace_id)
        own.stop()
    states = [event["statusUpdate"]["status"]["state"] for event in events if "statusUpdate" in event]
    assert (attempts, states.count("TASK_STATE_FAILED"), states[-1]) == (
        ["hi", "hi"], 0, "TASK_STATE_COMPLETED",
    )  # fmt: skip
    assert events[-1]["statusUpdate"]["status"]["message"]["parts"] == [{"text": "now"}]


def test_a_stream_passes_the_gateway_event_by_event(platform: Platform, served: Served) -> None:
    events = streamed(platform, served.client.workspace_id)
    assert next(iter(events[0])) == "task"
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert events[-1]["statusUpdate"]["status"]["message"]["parts"] == [{"text": "re: hi"}]


def test_the_delegation_context_reaches_the_handler_the_next_hop_and_its_handler(platform: Platform) -> None:
    asker, middle, last = (platform.join(name) for name in ("asker", "middle", "last"))
    seen: queue.Queue[InboundMessage] = queue.Queue()

    def pass_on(message: InboundMessage, client: RemoteAgentClient) -> str:
        seen.put(message)
        assert message.caller is not None
        context: Any = message.caller["delegation"]
        request = delegations.delegate(
            client.workspace_id,
            last.workspace_id,
            "the second half",
            idempotency_key=message.message_id,
            parent_delegation_id=context["id"],
        )
        return str(client._perform(request, workspaces.read_object)["delegation_id"])

    def finish(message: InboundMessage, _client: RemoteAgentClient) -> str:
        seen.put(message)
        return "done"

    server = middle.start_a2a_server(pass_on, host="127.0.0.1")
    middle.register()
    try:
        first = str(asker.delegate("the whole", middle.workspace_id)["delegation_id"])
        pushed = seen.get(timeout=30)
        assert InboxDelivery(last, wait=20).run_once(finish) == 1
        pulled = seen.get(timeout=30)
    finally:
        server.stop()
    ids = [asker.workspace_id, middle.workspace_id, last.workspace_id]
    whole = platform.ok("GET", f"/delegations/{first}?wait=20")
    second = whole["result"]["text"]
    assert pushed.caller is not None
    assert pushed.caller["name"] == "asker"
    assert pushed.caller["delegation"] == {
        "id": first,
        "root": first,
        "depth": 1,
        "calls_left": 63,
        "chain": ids[:2],
    }
    assert pulled.caller is not None
    assert (pulled.caller["name"], pulled.caller["principal"]) == ("middle", f"workspace:{ids[1]}")
    assert pulled.caller["org"] == pushed.caller["org"]
    assert pulled.caller["delegation"] == {
        "id": second,
        "root": first,
        "depth": 2,
        "calls_left": 62,
        "chain": ids,
    }
    assert platform.ok("GET", f"/delegations/{second}")["parent_delegation_id"] == first


def test_a_person_is_named_to_an_agent_however_its_messages_come(platform: Platform, served: Served) -> None:
    poller = platform.join("poller")
    got: list[InboundMessage] = []
    platform.send(served.client.workspace_id, "hi")
    platform.send(poller.workspace_id, "hi", headers={"Prefer": "respond-async"})
    InboxDelivery(poller, wait=20).run_once(lambda message, _client: got.append(message))
    for caller in (served.got[0].caller, got[0].caller):
        assert caller is not None
        assert (caller["principal"], caller["name"]) == ("user:admin", "admin")
