"""A turn of the A2A server as the output of a turn of the kit, and the request that it brought."""

import os
import time

from molecule_runtime.domain.turns import Caller, Delegation, TurnOutcome, TurnRequest, failure_metadata
from molecule_wire import JSON, JSONObject, times
from molecule_wire.a2a import operations
from molecule_wire.a2a.server import turns
from molecule_wire.a2a.server.service import MESSAGE_ID_HEADER


def turn_request(turn: turns.Turn, caller: Caller | None, delegation: Delegation | None) -> TurnRequest:
    """What the kit needs of a message that came to the A2A server."""
    call, headers, message = turn.request, turn.headers, turn.message
    assert call is not None
    parts, metadata = message.get("parts"), message.get("metadata")
    attempt = headers.get("x-molecule-attempt", "")
    streams = call.operation is operations.STREAM
    return TurnRequest(
        message_id=headers.get(MESSAGE_ID_HEADER) or str(message.get("messageId") or ""),
        task_id=turn.log.id,
        context_id=turn.log.context_id,
        parts=parts if isinstance(parts, list) else [],
        attempt=_number(attempt) or 1,
        metadata=metadata if isinstance(metadata, dict) else {},
        caller=caller,
        delegation=delegation,
        traceparent=headers.get("traceparent", ""),
        deadline=_deadline(headers.get("x-molecule-deadline", ""), headers.get("x-timeout", "")),
        as_task=streams or call.task_id is not None or not call.blocking,
        continues=turn.log.whole if call.task_id is not None else None,
    )


def _deadline(at: str, seconds: str) -> float | None:
    """The earliest of an RFC 3339 time and a number of seconds, on the monotonic clock."""
    left: float | None = None
    if at:
        try:
            left = times.parse_time(at).timestamp() - time.time()
        except ValueError:
            left = 0.0
    if (named := _number(seconds)) is not None:
        left = named if left is None else min(left, named)
    return None if left is None else time.monotonic() + left


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


class TaskOutput:
    """See `TurnOutput`: one Message, or a task with its events."""

    def __init__(self, turn: turns.Turn, request: TurnRequest) -> None:
        self._turn = turn
        self._as_task = request.as_task
        self._beside: list[JSON] = []

    async def working(self) -> None:
        """See `TurnOutput`: the server has said so already."""

    async def status(self, line: str) -> None:
        """See `TurnOutput`."""
        if self._as_task and not self._turn.is_over and line:
            self._turn.work(line)

    async def text(self, delta: str, *, run: int, first: bool, last: bool) -> None:
        """See `TurnOutput`."""
        if self._as_task and not self._turn.is_over:
            artifact: JSONObject = {"artifactId": f"{self._turn.log.id}-{run}", "parts": [{"text": delta}]}
            self._turn.artifact(artifact, append=not first, last=last)

    async def artifact(self, name: str, parts: list[JSON]) -> None:
        """See `TurnOutput`."""
        if not self._as_task:
            self._beside += parts
        elif not self._turn.is_over:
            artifact: JSONObject = {"artifactId": os.urandom(8).hex(), "name": name, "parts": parts}
            self._turn.artifact(artifact, last=True)

    async def end(self, outcome: TurnOutcome) -> None:
        """See `TurnOutput`; a turn that was called off has its end already."""
        turn = self._turn
        if turn.is_over:
            return
        content: list[JSON] = [
            *([{"text": outcome.text}] if outcome.text else []),
            *outcome.parts,
            *self._beside,
        ]
        metadata: JSONObject = {**outcome.metadata, **failure_metadata(outcome)}
        if outcome.state == "failed" and outcome.retryable:
            turn.fail(content, retry=True, metadata=metadata)
        elif outcome.state == "input-required":
            turn.ask(content, metadata=metadata)
        elif not self._as_task:
            turn.answer(content, metadata=metadata)
        elif outcome.state == "completed":
            turn.complete(content, metadata=metadata)
        elif outcome.state == "rejected":
            turn.reject(content, metadata=metadata)
        elif outcome.state == "canceled":
            turn.cancel()
        else:
            turn.fail(content, metadata=metadata)
