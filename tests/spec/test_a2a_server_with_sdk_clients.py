"""The clients of the official a2a-sdk, 1.3 and 0.3, straight to an agent behind the SDK's own server."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.helpers import get_message_text, new_text_message
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import TaskNotFoundError

from molecule_agent import A2AServer
from tests.spec.sdk_agents import processes

SECONDS = 30
BINDINGS = ("JSONRPC", "HTTP+JSON")


class Agent:
    """Answers at once, or when it is let go."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.server = A2AServer("agent-1", "/a2a/inbound", self._answer, host="127.0.0.1")
        self.server.start_in_background()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/"

    def _answer(self, payload: dict[str, Any]) -> str:
        if payload["message"] == "slow":
            self.may_end.wait(SECONDS)
        return f"re: {payload['message']}"


@pytest.fixture
def agent() -> Iterator[Agent]:
    running = Agent()
    yield running
    running.may_end.set()
    running.server.stop()


@contextlib.asynccontextmanager
async def connected(agent: Agent, binding: str, *, streaming: bool = True) -> AsyncGenerator[Client]:
    """A client that found the agent by its card."""
    async with httpx.AsyncClient(timeout=SECONDS) as plain, httpx.AsyncClient(timeout=SECONDS) as own:
        card = await A2ACardResolver(plain, agent.base).get_agent_card()
        config = ClientConfig(streaming=streaming, httpx_client=own, supported_protocol_bindings=[binding])
        yield ClientFactory(config).create(card)


async def told(client: Client, words: str, **configuration: Any) -> list[StreamResponse]:
    message = new_text_message(words, role=Role.ROLE_USER)
    request = SendMessageRequest(message=message, configuration=SendMessageConfiguration(**configuration))
    return [event async for event in client.send_message(request)]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_client_sends_gets_and_lists(agent: Agent, binding: str) -> None:
    async with connected(agent, binding, streaming=False) as client:
        [event] = await told(client, "work")
        assert event.task.status.state == TaskState.TASK_STATE_COMPLETED
        assert get_message_text(event.task.status.message) == "re: work"
        got = await client.get_task(GetTaskRequest(id=event.task.id))
        assert (got.id, get_message_text(got.history[0])) == (event.task.id, "work")
        listed = await client.list_tasks(ListTasksRequest(context_id=event.task.context_id))
        assert [task.id for task in listed.tasks] == [event.task.id]
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id="nobody"))


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_client_follows_a_stream(agent: Agent, binding: str) -> None:
    async with connected(agent, binding) as client:
        events = await told(client, "work")
    assert [event.WhichOneof("payload") for event in events] == ["task", "status_update", "status_update"]
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
    assert get_message_text(events[-1].status_update.status.message) == "re: work"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_client_joins_a_task_and_cancels_it(agent: Agent, binding: str) -> None:
    async with connected(agent, binding, streaming=False) as client:
        [event] = await told(client, "slow", return_immediately=True)
    task_id = event.task.id
    async with connected(agent, binding) as client:
        joined, watched = asyncio.Event(), list[StreamResponse]()

        async def watch() -> None:
            async for event in client.subscribe(SubscribeToTaskRequest(id=task_id)):
                watched.append(event)
                joined.set()

        watching = asyncio.create_task(watch())
        await asyncio.wait_for(joined.wait(), SECONDS)
        cancelled = await client.cancel_task(CancelTaskRequest(id=task_id))
        assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
        await asyncio.wait_for(watching, SECONDS)
    assert watched[0].task.id == task_id
    assert watched[-1].status_update.status.state == TaskState.TASK_STATE_CANCELED


@pytest.mark.slow  # the conversation is a process that imports an SDK
@pytest.mark.parametrize("binding", BINDINGS)
def test_the_old_client_does_all_of_it_too(agent: Agent, binding: str) -> None:
    told = processes.client_0_3(agent.base, "", binding, "--snapshot")
    [task] = told["unary"]
    assert (task["kind"], task["status"]["state"]) == ("task", "completed")
    assert task["status"]["message"]["parts"] == [{"kind": "text", "text": "re: work"}]
    assert [event["kind"] for event in told["stream"]] == ["task", "status-update", "status-update"]
    assert (told["got"]["id"], told["got"]["status"]["state"]) == (task["id"], "completed")
    assert told["cancelled"] == "canceled"
    assert told["watched"][-1]["status"]["state"] == "canceled"
