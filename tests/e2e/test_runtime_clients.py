"""The official clients of the a2a-sdk, 1.3 and 0.3, talk to a workspace that runs `echo`."""

from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.helpers import get_message_text, new_text_message
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)

from tests.e2e.workspaces import Member
from tests.spec.sdk_agents import processes

pytestmark = pytest.mark.timeout(120)

BINDINGS = ("JSONRPC", "HTTP+JSON")


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_client_of_1_3_talks_to_echo(echo: Member, binding: str) -> None:
    async with httpx.AsyncClient(timeout=30) as plain, httpx.AsyncClient(timeout=30) as own:
        card = await A2ACardResolver(plain, echo.url).get_agent_card()
        clients = [
            ClientFactory(
                ClientConfig(streaming=streaming, httpx_client=own, supported_protocol_bindings=[binding])
            ).create(card)
            for streaming in (False, True)
        ]
        unary, client = clients
        message = new_text_message("hello", role=Role.ROLE_USER)
        [answer] = [event async for event in unary.send_message(SendMessageRequest(message=message))]
        assert get_message_text(answer.message) == "echo: hello"
        message = new_text_message("/stream 3", role=Role.ROLE_USER)
        events = [event async for event in client.send_message(SendMessageRequest(message=message))]
        last = events[-1].status_update
        assert events[0].WhichOneof("payload") == "task"
        assert last.status.state == TaskState.TASK_STATE_COMPLETED
        assert get_message_text(last.status.message) == "1 2 3"
        got = await client.get_task(GetTaskRequest(id=last.task_id))
        assert "".join(part.text for part in got.artifacts[0].parts) == "1 2 3 "
        assert await _cancelled(client) == TaskState.TASK_STATE_CANCELED


async def _cancelled(client: Client) -> Any:
    """Begin something slow, join it, cancel it: the state that the follower was told last."""
    message = new_text_message("/sleep 30", role=Role.ROLE_USER)
    begun = client.send_message(SendMessageRequest(message=message))
    task_id = (await anext(begun)).task.id
    following = client.subscribe(SubscribeToTaskRequest(id=task_id))
    assert (await anext(following)).task.id == task_id
    await client.cancel_task(CancelTaskRequest(id=task_id))
    return [event async for event in following][-1].status_update.status.state


@pytest.mark.parametrize("binding", BINDINGS)
def test_the_client_of_0_3_talks_to_echo(echo: Member, binding: str) -> None:
    """It sends, streams, gets, resubscribes and cancels."""
    words = ("--work=/stream 3", "--slow=/sleep 30")
    told = processes.client_0_3(echo.url, "", binding, "--snapshot", *words)
    [message], [unary], stream = told["message"], told["unary"], told["stream"]
    assert (message["kind"], message["parts"]) == ("message", [{"kind": "text", "text": "echo: hi"}])
    assert (unary["kind"], unary["parts"]) == ("message", [{"kind": "text", "text": "1 2 3"}])
    kinds = {event["kind"] for event in stream}
    assert (stream[0]["kind"], kinds) == ("task", {"task", "status-update", "artifact-update"})
    assert (stream[-1]["status"]["state"], stream[-1]["final"]) == ("completed", True)
    assert told["got"]["id"] == stream[0]["id"]
    assert "".join(part["text"] for part in told["got"]["artifacts"][0]["parts"]) == "1 2 3 "
    assert told["cancelled"] == "canceled"
    assert told["watched"][-1]["status"]["state"] == "canceled"
