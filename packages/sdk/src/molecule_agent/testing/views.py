"""Messages as the platform shows them: the item of an inbox, and the row with the outcome."""

from molecule_agent.testing.http_messages import moment, moment_or_none, object_in
from molecule_agent.testing.records import ORG_ID, Message, Workspace
from molecule_wire import JSON, JSONObject
from molecule_wire.a2a import envelopes, errors, text

MAX_SUMMARY_LENGTH = 200

_TASK_STATE_OF = {
    "accepted": "submitted",
    "leased": "working",
    "answered": "completed",
    "failed": "failed",
    "expired": "failed",
    "cancelled": "canceled",
}


class MessageView(dict[str, JSON]):
    """A message as `GET /messages/{id}` shows it, with the members that tests ask for most by name."""

    @property
    def status(self) -> str:
        """`accepted`, `leased`, `answered`, `failed`, `expired` or `cancelled`."""
        return str(self["status"])

    @property
    def text(self) -> str:
        """The words of the answer; `""` while there are none."""
        return text.text_of(self["result"]) if self["result"] is not None else ""

    @property
    def error_code(self) -> str:
        """What went wrong, as a code; `""` when nothing did."""
        return str(object_in(self["error"]).get("code", ""))

    @property
    def dead_letter(self) -> bool:
        """Whether all attempts were in vain."""
        return self["dead_letter"] is True


def message_row(message: Message, delivery_mode: str) -> MessageView:
    """A message and, once it has one, its outcome."""
    row: JSONObject = {
        "id": message.id,
        "org_id": ORG_ID,
        "target_id": message.target_id,
        "caller": message.caller,
        "caller_name": message.caller_name,
        "kind": "message",
        "method": "message/send",
        "status": message.status,
        "task_state": message.task_state or _TASK_STATE_OF[message.status],
        "task_id": message.id,
        "context_id": message.context_id,
        "delegation_id": None,
        "parent_message_id": None,
        "priority": message.priority,
        "attempts": message.attempts,
        "max_attempts": message.max_attempts,
        "created_at": moment(message.created_at),
        "deadline_at": moment(message.deadline_at),
        "leased_at": moment_or_none(message.leased_at),
        "lease_expires_at": moment_or_none(message.lease_expires_at),
        "finished_at": moment_or_none(message.finished_at),
        "delivery_mode": delivery_mode,
        "result": message.result,
        "error": message.error,
        "dead_letter": message.dead_letter,
        "cancel_requested": message.cancel_requested,
    }
    return MessageView(row)


def inbox_item(message: Message, peer: Workspace | None, base: str, *, leased: bool) -> JSONObject:
    """A message as the agent gets it that it is for, with its lease if one was taken now."""
    data = _data(message, peer, base)
    shared = ("message_id", "source", "peer_id", "peer_name", "peer_role", "agent_card_url", "text")
    item: JSONObject = {**_row(message), **{name: data[name] for name in shared}, "data": data}
    item |= {
        "activity_id": message.activity_id,
        "parts": message.content["parts"],
        "context_id": message.context_id,
        "task_id": message.id,
        "org_id": ORG_ID,
        "caller_name": message.caller_name,
        "delegation": None,
        "delegation_context": None,
        "traceparent": message.traceparent,
        "deadline_at": moment(message.deadline_at),
        "attempt": message.attempts,
        "client_message_id": message.content["messageId"],
        "extensions": [],
        "reference_task_ids": [],
    }
    if message.finished_at is not None:
        item |= {"error": message.error, "finished_at": moment(message.finished_at)}
    if leased:
        item["lease"] = {
            "token": message.lease_token,
            "epoch": message.epoch,
            "expires_at": moment_or_none(message.lease_expires_at),
            "attempt": message.attempts,
        }
    return item


def _data(message: Message, peer: Workspace | None, base: str) -> JSONObject:
    source = "peer_agent" if message.peer_id else "canvas_user"
    content = text.text_of_message(message.content)
    return {
        "source": source,
        "kind": source,
        "text": content,
        "message": content,
        "message_id": message.id,
        "context_id": message.context_id,
        "task_id": message.id,
        "peer_id": message.peer_id,
        "activity_id": message.activity_id,
        "peer_name": peer.name if peer else "",
        "peer_role": peer.role if peer else "",
        "agent_card_url": f"{base}/registry/discover/{message.peer_id}" if message.peer_id else "",
    }


def _row(message: Message) -> JSONObject:
    """The activity row of a message."""
    at = moment(message.created_at)
    error = object_in(message.error) if message.dead_letter else {}
    return {
        "id": message.activity_id,
        "type": "a2a_receive",
        "activity_type": "a2a_receive",
        "workspace_id": message.target_id,
        "source_id": message.peer_id,
        "target_id": message.target_id,
        "method": "message/send",
        "summary": text.text_of_message(message.content)[:MAX_SUMMARY_LENGTH],
        "duration_ms": None,
        "status": "error" if message.dead_letter else "pending",
        "error_detail": error.get("message", ""),
        "ts": at,
        "created_at": at,
        "caller": message.caller,
        "request_body": None,
        "response_body": _response(message),
        "tool_trace": None,
        "metadata": {},
        "kind": "message",
    }


def _response(message: Message) -> JSON:
    if message.is_open:
        return None
    said_as = message.content["messageId"]
    if message.error is None:
        return envelopes.result_envelope(said_as, message.result)
    problem = errors.gateway_error(_code_with_status(message), str(message.error["message"]))
    return envelopes.error_envelope(said_as, problem)


def _code_with_status(message: Message) -> str:
    code = str(object_in(message.error)["code"])
    return "deadline-exceeded" if code == "no-reply" else code
