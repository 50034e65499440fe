"""How a received message looks to the agent that receives it: the activity row and the inbox item."""

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from molecule_platform.domain.messages import Message
from molecule_wire import jsontext, times
from molecule_wire.a2a import text

_SOURCE_OF = {"workspace": "peer_agent", "user": "canvas_user", "org-token": "canvas_user"}


@dataclass(frozen=True)
class Sender:
    """What a receiver is told of a workspace that wrote to it."""

    name: str
    role: str


def source_of(caller: str, *, original_client: bool = False) -> str:
    """The kind of sender. Original clients can answer only users and peers: to them the others are users."""
    kind = caller.partition(":")[0]
    source = _SOURCE_OF.get(kind, {"channel": "channel", "webhook": "channel"}.get(kind, "system"))
    if caller == "system:scheduler":
        source = "schedule"
    return "canvas_user" if original_client and source not in ("peer_agent", "canvas_user") else source


def a2a_message_of(message: Message) -> dict[str, Any]:
    """The A2A message inside a stored request, in the caller's dialect."""
    envelope = jsontext.decode(message.body)
    params = envelope.get("params") if isinstance(envelope, dict) else None
    inner = params.get("message") if isinstance(params, dict) else None
    return dict(inner) if isinstance(inner, dict) else {}


class StoredMessage(NamedTuple):
    """What a stored request holds. A body may be large, so whoever needs more of it reads it once."""

    message: dict[str, Any]
    text: str


def read_stored(message: Message) -> StoredMessage:
    """The A2A message inside a stored request, and its words."""
    content = a2a_message_of(message)
    return StoredMessage(content, text.text_of_message(content))


def activity_data(
    message: Message, said: str, activity_id: str, peer: Sender | None, base_url: str, original_client: bool
) -> dict[str, Any]:
    """The `data` member of an activity row; `said` are the words of the message."""
    source = source_of(message.caller, original_client=original_client)
    peer_id = peer_of(message.caller)
    return {
        "source": source,
        "kind": source,
        "text": said,
        "message": said,
        "message_id": message.id,
        "context_id": message.context_id,
        "task_id": message.task_id,
        "peer_id": peer_id,
        "activity_id": activity_id,
        "peer_name": peer.name if peer else "",
        "peer_role": peer.role if peer else "",
        "agent_card_url": f"{base_url}/registry/discover/{peer_id}" if peer_id else "",
    }


def peer_of(caller: str) -> str:
    """The workspace id of a caller that is a workspace, else nothing."""
    kind, _, rest = caller.partition(":")
    return rest if kind == "workspace" else ""


def _delegation(message: Message, received: dict[str, Any], task: str) -> dict[str, Any] | None:
    """The delegation that a message carries, as its agent needs it."""
    if message.kind != "delegation":
        return None
    metadata: dict[str, Any] = received.get("metadata") or {}
    return {
        "id": message.delegation_id,
        "task": task,
        "deadline_at": times.format_time(message.deadline_at),
        "deliverables": metadata.get("deliverables", []),
        "chain": (message.delegation or {}).get("chain", []),
    }


def _extensions(message: Message, received: dict[str, Any]) -> list[str]:
    """The extensions that a message names, then those that its sender asked for beside it."""
    asked = (message.extensions or "").split(",")
    return list(dict.fromkeys(filter(None, [*_texts(received.get("extensions")), *asked])))


def _texts(value: Any) -> list[str]:
    listed = cast("list[Any]", value) if isinstance(value, list) else []
    return [one for one in listed if isinstance(one, str)]


def inbox_item(
    message: Message, received: dict[str, Any], row: dict[str, Any], lease_token: str | None
) -> dict[str, Any]:
    """The activity row of a message with what an inbox adds, and its lease when one was taken."""
    data = row["data"]
    item = row | {
        "message_id": message.id,
        "activity_id": message.activity_id,
        "kind": message.kind,
        "source": data["source"],
        "org_id": message.org_id,
        "caller": message.caller,
        "caller_name": message.caller_name,
        "peer_id": data["peer_id"],
        "peer_name": data["peer_name"],
        "peer_role": data["peer_role"],
        "agent_card_url": data["agent_card_url"],
        "text": data["text"],
        "parts": received.get("parts", []),
        "metadata": received.get("metadata", {}),
        "context_id": message.context_id,
        "task_id": message.task_id,
        "delegation": _delegation(message, received, data["text"]),
        # What an agent with a URL finds signed in its assertion, also when a plain message passes work on.
        "delegation_context": message.delegation,
        "traceparent": message.traceparent,
        "deadline_at": times.format_time(message.deadline_at),
        "attempt": message.attempts,
        "client_message_id": received.get("messageId", ""),
        "extensions": _extensions(message, received),
        "reference_task_ids": _texts(received.get("referenceTaskIds")),
    }
    if lease_token is not None and message.lease_expires_at is not None:
        item["lease"] = {
            "token": lease_token,
            "epoch": message.lease_epoch,
            "expires_at": times.format_time(message.lease_expires_at),
            "attempt": message.attempts,
        }
    return item
