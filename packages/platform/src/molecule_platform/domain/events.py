"""The log of what happened: persisted events, and the ones derived from message transitions."""

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from molecule_platform.domain.refusals import Refusal
from molecule_wire import jsontext, times

_ID = re.compile(r"[0-9]{1,18}")

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


def parse_id(given: str) -> int:
    """The id of an event as a client names it in `since`."""
    if not _ID.fullmatch(given):
        sentence = "since is the id of an event"
        raise Refusal("invalid-request", sentence, field="since", detail=sentence)
    return int(given)


@dataclass(frozen=True)
class Event:
    """One entry of the log. `id` is None for what is only shown live and never replayed."""

    event_type: str
    org_id: str
    workspace_id: str
    payload: dict[str, Any]
    created_at: datetime
    id: int | None = None

    def as_line(self) -> bytes:
        """The event for another replica; only what is not kept travels this way."""
        at = times.format_time(self.created_at)
        return jsontext.encode([self.event_type, self.org_id, self.workspace_id, self.payload, at])

    @classmethod
    def from_line(cls, line: bytes) -> "Event":
        """The event that another replica sent."""
        event_type, org_id, workspace_id, payload, at = json.loads(line)
        return cls(event_type, org_id, workspace_id, payload, times.parse_time(at))

    def frame(self) -> dict[str, Any]:
        """The event as a live frame."""
        frame: dict[str, Any] = {} if self.id is None else {"id": str(self.id)}
        return frame | {
            "event": self.event_type,
            "workspace_id": self.workspace_id,
            "timestamp": times.format_time(self.created_at),
            "payload": self.payload,
        }

    def row(self) -> dict[str, Any]:
        """The event as a list row."""
        return {
            "id": str(self.id),
            "event_type": self.event_type,
            "workspace_id": self.workspace_id,
            "payload": self.payload,
            "created_at": times.format_time(self.created_at),
        }


@dataclass(frozen=True)
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
        return Event(event_type, self.org_id, self.target_id, payload, self.created_at, self.event_id)
