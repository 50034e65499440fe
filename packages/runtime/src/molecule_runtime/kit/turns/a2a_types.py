"""The one place that knows the types of the a2a-sdk; it is imported when a foreign executor is first used."""

from collections.abc import Callable
from typing import Any

from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.types import (
    Message,
    SendMessageRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatusUpdateEvent,
)
from google.protobuf import json_format

from molecule_runtime.kit.turns.executor import Turn
from molecule_wire import JSONObject

_KINDS: dict[type[Any], str] = {
    Message: "message",
    Task: "task",
    TaskStatusUpdateEvent: "statusUpdate",
    TaskArtifactUpdateEvent: "artifactUpdate",
}


class CallbackQueue(EventQueue):
    """An event queue that hands each event on, as a 1.0 object, the moment it is enqueued."""

    def __init__(self, take: Callable[[str, JSONObject], None]) -> None:
        self._take = take

    async def enqueue_event(self, event: Any) -> None:
        """Hand an event on."""
        self._take(_KINDS[type(event)], json_format.MessageToDict(event))


def event_queue(take: Callable[[str, JSONObject], None]) -> EventQueue:
    """A queue for a foreign executor."""
    return CallbackQueue(take)


def request_context(turn: Turn) -> RequestContext:
    """The request context of a turn."""
    message: JSONObject = {
        "messageId": turn.message_id,
        "role": "ROLE_USER",
        "parts": turn.parts,
        "taskId": turn.task_id,
        "contextId": turn.context_id,
        "metadata": turn.metadata,
    }
    request = SendMessageRequest(message=message_of(message))
    task = None
    if turn.continues is not None:
        task = json_format.ParseDict(turn.continues, Task(), ignore_unknown_fields=True)
    return RequestContext(ServerCallContext(), request, turn.task_id, turn.context_id, task)


def message_of(message: JSONObject) -> Message:
    """A 1.0 message as the a2a-sdk has it."""
    return json_format.ParseDict(message, Message(), ignore_unknown_fields=True)


def object_of(message: Any) -> JSONObject:
    """A message of the a2a-sdk as a 1.0 object."""
    return json_format.MessageToDict(message)


def event_of(kind: str, event: JSONObject) -> Any:
    """A 1.0 event as the a2a-sdk has it."""
    types = {kind: type for type, kind in _KINDS.items()}
    return json_format.ParseDict(event, types[kind](), ignore_unknown_fields=True)
