"""An A2A agent that follows a script: JSON-RPC of both dialects, unary and streaming, tasks in memory.

What it does with a message is chosen by the longest prefix of its messageId (`behaviours.PREFIXES`, or a map
of one's own). It asks for no credential: it is for tests, on loopback.

usage: python -m molecule_platform.testing.scripted_agent PORT [--prefixes FILE] [--dialect 1.0|0.3]
"""

import argparse
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from molecule_platform.testing import behaviours, serving, task_memory
from molecule_platform.testing.task_memory import ScriptedTask, TaskMemory
from molecule_wire import JSON, JSONObject, jsontext
from molecule_wire.a2a import convert, envelopes, errors, operations, sse, versions
from molecule_wire.a2a.envelopes import A2ARequest
from molecule_wire.a2a.operations import Dialect

# A method of its own, which A2A does not know.
OWN_METHOD = "scripted/repeat"
MAX_REMEMBERED = 10_000
_STREAM_HEADERS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]


class ReceivedRequest(NamedTuple):
    """One request as it came; the names of headers are in lower case."""

    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class ScriptedEvent:
    """One event of a stream, with its number in its task."""

    number: int
    result: JSON


class ScriptedAgent:
    """The agent as an ASGI application; `received` holds the last requests."""

    def __init__(
        self,
        prefixes: Mapping[str, str] = behaviours.PREFIXES,
        dialects: Sequence[Dialect] = versions.SUPPORTED,
    ) -> None:
        for spec in prefixes.values():
            behaviours.named(spec)
        self.prefixes = prefixes
        self.dialects = tuple(dialects)
        self.received: deque[ReceivedRequest] = deque(maxlen=MAX_REMEMBERED)
        self._tasks = TaskMemory()

    async def __call__(self, scope: serving.Scope, receive: serving.Receive, send: serving.Send) -> None:
        """Serve the card and every POST, whatever its path."""
        if scope["method"] in ("GET", "HEAD"):
            found = scope["path"].endswith(operations.CARD_PATHS)
            card = jsontext.encode(self.card(_base_of(scope))) if found else b"{}"
            return await serving.answer(send, 200 if found else 404, card)
        headers = {name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]}
        body = await serving.body_of(receive)
        self.received.append(ReceivedRequest(headers, body))
        return await self._rpc(headers, body, send)

    def card(self, base: str) -> JSONObject:
        """The agent card: 1.0 members, 0.3 members, or both, as the dialects say."""
        card: JSONObject = {
            "name": "scripted",
            "description": "Does what the messageId asks for",
            "version": "1.0.0",
            "capabilities": {"streaming": True},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "script", "name": "Script", "description": "Follows it", "tags": ["test"]}],
        }
        if "1.0" in self.dialects:
            card["supportedInterfaces"] = [
                {"url": base, "protocolBinding": "JSONRPC", "protocolVersion": dialect}
                for dialect in self.dialects
            ]
        if "0.3" in self.dialects:
            card |= {"url": base, "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"}
        return card

    async def _rpc(self, headers: Mapping[str, str], body: bytes, send: serving.Send) -> None:
        request: A2ARequest | None = None
        try:
            request = self._read(headers, body)
            if request.operation in (operations.STREAM, operations.SUBSCRIBE):
                frames = self._stream(request)
                first = await anext(frames)
                return await _send_stream(request, first, frames, send)
            said = envelopes.result_envelope(request.id, await self._result(request))
        except errors.A2AError as problem:
            rpc_id = problem.rpc_id if request is None else request.id
            said = envelopes.error_envelope(rpc_id, problem, request.dialect if request else "1.0")
        return await serving.answer(send, 200, jsontext.encode(said))

    def _read(self, headers: Mapping[str, str], body: bytes) -> A2ARequest:
        request = envelopes.parse_request(body, version=headers.get("a2a-version"), lenient=False)
        if request.dialect not in self.dialects:
            raise errors.protocol_error(errors.VERSION_NOT_SUPPORTED, f"not {request.dialect} here")
        if request.operation is None and request.method != OWN_METHOD:
            raise errors.protocol_error(errors.METHOD_NOT_FOUND, "Method not found")
        return request

    async def _result(self, request: A2ARequest) -> JSON:
        if request.operation is None:
            return {"heard": request.params}
        if request.operation is operations.SEND:
            return _spoken(request, await self._send(request))
        if request.operation is operations.GET:
            return _spoken(request, _whole(self._tasks.get(request.task_id)))
        if request.operation is operations.CANCEL:
            return _spoken(request, self._cancel(request))
        if request.operation is operations.LIST:
            return self._list(request)
        raise errors.protocol_error(errors.UNSUPPORTED_OPERATION, f"{request.method} is not served")

    async def _send(self, request: A2ARequest) -> JSONObject:
        task, _ = self._begin(request)
        if request.blocking:
            await task.settled()
        else:
            await anext(task.follow())
        folded = _whole(task)
        return {"task": folded} if "status" in folded else {"message": folded}

    async def _stream(self, request: A2ARequest) -> AsyncIterator[ScriptedEvent]:
        if request.operation is operations.STREAM:
            task, seen = self._begin(request)
        else:
            task = self._tasks.get(request.task_id)
            if task.is_terminal:
                raise errors.protocol_error(errors.UNSUPPORTED_OPERATION, "The task has ended")
            seen = len(task.events)
            yield ScriptedEvent(seen, _spoken(request, {"task": _whole(task)}))
        async for number, event in task.follow(seen):
            yield ScriptedEvent(number, _spoken(request, event))

    def _begin(self, request: A2ARequest) -> tuple[ScriptedTask, int]:
        """Set the script for a message to work; the task, and how many events it had before."""
        task = self._tasks.for_message(request)
        converter = convert.between(request.dialect, "1.0")
        assert request.message is not None
        message = request.message if converter is None else converter.message(request.message)
        script, argument = behaviours.named(behaviours.chosen(self.prefixes, request.message_id or ""))
        turn = behaviours.Turn(message, task.id, task.context_id, argument)
        task_memory.begin(task, turn, script)
        return task, len(task.events)

    def _cancel(self, request: A2ARequest) -> JSONObject:
        task = self._tasks.get(request.task_id)
        if task.is_terminal:
            raise errors.protocol_error(errors.TASK_NOT_CANCELABLE, "The task has ended")
        task.cancel()
        return _whole(task)

    def _list(self, request: A2ARequest) -> JSONObject:
        context_id = request.params.get("contextId")
        named = context_id if isinstance(context_id, str) else None
        found: list[JSON] = [_whole(task) for task in self._tasks.page(named)[:50]]
        return {"tasks": found, "nextPageToken": "", "pageSize": 50, "totalSize": len(found)}


def _whole(task: ScriptedTask) -> JSONObject:
    assert task.folded is not None, "nothing was said yet"
    return task.folded


def _spoken(request: A2ARequest, result: JSONObject) -> JSON:
    """The 1.0 result in the dialect of the request."""
    converter = convert.between("1.0", request.dialect)
    return result if converter is None else converter.result(request.operation, result)


async def _send_stream(
    request: A2ARequest, first: ScriptedEvent, rest: AsyncIterator[ScriptedEvent], send: serving.Send
) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})

    async def tell(frame: ScriptedEvent) -> None:
        said = sse.frame(frame.number, envelopes.result_envelope(request.id, frame.result))
        await send({"type": "http.response.body", "body": said, "more_body": True})

    await tell(first)
    async for frame in rest:
        await tell(frame)
    await send({"type": "http.response.body", "body": b""})


def _base_of(scope: serving.Scope) -> str:
    host, port = scope["server"]
    return f"http://{host}:{port}/"


@contextlib.contextmanager
def running(agent: ScriptedAgent, port: int = 0) -> Generator[str]:
    """Serve the agent on a thread; yields its URL, which ends in a slash."""
    with serving.serving(agent, port) as url:
        yield f"{url}/"


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until told to end."""
    parser = argparse.ArgumentParser(description="A scripted A2A agent for tests.")
    parser.add_argument("port", type=int)
    parser.add_argument("--prefixes", type=Path, help="a JSON object: prefix of messageId to behaviour")
    parser.add_argument("--dialect", choices=versions.SUPPORTED, help="speak this one only")
    chosen = parser.parse_args(arguments)
    prefixes = json.loads(chosen.prefixes.read_text()) if chosen.prefixes else behaviours.PREFIXES
    dialects = (chosen.dialect,) if chosen.dialect else versions.SUPPORTED
    serving.serve(ScriptedAgent(prefixes, dialects), chosen.port)


if __name__ == "__main__":
    main()
