"""Events and artifact references of a run, the kinds of events, and the limits of a hosted run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from molecule_wire import JSONObject, jsontext

RESERVED_KINDS = frozenset(
    {
        "question",
        "input_request",
        "scope_request",
        "interaction_closed",
        "run_started",
        "run_finished",
        "retry",
        "call_started",
        "call_complete",
        "call_error",
        "sandbox_started",
        "sandbox_finished",
        "changes_staged",
        "changes_committed",
        "changes_rejected",
        "cancel_requested",
        "events_dropped",
    }
)
"""Kinds that only the engine emits in a hosted run."""

DROPPABLE_KINDS = frozenset({"progress", "text_delta"})
"""Kinds that are dropped once a run has `MAX_EVENTS` events."""

MAX_PAYLOAD_BYTES = 64 * 1024
MAX_EVENTS = 10_000
_AUTHOR_KIND = re.compile(r"[a-z][a-z0-9_.-]{0,63}")


class _ByName:
    """Subscription by field name, for code that treats events and references as dictionaries."""

    def __getitem__(self, name: str) -> Any:
        fields: Mapping[str, object] = getattr(self, "__dataclass_fields__")  # noqa: B009 - set by dataclass
        if name not in fields:
            raise KeyError(name)
        return getattr(self, name)


@dataclass(frozen=True)
class AgentEvent(_ByName):
    """Something that a run tells its subscribers."""

    kind: str
    payload: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class ArtifactRef(_ByName):
    """Reference to a file that a run wrote."""

    name: str
    uri: str
    mime_type: str
    size_bytes: int


def checked_payload(kind: str, payload: Mapping[str, Any]) -> JSONObject:
    """The payload of an author's event in a hosted run. Raises ValueError for what such a run refuses."""
    if kind in RESERVED_KINDS:
        raise ValueError(f"event kind {kind!r} is reserved for the engine; choose another name")
    if not _AUTHOR_KIND.fullmatch(kind):
        raise ValueError(f"event kind {kind!r} must match [a-z][a-z0-9_.-]{{0,63}}")
    return json_payload(kind, payload)


def json_payload(kind: str, payload: Mapping[str, Any]) -> JSONObject:
    """The payload as the JSON that is stored. Raises ValueError if it is no JSON or larger than 64 KiB."""
    try:
        written = jsontext.encode(dict(payload))
        value = jsontext.decode(written)
    except (TypeError, ValueError, RecursionError) as problem:
        raise ValueError(f"the payload of event {kind!r} is not JSON: {problem}") from problem
    if len(written) > MAX_PAYLOAD_BYTES:
        raise ValueError(
            f"the payload of event {kind!r} has {len(written)} bytes, the limit is {MAX_PAYLOAD_BYTES}; "
            "write an artifact and emit its reference"
        )
    assert isinstance(value, dict)
    return value
