"""The conversation around a message: who asks, and what was said before."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from molecule_wire import JSON, JSONObject
from molecule_wire.calls import failures, values

if TYPE_CHECKING:
    from molecule_wire.calls.inbound import InboundMessage

SenderKind: TypeAlias = Literal["person", "agent", "schedule", "channel", "system", "unknown"]

_KIND_OF_PRINCIPAL: dict[str, SenderKind] = {
    "user": "person",
    "org-token": "person",
    "workspace": "agent",
    "schedule": "schedule",
    "channel": "channel",
    "webhook": "channel",
    "system": "system",
}
_KIND_OF_SOURCE: dict[str, SenderKind] = {
    "canvas_user": "person",
    "peer_agent": "agent",
    "schedule": "schedule",
    "channel": "channel",
    "system": "system",
}
_SCHEDULER = "system:scheduler"


@dataclass(frozen=True)
class Sender:
    """Who sent a message; `name` is what people call them."""

    kind: SenderKind
    id: str = ""
    name: str = ""


@dataclass(frozen=True)
class HistoryItem:
    """One earlier turn: what the other side (`user`) or this agent (`agent`) said, and when."""

    role: Literal["user", "agent"]
    text: str
    parts: Sequence[JSON] = ()
    at: str = ""


def sender_of(message: "InboundMessage") -> Sender:
    """Who sent a message, by the caller that the platform names, else by the source of the row."""
    caller = message.caller or {}
    kind, _, name = values.text_of(caller.get("principal")).partition(":")
    known = _KIND_OF_PRINCIPAL.get(kind)
    called = values.text_of(caller.get("name")) or message.peer_name
    if known is None or not name:
        return Sender(_KIND_OF_SOURCE.get(message.source, "unknown"), message.source_id, called)
    return Sender("schedule" if f"{kind}:{name}" == _SCHEDULER else known, name, called)


def history(message_id: str) -> values.Request:
    """Ask for the earlier turns of a message's conversation."""
    path = f"/messages/{values.segment(message_id)}"
    return values.Request("GET", path, params={"include": "history"})


def read_history(reply: values.Reply) -> list[HistoryItem]:
    """Read the answer to `history`, oldest turn first."""
    failures.check(reply)
    return [_item(row) for row in values.objects_of(reply.object.get("history"))]


def _item(row: JSONObject) -> HistoryItem:
    parts = row.get("parts")
    return HistoryItem(
        role="agent" if row.get("role") == "agent" else "user",
        text=values.text_of(row.get("text")),
        parts=tuple(parts) if isinstance(parts, list) else (),
        at=values.text_of(row.get("at")),
    )
