"""The kit under the a2a-sdk's own server: a request context and an event queue in place of a link."""

import os
from typing import Any

from molecule_runtime.domain.turns import TurnOutcome, TurnRequest, failure_metadata
from molecule_runtime.kit.turns import a2a_types
from molecule_runtime.kit.turns.runner import TurnRunner
from molecule_wire import JSON, JSONObject

_STATES = {
    "completed": "TASK_STATE_COMPLETED",
    "input-required": "TASK_STATE_INPUT_REQUIRED",
    "rejected": "TASK_STATE_REJECTED",
    "failed": "TASK_STATE_FAILED",
    "canceled": "TASK_STATE_CANCELED",
}


async def execute(runner: TurnRunner, context: Any, event_queue: Any) -> None:
    """Run a turn and enqueue its events."""
    message = a2a_types.object_of(context.message)
    parts = message.get("parts")
    metadata = message.get("metadata")
    request = TurnRequest(
        message_id=str(message.get("messageId") or os.urandom(8).hex()),
        task_id=context.task_id or os.urandom(16).hex(),
        context_id=context.context_id or os.urandom(16).hex(),
        parts=parts if isinstance(parts, list) else [],
        metadata=metadata if isinstance(metadata, dict) else {},
        as_task=getattr(context, "current_task", None) is not None,
    )
    await runner.run(request, QueueOutput(request, event_queue))


async def cancel(runner: TurnRunner, context: Any, event_queue: Any) -> None:
    """Cancel the turn of a context."""
    runner.cancel(context.task_id or "")


class QueueOutput:
    """See `TurnOutput`: one Message as the answer, or the updates of a task that exists."""

    def __init__(self, request: TurnRequest, queue: Any) -> None:
        self._request = request
        self._queue = queue
        self._names: JSONObject = {"taskId": request.task_id, "contextId": request.context_id}

    async def working(self) -> None:
        """See `TurnOutput`."""
        await self._update("TASK_STATE_WORKING")

    async def status(self, line: str) -> None:
        """See `TurnOutput`."""
        await self._update("TASK_STATE_WORKING", [{"text": line}])

    async def text(self, delta: str, *, run: int, first: bool, last: bool) -> None:
        """See `TurnOutput`."""
        artifact: JSONObject = {"artifactId": f"{self._request.task_id}-{run}", "parts": [{"text": delta}]}
        await self._artifact(artifact, append=not first, last=last)

    async def artifact(self, name: str, parts: list[JSON]) -> None:
        """See `TurnOutput`."""
        await self._artifact({"artifactId": os.urandom(8).hex(), "name": name, "parts": parts})

    async def end(self, outcome: TurnOutcome) -> None:
        """See `TurnOutput`."""
        parts: list[JSON] = [{"text": outcome.text}, *outcome.parts]
        if self._request.as_task:
            return await self._update(_STATES[outcome.state], parts)
        message = self._message(parts)
        message["metadata"] = {**outcome.metadata, **failure_metadata(outcome)}
        del message["taskId"]
        return await self._queue.enqueue_event(a2a_types.message_of(message))

    async def _update(self, state: str, parts: list[JSON] | None = None) -> None:
        if self._request.as_task:
            status: JSONObject = {"state": state}
            if parts:
                status["message"] = self._message(parts)
            update = a2a_types.event_of("statusUpdate", {**self._names, "status": status})
            await self._queue.enqueue_event(update)

    async def _artifact(self, artifact: JSONObject, *, append: bool = False, last: bool = True) -> None:
        if self._request.as_task:
            event: JSONObject = {**self._names, "artifact": artifact, "append": append, "lastChunk": last}
            await self._queue.enqueue_event(a2a_types.event_of("artifactUpdate", event))

    def _message(self, parts: list[JSON]) -> JSONObject:
        message: JSONObject = {"messageId": os.urandom(8).hex(), "role": "ROLE_AGENT", "parts": parts}
        return {**message, **self._names}
