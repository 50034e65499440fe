"""The client of the official a2a-sdk 1.3 through the gateway, to agents of every kind."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.helpers import get_message_text, new_text_message
from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)

from molecule_agent import InboundMessage, InboxDelivery, RemoteAgentClient
from tests.spec.platforms import Engine, Platform
from tests.spec.sdk_agents import processes

SECONDS = 30
BINDINGS = ("JSONRPC", "HTTP+JSON")


@dataclass(frozen=True)
class Target:
    """An agent behind the gateway. A poll agent begins to work when told to."""

    platform: Platform
    workspace_id: str
    begin: threading.Event

    @property
    def base(self) -> str:
        return f"{self.platform.url}/agents/{self.workspace_id}/"


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """The wire is the same on both engines."""
    return request.param


@pytest.fixture
def platform(pushing: Platform) -> Platform:
    return pushing


@pytest.fixture(scope="module")
def new_agent() -> Iterator[str]:
    with processes.agent_1_3() as url:
        yield url


@pytest.fixture(scope="module")
def old_agent() -> Iterator[str]:
    with processes.agent_0_3() as url:
        yield url


@pytest.fixture(params=["sdk 1.3", "sdk 0.3", "poll"])
def target(request: pytest.FixtureRequest, platform: Platform) -> Iterator[Target]:
    """An agent of the SDK at its URL, one that speaks 0.3 alone, and one that leases its mail."""
    if request.param == "poll":
        with polling(platform) as polled:
            yield polled
        return
    url = request.getfixturevalue("new_agent" if request.param == "sdk 1.3" else "old_agent")
    yield Target(platform, processes.join(platform, url), threading.Event())


@contextlib.contextmanager
def polling(platform: Platform) -> Generator[Target]:
    client = platform.join("polled")
    begin, delivery = threading.Event(), InboxDelivery(client, wait=1)

    def handle(message: InboundMessage, _client: RemoteAgentClient) -> str:
        return "hello" if message.text == "hi" else f"re: {message.text}"

    def work() -> None:
        begin.wait(SECONDS)
        client.run_agent_loop(handle, delivery)

    working = threading.Thread(target=work)
    working.start()
    yield Target(platform, client.workspace_id, begin)
    client.stop()
    begin.set()
    working.join(SECONDS)


@contextlib.asynccontextmanager
async def connected(target: Target, binding: str, *, streaming: bool = True) -> AsyncGenerator[Client]:
    """A client that found the agent by its card."""
    headers = target.platform.headers()
    async with (
        httpx.AsyncClient(timeout=SECONDS, headers=headers) as plain,
        httpx.AsyncClient(timeout=SECONDS, headers=headers) as own,
    ):
        card = await A2ACardResolver(plain, target.base).get_agent_card()
        config = ClientConfig(streaming=streaming, httpx_client=own, supported_protocol_bindings=[binding])
        yield ClientFactory(config).create(card)


def ask(words: str, **configuration: Any) -> SendMessageRequest:
    message = new_text_message(words, role=Role.ROLE_USER)
    return SendMessageRequest(message=message, configuration=SendMessageConfiguration(**configuration))


async def told(client: Client, request: SendMessageRequest) -> list[StreamResponse]:
    return [event async for event in client.send_message(request)]


async def begun(target: Target, binding: str) -> Task:
    """A task that works, or waits, until it is cancelled."""
    async with connected(target, binding, streaming=False) as client:
        [event] = await told(client, ask("slow", return_immediately=True))
    assert event.WhichOneof("payload") == "task"
    return event.task


def words_of(task: Task) -> str:
    """What the agent said, in an artifact or in its last status."""
    said = [part.text for artifact in task.artifacts for part in artifact.parts]
    return " ".join([*said, get_message_text(task.status.message)]).strip()


@pytest.mark.parametrize("binding", BINDINGS)
async def test_what_is_sent_is_answered_and_can_be_got_and_listed(target: Target, binding: str) -> None:
    target.begin.set()
    async with connected(target, binding, streaming=False) as client:
        [event] = await told(client, ask("work"))
        assert (event.task.status.state, words_of(event.task)) == (
            TaskState.TASK_STATE_COMPLETED,
            "re: work",
        )
        got = await client.get_task(GetTaskRequest(id=event.task.id))
        assert (got.id, got.context_id, words_of(got)) == (event.task.id, event.task.context_id, "re: work")
        listed = await client.list_tasks(ListTasksRequest(context_id=event.task.context_id))
        assert [task.id for task in listed.tasks] == [event.task.id]
        assert (listed.total_size, listed.next_page_token) == (1, "")


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_message_may_be_the_whole_answer(platform: Platform, new_agent: str, binding: str) -> None:
    target = Target(platform, processes.join(platform, new_agent), threading.Event())
    for streaming in (False, True):
        async with connected(target, binding, streaming=streaming) as client:
            [event] = await told(client, ask("hi"))
            assert get_message_text(event.message) == "hello"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_stream_begins_with_the_task_and_ends_with_its_end(target: Target, binding: str) -> None:
    target.begin.set()
    async with connected(target, binding) as client:
        events = await told(client, ask("work"))
        assert events[0].WhichOneof("payload") == "task"
        assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
        task_id = events[0].task.id
        updates = [getattr(event, event.WhichOneof("payload") or "") for event in events[1:]]
        assert {update.task_id for update in updates} == {task_id}
        got = await client.get_task(GetTaskRequest(id=task_id))
        assert words_of(got) == "re: work"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_task_is_joined_and_cancelled(target: Target, binding: str) -> None:
    task = await begun(target, binding)
    async with connected(target, binding) as client:
        joined, watched = asyncio.Event(), list[StreamResponse]()

        async def watch() -> None:
            async for event in client.subscribe(SubscribeToTaskRequest(id=task.id)):
                watched.append(event)
                joined.set()

        watching = asyncio.create_task(watch())
        await asyncio.wait_for(joined.wait(), SECONDS)
        cancelled = await client.cancel_task(CancelTaskRequest(id=task.id))
        assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
        await asyncio.wait_for(watching, SECONDS)
        assert watched[0].task.id == task.id
        assert watched[-1].status_update.status.state == TaskState.TASK_STATE_CANCELED


@pytest.mark.parametrize("binding", BINDINGS)
async def test_push_configs_are_kept_shown_and_forgotten(target: Target, binding: str) -> None:
    task = await begun(target, binding)
    async with connected(target, binding) as client:
        wanted = TaskPushNotificationConfig(task_id=task.id, id="hook", url="http://127.0.0.1:9/", token="t")
        made = await client.create_task_push_notification_config(wanted)
        assert (made.id, made.url, made.token) == ("hook", wanted.url, "t")
        named = GetTaskPushNotificationConfigRequest(task_id=task.id, id="hook")
        assert (await client.get_task_push_notification_config(named)).url == wanted.url
        every = ListTaskPushNotificationConfigsRequest(task_id=task.id)
        assert [one.id for one in (await client.list_task_push_notification_configs(every)).configs] == [
            "hook"
        ]
        gone = DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="hook")
        await client.delete_task_push_notification_config(gone)
        assert not (await client.list_task_push_notification_configs(every)).configs
        await client.cancel_task(CancelTaskRequest(id=task.id))
