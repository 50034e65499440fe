"""Foreign executors: an `AgentExecutor` of the a2a-sdk as an engine behind the kit's guard."""

import asyncio
import logging
from typing import Any

from molecule_runtime.domain.turns import ResultState, TurnResult
from molecule_runtime.kit.turns.executor import Turn, TurnExecutor
from molecule_wire import JSON, JSONObject
from molecule_wire.a2a import text

log = logging.getLogger("molecule_runtime")

_ENDS: dict[str, ResultState] = {
    "TASK_STATE_COMPLETED": "completed",
    "TASK_STATE_FAILED": "failed",
    "TASK_STATE_REJECTED": "rejected",
    "TASK_STATE_CANCELED": "failed",
    "TASK_STATE_INPUT_REQUIRED": "input-required",
    "TASK_STATE_AUTH_REQUIRED": "input-required",
}


class GuardedExecutor(TurnExecutor):
    """Runs a foreign executor as an engine: same queue, deadline, cancellation and accounting as others.

    Its events are repaired: a Message after a Task is the end of the task, nothing follows an end, and who
    says nothing has "(no response generated)" said for it.
    """

    def __init__(self, executor: Any, config: Any, *, adapter: Any = None, tools: Any = None) -> None:
        super().__init__(config, adapter=adapter, tools=tools)
        self.foreign = executor
        self._contexts: dict[str, tuple[Any, Any]] = {}

    async def start(self) -> None:
        """Start the foreign executor, if it can be started."""
        await _call(self.foreign, "start")

    async def stop(self) -> None:
        """Stop the foreign executor, if it can be stopped."""
        await _call(self.foreign, "stop")

    async def run_turn(self, turn: Turn) -> TurnResult:
        """Hand the message over, and take what is enqueued."""
        # Imported here: the a2a-sdk costs 35 MB, which an engine without it does not pay.
        from molecule_runtime.kit.turns import a2a_types

        events = _Events(turn)
        context, queue = a2a_types.request_context(turn), a2a_types.event_queue(events.take)
        self._contexts[turn.task_id] = (context, queue)
        try:
            await self.foreign.execute(context, queue)
        finally:
            self._contexts.pop(turn.task_id, None)
        session_id = getattr(self.foreign, "_session_id", None)
        if isinstance(session_id, str):
            self._session_id = session_id
        return events.result

    async def interrupt(self, turn: Turn) -> None:
        """Tell the foreign executor that the turn is called off."""
        known = self._contexts.get(turn.task_id)
        if known is not None:
            await self.foreign.cancel(*known)


class _Events:
    """What a foreign executor has said in one turn."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._is_over = False
        self.result = TurnResult()

    def take(self, kind: str, event: JSONObject) -> None:
        """One event: a Message, a Task, or an update, in 1.0."""
        if self._is_over:
            log.warning("turn %s: a %s after the end is dropped", self._turn.message_id, kind)
            return
        self._turn.sink.touch()
        if kind == "message":
            self.result.text, self.result.attachments = text.text_of_message(event), []
            self.result.metadata = _object(event.get("metadata"))
            self._is_over = True
        elif kind == "artifactUpdate":
            self._artifact(event)
        else:
            for artifact in _list(event.get("artifacts")):
                self._artifact({"artifact": artifact})
            self._status(_object(event.get("status")))

    def _status(self, status: JSONObject) -> None:
        status_text = text.text_of_message(_object(status.get("message")))
        end = _ENDS.get(str(status.get("state")))
        if end is None:
            if status_text:
                self._turn.sink.status(status_text)
            return
        self.result.state, self.result.text, self._is_over = end, status_text, True

    def _artifact(self, update: JSONObject) -> None:
        artifact = _object(update.get("artifact"))
        parts = _list(artifact.get("parts"))
        texts = [part.get("text") for part in parts if isinstance(part, dict)]
        if parts and all(isinstance(piece, str) for piece in texts):
            self._turn.sink.text("".join(str(piece) for piece in texts))
        elif parts:
            self._turn.sink.artifact(str(artifact.get("name") or "artifact"), parts)


async def _call(executor: Any, name: str) -> None:
    method = getattr(executor, name, None)
    if callable(method):
        returned: Any = method()
        if asyncio.iscoroutine(returned):
            await returned


def _object(value: JSON) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []
