"""The clients of the official a2a-sdk, 1.3 and 0.3, with an agent behind each of our servers."""

import asyncio
import contextlib
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

from tests.spec import a2a_servers
from tests.spec.a2a_servers import Server
from tests.spec.platforms import Share
from tests.spec.sdk_agents import processes

SECONDS = 30
BINDINGS = ("JSONRPC", "HTTP+JSON")


@pytest.fixture(scope="module", params=a2a_servers.KINDS)
def agent(
    request: pytest.FixtureRequest, share: Share, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """An agent behind each of our servers."""
    with a2a_servers.running(request.param, share, tmp_path_factory.mktemp("org")) as server:
        yield server


TALKATIVE = pytest.mark.parametrize("agent", ["gateway", "asyncio"], indirect=True)


@contextlib.asynccontextmanager
async def connected(agent: Server, binding: str, *, streaming: bool = True) -> AsyncGenerator[Client]:
    """A client that found the agent by its card."""
    async with (
        httpx.AsyncClient(timeout=SECONDS, headers=agent.headers) as plain,
        httpx.AsyncClient(timeout=SECONDS, headers=agent.headers) as own,
    ):
        card = await A2ACardResolver(plain, agent.url).get_agent_card()
        config = ClientConfig(streaming=streaming, httpx_client=own, supported_protocol_bindings=[binding])
        yield ClientFactory(config).create(card)


async def told(client: Client, words: str, **configuration: Any) -> list[StreamResponse]:
    message = new_text_message(words, role=Role.ROLE_USER)
    request = SendMessageRequest(message=message, configuration=SendMessageConfiguration(**configuration))
    return [event async for event in client.send_message(request)]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_client_sends_gets_and_lists(agent: Server, binding: str) -> None:
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
async def test_the_client_follows_a_stream(agent: Server, binding: str) -> None:
    async with connected(agent, binding) as client:
        events = await told(client, "work")
    assert [event.WhichOneof("payload") for event in events] == ["task", "status_update", "status_update"]
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
    assert get_message_text(events[-1].status_update.status.message) == "re: work"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_client_joins_a_task_and_cancels_it(agent: Server, binding: str) -> None:
    agent.let_go.clear()
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
    agent.let_go.set()


@TALKATIVE
@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_client_answers_a_question_with_the_next_message(agent: Server, binding: str) -> None:
    async with connected(agent, binding, streaming=False) as client:
        [event] = await told(client, "ask")
        assert event.task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        asked = event.task
        answer = new_text_message("Paris", role=Role.ROLE_USER, task_id=asked.id, context_id=asked.context_id)
        [done] = [one async for one in client.send_message(SendMessageRequest(message=answer))]
    assert (done.task.id, done.task.status.state) == (asked.id, TaskState.TASK_STATE_COMPLETED)
    assert get_message_text(done.task.status.message) == "re: Paris"


@pytest.mark.slow  # the conversation is a process that imports an SDK
@pytest.mark.parametrize("binding", BINDINGS)
def test_the_old_client_does_all_of_it_too(
    agent: Server, binding: str, request: pytest.FixtureRequest
) -> None:
    talk = [] if "sdk" in request.node.name else ["--ask"]
    agent.let_go.clear()
    token = agent.headers.get("Authorization", "").removeprefix("Bearer ")
    told = processes.client_0_3(agent.url, token, binding, "--snapshot", *talk)
    agent.let_go.set()
    [task] = told["unary"]
    assert (task["kind"], task["status"]["state"]) == ("task", "completed")
    assert task["status"]["message"]["parts"] == [{"kind": "text", "text": "re: work"}]
    assert [event["kind"] for event in told["stream"]] == ["task", "status-update", "status-update"]
    assert (told["got"]["id"], told["got"]["status"]["state"]) == (task["id"], "completed")
    assert told["cancelled"] == "canceled"
    assert told["watched"][-1]["status"]["state"] == "canceled"
    if talk:
        question, answer = told["asked"]
        assert (question["status"]["state"], answer["status"]["state"]) == ("input-required", "completed")
        assert answer["id"] == question["id"]
