"""What the scripted agent does with a message, chosen by the beginning of its messageId.

A behaviour is a script of A2A 1.0 stream responses. Its spec is `NAME` or `NAME:ARGUMENT`; what the argument
means stands beside each script.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TypeAlias

from molecule_wire import JSON, JSONObject, ids, times
from molecule_wire.a2a import text
from molecule_wire.a2a.tasks import TaskState

MAX_CHUNKS = 10_000
MOST_SECONDS = 600.0
DEFAULT_CHUNKS = 3
DEFAULT_SECONDS = 2.0


def now() -> str:
    """The time as the wire writes it."""
    return times.format_time(datetime.now(UTC))


@dataclass(frozen=True)
class Turn:
    """One message of a task, in 1.0, and the argument of the behaviour it chose."""

    message: JSONObject
    task_id: str
    context_id: str
    argument: str

    @property
    def said(self) -> str:
        """The argument of the behaviour, else the words of the message."""
        return self.argument or text.text_of_message(self.message)

    def status(self, state: TaskState, words: str = "") -> JSONObject:
        """A status update, with a message of the agent when there are words."""
        status: JSONObject = {"state": state.value, "timestamp": now()}
        if words:
            status["message"] = self.reply(words)
        return {"statusUpdate": {"taskId": self.task_id, "contextId": self.context_id, "status": status}}

    def artifact(self, part: JSONObject, artifact_id: str = "out", **flags: bool) -> JSONObject:
        """An artifact update with one part."""
        artifact: JSONObject = {"artifactId": artifact_id, "parts": [part]}
        update: JSONObject = {"taskId": self.task_id, "contextId": self.context_id, "artifact": artifact}
        return {"artifactUpdate": {**update, **flags}}

    def reply(self, words: str, *, bare: bool = False) -> JSONObject:
        """A message of the agent; a bare one belongs to no task."""
        message: JSONObject = {"messageId": ids.uuid7(), "role": "ROLE_AGENT", "contextId": self.context_id}
        parts: list[JSON] = [{"text": words}]
        return {**message, "parts": parts} if bare else {**message, "taskId": self.task_id, "parts": parts}


Script: TypeAlias = Callable[[Turn], AsyncIterator[JSONObject]]


async def _complete(turn: Turn) -> AsyncIterator[JSONObject]:
    """Argument: the words of the last status."""
    yield turn.status(TaskState.WORKING)
    yield turn.status(TaskState.COMPLETED, turn.said)


async def _message(turn: Turn) -> AsyncIterator[JSONObject]:
    """Argument: the words of the message."""
    yield {"message": turn.reply(turn.said, bare=True)}


async def _with_artifact(turn: Turn, part: JSONObject) -> AsyncIterator[JSONObject]:
    yield turn.status(TaskState.WORKING)
    yield turn.artifact(part, lastChunk=True)
    yield turn.status(TaskState.COMPLETED)


def _artifact_text(turn: Turn) -> AsyncIterator[JSONObject]:
    """Argument: the text."""
    return _with_artifact(turn, {"text": turn.said})


def _artifact_file(turn: Turn) -> AsyncIterator[JSONObject]:
    """Argument: the content of the file."""
    raw = base64.b64encode(turn.said.encode()).decode()
    return _with_artifact(turn, {"raw": raw, "filename": "output.txt", "mediaType": "text/plain"})


def _artifact_url(turn: Turn) -> AsyncIterator[JSONObject]:
    """Argument: the URL."""
    url = turn.argument or "https://example.com/output.txt"
    return _with_artifact(turn, {"url": url, "filename": "output.txt", "mediaType": "text/plain"})


def _artifact_data(turn: Turn) -> AsyncIterator[JSONObject]:
    return _with_artifact(turn, {"data": {"key": "value", "count": 42}, "mediaType": "application/json"})


async def _chunked(turn: Turn) -> AsyncIterator[JSONObject]:
    """Argument: how many chunks."""
    count = min(int(turn.argument or DEFAULT_CHUNKS), MAX_CHUNKS)
    yield turn.status(TaskState.WORKING)
    for number in range(count):
        part: JSONObject = {"text": f"chunk {number + 1}\n"}
        yield turn.artifact(part, append=number > 0, lastChunk=number == count - 1)
    yield turn.status(TaskState.COMPLETED)


async def _input_required(turn: Turn) -> AsyncIterator[JSONObject]:
    """The next message of the task completes it, unless it asks for more itself."""
    yield turn.status(TaskState.WORKING)
    yield turn.status(TaskState.INPUT_REQUIRED, turn.argument or "What else?")


async def _auth_required(turn: Turn) -> AsyncIterator[JSONObject]:
    yield turn.status(TaskState.WORKING)
    yield turn.status(TaskState.AUTH_REQUIRED, turn.argument or "Show me a credential")


async def _reject(turn: Turn) -> AsyncIterator[JSONObject]:
    """Argument: the reason."""
    yield turn.status(TaskState.REJECTED, turn.argument or "rejected")


async def _slow(turn: Turn) -> AsyncIterator[JSONObject]:
    """Argument: for how many seconds it works."""
    yield turn.status(TaskState.WORKING)
    await asyncio.sleep(min(float(turn.argument or DEFAULT_SECONDS), MOST_SECONDS))
    yield turn.status(TaskState.COMPLETED, text.text_of_message(turn.message))


async def _fail(turn: Turn) -> AsyncIterator[JSONObject]:
    """Argument: the reason."""
    yield turn.status(TaskState.WORKING)
    yield turn.status(TaskState.FAILED, turn.argument or "failed")


SCRIPTS: Mapping[str, Script] = MappingProxyType(
    {
        "complete": _complete,
        "message": _message,
        "artifact-text": _artifact_text,
        "artifact-file": _artifact_file,
        "artifact-url": _artifact_url,
        "artifact-data": _artifact_data,
        "chunked": _chunked,
        "input-required": _input_required,
        "auth-required": _auth_required,
        "reject": _reject,
        "slow": _slow,
        "fail": _fail,
    }
)

OWN_PREFIXES: Mapping[str, str] = MappingProxyType({"": "complete", **{name: name for name in SCRIPTS}})
"""A message whose id begins with the name of a behaviour gets it; any other is completed."""

TCK_PREFIXES: Mapping[str, str] = MappingProxyType(
    {
        "tck-artifact-text": "artifact-text:Generated text content",
        "tck-artifact-file": "artifact-file:Generated file content",
        "tck-artifact-file-url": "artifact-url",
        "tck-artifact-data": "artifact-data",
        "tck-message-response": "message:Direct message response",
        "tck-input-required": "input-required",
        "tck-cancel": "input-required",
        "tck-reject-task": "reject",
        "tck-stream": "artifact-text:Stream hello from TCK",
        "tck-stream-002": "message",
        "tck-stream-artifact-chunked": "chunked",
        "tck-stream-artifact-text": "artifact-text",
        "tck-stream-artifact-file": "artifact-file",
    }
)
"""The ids that the public conformance kit of A2A sends."""

PREFIXES: Mapping[str, str] = MappingProxyType({**OWN_PREFIXES, **TCK_PREFIXES})


def named(spec: str) -> tuple[Script, str]:
    """The script and the argument of a spec; an unknown name is a ValueError that lists the known ones."""
    name, _, argument = spec.partition(":")
    if name not in SCRIPTS:
        raise ValueError(f"{name!r} is no behaviour: there are {', '.join(SCRIPTS)}")
    return SCRIPTS[name], argument


def chosen(prefixes: Mapping[str, str], message_id: str) -> str:
    """The spec of the longest prefix that the id begins with, `complete` where none does."""
    fitting = [prefix for prefix in prefixes if message_id.startswith(prefix)]
    return prefixes[max(fitting, key=len)] if fitting else "complete"
