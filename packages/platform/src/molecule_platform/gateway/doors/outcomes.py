"""What the sender is told: the agent's answer, an error, or that the message waits."""

from typing import Any

from molecule_platform.api.calls import Reply
from molecule_platform.domain import results
from molecule_platform.domain.lifecycle import ALIVE
from molecule_platform.domain.messages import Message
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.services import settlement
from molecule_wire import JSON, jsontext
from molecule_wire.a2a import envelopes, text
from molecule_wire.a2a.envelopes import Request
from molecule_wire.a2a.errors import A2AError

Headers = tuple[tuple[str, str], ...]

_CODE_OF_RPC = {-32700: "invalid-json", -32600: "invalid-request", -32602: "invalid-request"}


def protocol_error(problem: A2AError, request_id: str, rpc_id: JSON) -> Reply:
    """An error of the protocol, with the HTTP status it has on this path."""
    body: dict[str, Any] = envelopes.error_envelope(rpc_id, problem)
    body["request_id"] = request_id
    if problem.code in _CODE_OF_RPC:
        body["code"] = _CODE_OF_RPC[problem.code]
    return Reply(body, problem.http_status)


def ended(message: Message, request: Request, request_id: str, headers: Headers) -> Reply:
    """The outcome of a message that has one."""
    if message.status == "answered":
        return Reply(_result_bytes(message, request), 200, headers)
    error = settlement.error_of(message)
    body: dict[str, Any] = envelopes.error_envelope(request.id, error, request.dialect)
    body |= {"code": (message.error or {}).get("code"), "request_id": request_id, "message_id": message.id}
    if "delivery_confirmed" in (message.error or {}):
        body["delivery_confirmed"] = (message.error or {})["delivery_confirmed"]
    return Reply(body, error.http_status, headers)


def _result_bytes(message: Message, request: Request) -> bytes:
    """The stored bytes of the agent's answer inside an envelope with this request's id."""
    result = message.result or b"null"
    if message.dialect == "0.3":
        result = _mirrored(message, result)
    return b'{"jsonrpc":"2.0","id":' + jsontext.encode(request.id) + b',"result":' + result + b"}"


def _mirrored(message: Message, result: bytes) -> bytes:
    """Simple readers look for text in `result.parts` only, so a task repeats its final text there."""
    value = message.result_json()
    if not isinstance(value, dict) or value.get("kind") != "task" or "parts" in value:  # pyright: ignore[reportUnknownMemberType]
        return result
    words = text.text_of(value)  # pyright: ignore[reportUnknownArgumentType]
    parts: list[Any] = [{"kind": "text", "text": words}] if words else []
    return jsontext.set_members(result, (), {"parts": parts})


def queued(
    message: Message, request: Request, target: Workspace, base_url: str, depth: int, headers: Headers
) -> Reply:
    """The message is safe and waits: a task that can be asked about, and where."""
    task = results.snapshot(message, request.dialect)
    result: Any = {"task": task} if request.dialect == "1.0" else task
    body: dict[str, Any] = envelopes.result_envelope(request.id, result) | {
        "queued": True,
        "status": "queued",
        "queue_id": message.id,
        "message_id": message.id,
        "queue_depth": depth,
        "message": f"queued for {target.id}",
        "status_url": f"{base_url}/messages/{message.id}",
    }
    if target.status not in ALIVE:
        more = {"workspace_status": target.status, "status_reason": target.status_reason}
        return Reply(body | more, 202, headers)
    if target.delivery_mode == "poll":
        return Reply(body | {"delivery_mode": "poll", "method": request.method}, 200, headers)
    return Reply(body, 202, headers)
