"""What an agent's frames say, as far as anything depends on it; the rest passes unread."""

from dataclasses import replace
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from molecule_platform.domain import results
from molecule_platform.domain.tasks import EventKind
from molecule_platform.ports.agents import AgentEvent
from molecule_wire import JSON, jsontext
from molecule_wire.a2a import checks, convert, tasks
from molecule_wire.a2a.operations import Dialect
from molecule_wire.a2a.tasks import EventRefused

MAX_ID_LENGTH = 512
MAX_CONTEXT_LENGTH = 4096
GAP = "molecule.gap"


class _Frame(Struct):
    result: Raw = Raw()
    error: Raw = Raw()


class ParsedEvent(NamedTuple):
    """A JSON-RPC response: the bytes of its result or of its error, None for what is not there."""

    result: bytes | None
    error: bytes | None


class _Status(Struct):
    state: str = ""


class _Artifact(Struct, rename="camel"):
    artifact_id: str


class _Body(Struct, rename="camel"):
    """A task, message, status update or artifact update."""

    kind: str | None = None
    id: str | None = None
    task_id: str | None = None
    context_id: str | None = None
    message_id: str | None = None
    status: _Status | None = None
    artifact: _Artifact | None = None
    artifacts: list[_Artifact] | None = None
    history: list[Raw] | None = None
    append: bool | None = None
    metadata: Raw = Raw()


class _Wrapped(Struct, rename="camel"):
    task: _Body | UnsetType | None = UNSET
    message: _Body | UnsetType | None = UNSET
    status_update: _Body | UnsetType | None = UNSET
    artifact_update: _Body | UnsetType | None = UNSET


_FRAME = msgspec.json.Decoder(_Frame)
_WRAPPED = msgspec.json.Decoder(_Wrapped)
_BARE = msgspec.json.Decoder(_Body)
_KIND_OF_0_3: dict[str, EventKind] = {
    "task": "task",
    "message": "message",
    "status-update": "status",
    "artifact-update": "artifact",
}
_MEMBER_OF_1_0: dict[EventKind, str] = {
    "task": "task",
    "message": "message",
    "status": "statusUpdate",
    "artifact": "artifactUpdate",
}
_STATES_OF_0_3 = {results.state_0_3(state.value): state for state in tasks.STATES}


def frame(data: bytes) -> ParsedEvent:
    """The response inside a frame. Raises `EventRefused`."""
    try:
        found = _FRAME.decode(data)
    except msgspec.MsgspecError as problem:
        raise EventRefused("malformed-event", f"a frame is no JSON-RPC response ({problem})") from problem
    return ParsedEvent(_given(found.result), _given(found.error))


def _given(raw: Raw) -> bytes | None:
    given = bytes(raw)
    return None if given in (b"", b"null") else given


def read(payload: bytes, dialect: Dialect) -> AgentEvent:
    """One event of a stream, or the result of a send. Raises `EventRefused`."""
    try:
        if not payload.isascii():
            payload.decode()
        kind, body, kept = _wrapped(payload) if dialect == "1.0" else (*_bare(payload), payload)
    except (msgspec.MsgspecError, ValueError) as problem:
        raise EventRefused("malformed-event", f"an event cannot be read ({problem})") from problem
    return _said(kind, body, kept, dialect)


def _wrapped(payload: bytes) -> tuple[EventKind, _Body, bytes]:
    """The one member of an event, and the event without those that are null, which are none."""
    event = _WRAPPED.decode(payload)
    members: list[tuple[EventKind, _Body | UnsetType | None]] = [
        ("task", event.task),
        ("message", event.message),
        ("status", event.status_update),
        ("artifact", event.artifact_update),
    ]
    given: list[tuple[EventKind, _Body]] = [(kind, body) for kind, body in members if isinstance(body, _Body)]
    if len(given) != 1:
        raise EventRefused("malformed-event", "an event holds exactly one of task, message and their updates")
    if any(body is None for _kind, body in members):
        value = cast("dict[str, JSON]", jsontext.decode(payload))
        payload = jsontext.encode({name: one for name, one in value.items() if one is not None})
    return *given[0], payload


def _bare(payload: bytes) -> tuple[EventKind, _Body]:
    body = _BARE.decode(payload)
    if body.kind in _KIND_OF_0_3:
        return _KIND_OF_0_3[body.kind], body
    if body.kind is not None:
        raise EventRefused("malformed-event", f"{body.kind[:64]!r} is no kind of event")
    if body.status is not None:
        kind: EventKind = "status" if body.task_id else "task"
        return kind, body
    if body.artifact is not None:
        return "artifact", body
    return "message", body


def _said(kind: EventKind, body: _Body, payload: bytes, dialect: Dialect) -> AgentEvent:
    task_id = body.id if kind == "task" else body.task_id
    if kind != "message" and (not task_id or len(task_id) > MAX_ID_LENGTH or "\0" in task_id):
        raise EventRefused("malformed-event", "an event needs the id of its task")
    if kind == "artifact" and body.artifact is None:
        raise EventRefused("malformed-event", "an artifact update needs its artifact")
    if body.context_id is not None and len(body.context_id) > MAX_CONTEXT_LENGTH:
        raise EventRefused("malformed-event", f"a contextId has at most {MAX_CONTEXT_LENGTH} characters")
    if kind == "message" and dialect == "1.0" and not _is_message(payload):
        raise EventRefused("malformed-event", "a Message needs a messageId, a role and parts")
    listed = [body.artifact] if body.artifact else body.artifacts or []
    state = _state(body, dialect) if kind in ("task", "status") else None
    return AgentEvent(
        kind=kind,
        payload=payload,
        dialect=dialect,
        task_id=task_id,
        context_id=body.context_id or None,
        state=state,
        artifact_ids=tuple(artifact.artifact_id for artifact in listed),
        append=kind == "artifact" and body.append is True,
        asks_again=state == "failed" and _is_retryable(body.metadata),
    )


def _is_retryable(metadata: Raw) -> bool:
    """Whether an agent that failed asks for the message again (`molecule.retryable`)."""
    given = _given(metadata)
    told = jsontext.decode(given) if given is not None else None
    own = told.get("molecule") if isinstance(told, dict) else None
    return isinstance(own, dict) and own.get("retryable") is True


def modern(said: AgentEvent) -> dict[str, Any]:
    """An event as a 1.0 stream response."""
    value = cast("dict[str, Any]", jsontext.decode(said.payload))
    return value if said.dialect == "1.0" else convert.FROM_0_3.event(value)


def mark_gap(said: AgentEvent) -> AgentEvent:
    """The event with a mark in its metadata: what was said right before it may be missing."""
    event = cast("dict[str, Any]", jsontext.decode(said.payload))
    body = event if said.dialect == "0.3" else event[_MEMBER_OF_1_0[said.kind]]
    body["metadata"] = {**(body.get("metadata") or {}), GAP: True}
    return replace(said, payload=jsontext.encode(event))


def _is_message(payload: bytes) -> bool:
    event = cast("dict[str, JSON]", jsontext.decode(payload))
    return checks.is_message(event["message"])


def _state(body: _Body, dialect: Dialect) -> str:
    told = body.status.state if body.status is not None else ""
    if dialect == "1.0" and told in tasks.STATES:
        return results.state_0_3(told)
    if dialect == "0.3" and told in _STATES_OF_0_3:
        return told
    raise EventRefused("unknown-state", f"{told[:64]!r} is no task state")
