"""The executor under the a2a-sdk's own types, and under contexts that are hardly any."""

import asyncio
from typing import Any
from unittest.mock import MagicMock

import pytest
from a2a.types import Message, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent

from molecule_runtime.kit.turns import a2a_types
from molecule_runtime.kit.turns.executor import Turn
from molecule_runtime.runtimes.hermes import chat
from molecule_wire import JSONObject
from packages.runtime.tests.runtimes.hermes.gateways import (
    ChatGateway,
    PluginGateway,
    Queue,
    delta,
    make_executor,
    started,
)


def real_context(text: str, continues: JSONObject | None = None, **metadata: Any) -> Any:
    turn = Turn(
        "m", "t", "c", text, MagicMock(), parts=[{"text": text}], metadata=metadata, continues=continues
    )
    return a2a_types.request_context(turn)


def loose_context(text: str, **members: Any) -> MagicMock:
    """A context of which every member exists, and few mean something."""
    message = MagicMock(parts=[MagicMock(text=text)])
    return MagicMock(message=message, session_id=None, context_id=None, **members)


async def test_a_request_of_the_sdk_is_answered_with_one_message(chat_gateway: ChatGateway) -> None:
    queue = Queue()
    history = [{"role": "user", "parts": [{"text": "before"}]}]
    await make_executor().execute(real_context("hello", history=history), queue)
    assert isinstance(queue.events[0], Message)
    assert (queue.text, queue.events[0].context_id) == ("hi", "c")
    assert [one["content"] for one in chat_gateway.calls[0].body["messages"]] == ["before", "hello"]


async def test_a_task_of_the_sdk_gets_its_updates(chat_gateway: ChatGateway) -> None:
    chat_gateway.features = {"chat_completions_streaming": True}
    chat_gateway.stream(delta("one "), delta("two"), "data: [DONE]")
    queue = Queue()
    task: JSONObject = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
    await make_executor().execute(real_context("hello", task), queue)
    pieces = [event for event in queue.events if isinstance(event, TaskArtifactUpdateEvent)]
    assert "".join(part.text for event in pieces for part in event.artifact.parts) == "one two"
    last = queue.events[-1]
    assert isinstance(last, TaskStatusUpdateEvent)
    assert last.status.state == TaskState.TASK_STATE_COMPLETED
    assert not any(isinstance(event, Message) for event in queue.events)


async def test_a_failed_task_of_the_sdk_is_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "RETRY_SECONDS", ())
    queue = Queue()
    task: JSONObject = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
    made = make_executor()
    made._base = "http://127.0.0.1:1/v1"
    await made.execute(real_context("hello", task), queue)
    assert queue.events[-1].status.state == TaskState.TASK_STATE_FAILED
    assert queue.events[-1].status.message.parts[0].text.startswith("[hermes-agent unreachable] ")


async def test_a_loose_context_is_enough(plugin_gateway: PluginGateway) -> None:
    async with started() as made:
        queues = [Queue(), Queue()]
        turns = [
            asyncio.ensure_future(made.execute(loose_context(f"text {number}", task_id="task-1"), queue))
            for number, queue in enumerate(queues)
        ]
        await plugin_gateway.arrived(2)
        for post in reversed(plugin_gateway.posts):
            await plugin_gateway.reply(post, post.body["content"])
        await asyncio.gather(*turns)
        assert [queue.text for queue in queues] == ["text 0", "text 1"]
        assert {post.body["chat_id"] for post in plugin_gateway.posts} == {"task-1"}
        assert await made.cancel(MagicMock(), Queue()) is None
