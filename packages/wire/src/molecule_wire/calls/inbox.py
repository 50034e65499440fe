"""Calls of the durable inbox: lease messages, keep the lease, settle them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from molecule_wire import JSON, JSONObject
from molecule_wire.calls import failures, inbound, values

if TYPE_CHECKING:
    from molecule_wire.answers import Answer


class Leased(NamedTuple):
    """What a lease or a peek gave, and how much else there is."""

    messages: list[inbound.InboundMessage]
    pending: int = 0
    leased: int = 0
    dead: int = 0


class Extended(NamedTuple):
    """The new end of a lease, and whether the sender wants the work stopped."""

    expires_at: float
    cancel_requested: bool = False


def lease(workspace_id: str, *, limit: int, wait: float, lease: float, worker: str) -> values.Request:
    """Claim up to `limit` messages for `lease` seconds, waiting up to `wait` for the first."""
    body: JSONObject = {"limit": limit, "wait": wait, "lease": lease, "worker": worker}
    return values.Request("POST", f"{_inbox(workspace_id)}/lease", json=body, timeout=wait + 10)


def read_leased(reply: values.Reply) -> Leased:
    """Read the answer to `lease`."""
    failures.check(reply)
    messages = map(inbound.parse_leased, values.objects_of(reply.object.get("messages")))
    return _leased(reply, [message for message in messages if message is not None])


def peek(workspace_id: str, *, limit: int = 10, wait: float = 0.0) -> values.Request:
    """Look at the inbox without touching it."""
    params = {"limit": str(limit)} | ({"wait": f"{wait:g}"} if wait > 0 else {})
    return values.Request("GET", _inbox(workspace_id), params=params, timeout=wait + 10)


def read_peeked(reply: values.Reply) -> Leased:
    """Read the answer to `peek`."""
    failures.check(reply)
    messages = map(inbound.parse_row, values.objects_of(reply.object.get("messages")))
    return _leased(reply, [message for message in messages if message is not None])


def answer(
    workspace_id: str,
    message_id: str,
    *,
    text: str | None = None,
    parts: list[JSON] | None = None,
    message: JSONObject | None = None,
    lease_token: str | None = None,
    state: str | None = None,
) -> values.Request:
    """Settle a message with an answer; `state="input-required"` leaves its task open.

    `message` is a whole A2A message, and stays one for a sender who waits for the answer.
    """
    body = _present(lease_token=lease_token, text=text, state=state)
    if parts is not None:
        body["parts"] = parts
    if message is not None:
        body["message"] = message
    return _settle(workspace_id, message_id, "answer", body)


def answer_with(
    workspace_id: str, message_id: str, said: "Answer", *, lease_token: str | None = None
) -> values.Request:
    """Settle a message with what a handler returned; artifacts alone are told as a task."""
    body = _present(lease_token=lease_token)
    if said.parts:
        body["parts"] = said.all_parts
    elif said.text.strip():
        body["text"] = said.text
    else:
        body["task"] = {"status": {"state": "completed"}}
    if said.artifacts:
        body["artifacts"] = list(cast("Sequence[JSON]", said.artifacts))
    return _settle(workspace_id, message_id, "answer", body)


def fail(
    workspace_id: str,
    message_id: str,
    *,
    error: str,
    retryable: bool,
    lease_token: str | None = None,
    delay_seconds: float | None = None,
) -> values.Request:
    """Give a message back as failed; `retryable` lets the platform offer it again."""
    body = _present(lease_token=lease_token, error=error, retryable=retryable, delay_seconds=delay_seconds)
    return _settle(workspace_id, message_id, "fail", body)


def ack(workspace_id: str, message_id: str, *, lease_token: str | None = None) -> values.Request:
    """Settle a message without an answer."""
    return _settle(workspace_id, message_id, "ack", _present(lease_token=lease_token))


def release(workspace_id: str, message_id: str, *, lease_token: str) -> values.Request:
    """Give a message back without an outcome; this costs no attempt, but the platform counts it."""
    return _settle(workspace_id, message_id, "release", _present(lease_token=lease_token))


def extend(workspace_id: str, message_id: str, *, lease_token: str, seconds: float) -> values.Request:
    """Keep a lease for `seconds` from now."""
    body = _present(lease_token=lease_token, seconds=seconds)
    return _settle(workspace_id, message_id, "extend", body)


def read_extended(reply: values.Reply) -> Extended:
    """Read the answer to `extend`."""
    failures.check(reply)
    expires_at = values.moment_of(reply.object.get("expires_at"))
    return Extended(expires_at, cancel_requested=_cancel_requested(reply))


def progress(
    workspace_id: str,
    message_id: str,
    *,
    lease_token: str,
    text: str | None = None,
    state: str | None = None,
    artifact: JSONObject | None = None,
    number: int | None = None,
) -> values.Request:
    """Report how far the work on a message is; this also renews its lease.

    `number` grows with each report under one lease: a report is appended at most once, and never after a
    newer one.
    """
    body = _present(lease_token=lease_token, text=text, state=state)
    if number is not None:
        body["number"] = number
    if artifact is not None:
        body["artifact"] = artifact
    return _settle(workspace_id, message_id, "progress", body)


def read_progress(reply: values.Reply) -> bool:
    """Read the answer to `progress`: whether the sender wants the work stopped."""
    failures.check(reply)
    return _cancel_requested(reply)


def _inbox(workspace_id: str) -> str:
    return f"/workspaces/{values.segment(workspace_id)}/inbox"


def _settle(workspace_id: str, message_id: str, verb: str, body: JSONObject) -> values.Request:
    path = f"{_inbox(workspace_id)}/{values.segment(message_id)}/{verb}"
    return values.Request("POST", path, json=body)


def _present(**fields: str | float | None) -> JSONObject:
    return {name: value for name, value in fields.items() if value is not None}


def _leased(reply: values.Reply, messages: list[inbound.InboundMessage]) -> Leased:
    counts = {
        name: int(values.number_of(reply.object.get(name)) or 0) for name in ("pending", "leased", "dead")
    }
    return Leased(messages, **counts)


def _cancel_requested(reply: values.Reply) -> bool:
    return reply.object.get("cancel_requested") is True
