"""How an answer is wrapped: JSON-RPC or HTTP+JSON, in the caller's dialect, whole or event by event."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from molecule_agent.a2a_server import web
from molecule_wire import JSON, JSONObject, jsontext
from molecule_wire.a2a import convert, envelopes, errors, rest, sse

Spelling: TypeAlias = Literal["1.0", "0.3", "0.3 REST"]

STREAM_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}

_FROM_1_0: dict[Spelling, convert.Converter | None] = {
    "1.0": None,
    "0.3": convert.TO_0_3,
    "0.3 REST": convert.TO_0_3_REST,
}


@dataclass(frozen=True)
class Speech:
    """What a caller hears, in its dialect; `history` is how many messages of a task it wants to see."""

    spelling: Spelling
    history: int | None = None

    def event(self, event: JSONObject) -> JSONObject:
        """A result of a send, or an event of a stream."""
        task = event.get("task")
        told: JSONObject = {"task": self._cut(task)} if isinstance(task, dict) else event
        converter = _FROM_1_0[self.spelling]
        return converter.event(told) if converter else told

    def task(self, task: JSONObject) -> JSONObject:
        """A task as the result of an operation on it."""
        converter = _FROM_1_0[self.spelling]
        return converter.task(self._cut(task)) if converter else self._cut(task)

    def _cut(self, task: JSONObject) -> JSONObject:
        history = task.get("history")
        if self.history is None or not isinstance(history, list):
            return task
        if self.history == 0:
            return {name: value for name, value in task.items() if name != "history"}
        return {**task, "history": history[-self.history :]}


@dataclass(frozen=True)
class RpcFraming:
    """JSON-RPC: the id of the request stands on everything, and an error of the protocol is a 200 of HTTP."""

    rpc_id: JSON = None
    dialect: Literal["1.0", "0.3"] = "1.0"

    def reply(self, result: JSON) -> web.Outgoing:
        """A whole answer."""
        return web.answer(200, envelopes.result_envelope(self.rpc_id, result))

    def problem(self, problem: errors.A2AError) -> web.Outgoing:
        """An error; only what is none of the protocol's shows in the status."""
        status = problem.http_status if problem.domain == errors.GATEWAY_DOMAIN else 200
        return web.answer(status, envelopes.error_envelope(self.rpc_id, problem, self.dialect))

    def frame(self, number: int, result: JSON) -> bytes:
        """One event of a stream."""
        return sse.frame(number, envelopes.result_envelope(self.rpc_id, result))


@dataclass(frozen=True)
class RestFraming:
    """HTTP+JSON: results stand bare."""

    media: str = rest.JSON_MEDIA

    def reply(self, result: JSON) -> web.Outgoing:
        """A whole answer."""
        return web.Outgoing(200, jsontext.encode(result), {"Content-Type": self.media})

    def problem(self, problem: errors.A2AError) -> web.Outgoing:
        """An error with the status of its row."""
        body = jsontext.encode(problem.to_rest())
        return web.Outgoing(problem.http_status, body, {"Content-Type": self.media})

    def frame(self, number: int, result: JSON) -> bytes:
        """One event of a stream."""
        return sse.frame(number, result)


Framing: TypeAlias = RpcFraming | RestFraming
