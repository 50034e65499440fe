"""An agent behind the SDK's own server, called through the gateway."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from molecule_agent import InboundMessage, PushDelivery, RemoteAgentClient
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


def test_a_stream_passes_the_gateway_event_by_event(platform: Platform, served: Served) -> None:
    said = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": said}}
    headers = {**platform.headers(), "A2A-Version": "1.0"}
    url = f"{platform.url}/agents/{served.client.workspace_id}/"
    answer = requests.post(url, json=body, headers=headers, timeout=30)
    events: list[dict[str, Any]] = [
        json.loads(line.removeprefix("data: "))["result"]
        for line in answer.text.splitlines()
        if line.startswith("data: ")
    ]
    assert next(iter(events[0])) == "task"
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert events[-1]["statusUpdate"]["status"]["message"]["parts"] == [{"text": "re: hi"}]
