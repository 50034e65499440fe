"""The log of what happened: persisted events, and the ones derived from message transitions."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from molecule_platform.domain.errors import ApiError
from molecule_wire import jsontext, times
from molecule_wire.values import value

_ID = re.compile(r"[0-9]{1,18}")
# We make the ids of workspaces with version 4, and those of messages and the like with version 7.
_WORKSPACE = re.compile(r"(workspace:)?[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")

MESSAGE_EVENT_OF = {
    "accepted": "MESSAGE_ACCEPTED",
    "leased": "MESSAGE_LEASED",
    "answered": "MESSAGE_ANSWERED",
    "failed": "MESSAGE_FAILED",
    "expired": "MESSAGE_EXPIRED",
    "cancelled": "MESSAGE_CANCELLED",
}

STATUS_EVENT_OF = {
    "provisioning": "WORKSPACE_PROVISIONING",
    "online": "WORKSPACE_ONLINE",
    "degraded": "WORKSPACE_DEGRADED",
    "offline": "WORKSPACE_OFFLINE",
    "paused": "WORKSPACE_PAUSED",
    "awaiting_agent": "WORKSPACE_AWAITING_AGENT",
    "removed": "WORKSPACE_REMOVED",
}

CLAIMED = "WORKSPACE_CLAIMED"
RESPONSE = "A2A_RESPONSE"
RESYNC = "RESYNC_REQUIRED"

# What somebody said or did for somebody: only those it happened between may see it.
_CONTENT = frozenset({"AGENT_MESSAGE", RESPONSE, "ACTIVITY_LOGGED", "TOKEN_CREATED", "TOKEN_REVOKED"})
# What concerns every workspace of the organisation when it happened to none of them alone.
_FOR_ALL = frozenset({"SECRET_CHANGED"})
# From where somebody joined is no business of those beside it.
_FOR_OPERATORS = frozenset({CLAIMED})
_CONTENT_OF = ("MESSAGE_", "DELEGATION_", "APPROVAL_")
_DECISION = ("approval_id", "status", "decision", "decided_by")


def is_content(event_type: str) -> bool:
    """Whether events of this type tell what passed between some, and not how the organisation stands."""
    return event_type in _CONTENT or event_type.startswith(_CONTENT_OF)


def parties_of(caller: str, target_id: str) -> tuple[str, ...]:
    """The workspaces between which a message passes; people see what their organisation does anyway."""
    kind, _, name = caller.partition(":")
    return (target_id, name) if kind == "workspace" else (target_id,)


def _texts(said: Any) -> Iterator[str]:
    """The texts in a payload that are the id of a workspace, or its name as a principal."""
    if isinstance(said, str):
        if _WORKSPACE.fullmatch(said):
            yield said
    elif isinstance(said, dict | list):
        members = cast("Iterable[Any]", said.values() if isinstance(said, dict) else said)
        for member in members:
            yield from _texts(member)


def parse_id(given: str) -> int:
    """The id of an event as a client names it in `since`."""
    if not _ID.fullmatch(given):
        sentence = "since is the id of an event"
        raise ApiError("invalid-request", sentence, field="since", detail=sentence)
    return int(given)


@value
class Event:
    """One entry of the log. `id` is None for what is only shown live and never replayed.

    `parties` are the workspaces between which it happened, beside the one whose event it is.
    """

    event_type: str
    org_id: str
    workspace_id: str
    payload: dict[str, Any]
    created_at: datetime
    id: int | None = None
    parties: Sequence[str] | None = None

    @property
    def is_private(self) -> bool:
        """Whether a workspace sees it only as a party."""
        return self.parties is not None or is_content(self.event_type)

    @property
    def asks_the_tree(self) -> bool:
        """Whether the tree decides who sees it: it is neither its parties' alone nor every workspace's."""
        for_all = self.event_type in _FOR_ALL and not self.workspace_id
        return not self.is_private and not for_all

    def has_party(self, workspace_id: str) -> bool:
        """Whether it happened to the workspace, or between it and others."""
        return workspace_id == self.workspace_id or workspace_id in (self.parties or ())

    @property
    def is_for_operators(self) -> bool:
        """Whether only those see it who may change the organisation."""
        return self.event_type in _FOR_OPERATORS

    def named_workspaces(self) -> set[str]:
        """The ids in it that could be those of workspaces which the platform made."""
        return {text[-36:] for text in _texts([self.workspace_id, *(self.parties or ()), self.payload])}

    def as_line(self) -> bytes:
        """The event for another replica; only what is not kept travels this way."""
        at = times.format_time(self.created_at)
        parties: Any = None if self.parties is None else list(self.parties)
        return jsontext.encode([self.event_type, self.org_id, self.workspace_id, self.payload, at, parties])

    @classmethod
    def from_line(cls, line: bytes) -> "Event":
        """The event that another replica sent."""
        event_type, org_id, workspace_id, payload, at, parties = json.loads(line)
        return cls(event_type, org_id, workspace_id, payload, times.parse_time(at), parties=parties)

    def without_address(self, reader: str) -> "Event":
        """The event for a workspace: where another one's agent runs is nobody's business."""
        if self.workspace_id == reader or "url" not in self.payload:
            return self
        return replace(self, payload={**self.payload, "url": ""})

    def frame(self) -> dict[str, Any]:
        """The event as a live frame."""
        frame: dict[str, Any] = {} if self.id is None else {"id": str(self.id)}
        frame |= {
            "event": self.event_type,
            "workspace_id": self.workspace_id,
            "timestamp": times.format_time(self.created_at),
            "payload": self.payload,
        }
        if self.event_type == "APPROVAL_DECIDED":
            frame |= {name: self.payload[name] for name in _DECISION if name in self.payload}
        return frame

    def told(self) -> dict[str, Any]:
        """The event as the stream of one workspace tells it."""
        told: dict[str, Any] = {
            "type": self.event_type,
            "timestamp": round(self.created_at.timestamp() * 1000),
            "data": self.payload,
        }
        return told if self.id is None else told | {"id": str(self.id)}

    def row(self) -> dict[str, Any]:
        """The event as a list row."""
        return {
            "id": str(self.id),
            "event_type": self.event_type,
            "workspace_id": self.workspace_id,
            "payload": self.payload,
            "created_at": times.format_time(self.created_at),
        }


@value
class Transition:
    """A step of a message, numbered by the same counter as the events."""

    event_id: int
    org_id: str
    message_id: str
    target_id: str
    caller: str
    kind: str
    attempt: int
    lease_epoch: int
    created_at: datetime

    def as_event(self) -> Event | None:
        """The MESSAGE_* event this step stands for; steps back into the queue have none."""
        event_type = MESSAGE_EVENT_OF.get(self.kind)
        if event_type is None:
            return None
        payload = {"message_id": self.message_id, "caller": self.caller, "target_id": self.target_id}
        parties = parties_of(self.caller, self.target_id)
        return Event(
            event_type, self.org_id, self.target_id, payload, self.created_at, self.event_id, parties
        )
