"""An agent whose streams are cut: each after some events, until all cuts are made."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Mapping

from molecule_platform.testing import behaviours, serving, task_memory
from molecule_platform.testing.scripted_agent import ScriptedAgent
from molecule_platform.testing.task_memory import ScriptedTask
from molecule_wire import JSON, JSONObject
from molecule_wire.a2a import convert, envelopes, errors, operations, sse
from molecule_wire.a2a.envelopes import A2ARequest
from molecule_wire.a2a.operations import Dialect
from molecule_wire.a2a.tasks import TaskState

# Longer than a cut takes to be noticed on some machines and shorter on others: both must be harmless.
PACE_SECONDS = 0.003
LAST_CHUNKS = 5


def at_random(cuts: int, seed: int) -> list[int]:
    """After how many events each stream is cut."""
    chance = random.Random(seed)
    return [chance.randint(1, 6) for _ in range(cuts)]


class CutAgent(ScriptedAgent):
    """Says one chunk after the other, whether anybody listens or not, until a stream is left uncut.

    A subscriber gets what 1.0 asks for, the task and then its events; in 0.3 only what is new, as with the
    official SDK. Half of the cuts reset the connection, the others end the stream as if it were over.
    """

    def __init__(self, dialect: Dialect, lengths: Iterable[int], *, shows_tasks: bool = True) -> None:
        super().__init__(dialects=[dialect])
        self._lengths = list(lengths)
        self._shows_tasks = shows_tasks
        self._opened = 0
        self.chunks = 0

    @property
    def all_said(self) -> list[str]:
        """Every chunk, in order."""
        return [f"chunk {number}" for number in range(self.chunks)]

    async def _result(self, request: A2ARequest) -> JSON:
        if request.operation is operations.GET and not self._shows_tasks:
            raise errors.protocol_error(errors.UNSUPPORTED_OPERATION, "tasks are not shown here")
        return await super()._result(request)

    def _begin(self, request: A2ARequest) -> tuple[ScriptedTask, int]:
        task = self._tasks.for_message(request)
        converter = convert.between(request.dialect, "1.0")
        assert request.message is not None
        message = request.message if converter is None else converter.message(request.message)
        task_memory.begin(task, behaviours.Turn(message, task.id, task.context_id, ""), self._script)
        return task, len(task.events)

    async def _script(self, turn: behaviours.Turn) -> AsyncIterator[JSONObject]:
        yield turn.status(TaskState.WORKING)
        left = LAST_CHUNKS
        while left:
            await asyncio.sleep(PACE_SECONDS)
            left -= self._opened > len(self._lengths)
            part: JSONObject = {"text": f"chunk {self.chunks}"}
            self.chunks += 1
            yield turn.artifact(part, append=self.chunks > 1)
        yield turn.status(TaskState.COMPLETED)

    async def _rpc(self, headers: Mapping[str, str], body: bytes, send: serving.Send) -> None:
        request = self._read(headers, body)
        is_stream = request.operation is operations.STREAM
        if not is_stream and request.operation is not operations.SUBSCRIBE:
            return await super()._rpc(headers, body, send)
        if not is_stream and self._tasks.get(request.task_id).is_terminal:
            return await super()._rpc(headers, body, send)
        task, seen = self._begin(request) if is_stream else (self._tasks.get(request.task_id), None)
        # The subscription stands before its head is seen.
        after = len(task.events) if seen is None else seen
        kind = (b"content-type", b"text/event-stream")
        await send({"type": "http.response.start", "status": 200, "headers": [kind]})
        await self._frames(request, task, after, send)
        return None

    async def _frames(self, request: A2ARequest, task: ScriptedTask, after: int, send: serving.Send) -> None:
        converter = convert.between("1.0", request.dialect)

        async def tell(number: int, event: JSONObject) -> None:
            spoken = event if converter is None else converter.result(request.operation, event)
            frame = sse.frame(number, envelopes.result_envelope(request.id, spoken))
            await send({"type": "http.response.body", "body": frame, "more_body": True})

        self._opened += 1
        is_cut = self._opened <= len(self._lengths)
        left = self._lengths[self._opened - 1] if is_cut else -1
        if request.operation is operations.SUBSCRIBE and request.dialect == "1.0":
            assert task.folded is not None
            await tell(after, {"task": task.folded})
        async for number, event in task.follow(after):
            await tell(number, event)
            left -= 1
            if left == 0:
                break
        if is_cut and left == 0 and self._opened % 2:
            return  # without an end: the server resets the connection
        await send({"type": "http.response.body", "body": b""})
