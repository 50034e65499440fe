"""What the sender is told at the platform's A2A path: the answer, an error, or that the message waits."""

from typing import Any

from molecule_platform.domain import responses
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.lifecycle import ALIVE
from molecule_platform.domain.messages import Message
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.web.pipeline import error_responses
from molecule_platform.web.pipeline.calls import Response
from molecule_platform.web.routes.a2a.a2a_call import A2ACall
from molecule_platform.web.routes.a2a.response_writer import A2AResponseWriter, Headers, traced
from molecule_wire import JSON, jsontext
from molecule_wire.a2a import envelopes, text
from molecule_wire.a2a.errors import A2AError
from molecule_wire.a2a.operations import Operation
from molecule_wire.a2a.server.bindings import JsonRpcBinding

WAKING_SECONDS = 15

# What is known of a failure and repeated beside the envelope, for clients that look nowhere else.
_TOLD_BESIDE = ("delivery_confirmed", "busy", "retry_after", "native_session")
_CODE_OF_RPC = {-32700: "invalid-json", -32600: "invalid-request", -32602: "invalid-request"}


class PlatformResponseWriter(A2AResponseWriter):
    """JSON-RPC with an HTTP status for every error, and with the facts of it beside the envelope."""

    __slots__ = ()

    def problem(self, problem: A2AError, request_id: str, operation: Operation | None = None) -> Response:
        """An error of the protocol, with the HTTP status it has on this path."""
        assert isinstance(self.binding, JsonRpcBinding)
        told = traced(problem, request_id)
        body: dict[str, Any] = envelopes.error_envelope(self.binding.rpc_id, told, self.binding.dialect)
        body["request_id"] = request_id
        code = _CODE_OF_RPC.get(problem.code) if problem.of_peer else problem.metadata.get("code")
        code = code or _CODE_OF_RPC.get(problem.code)
        return Response(body | {"code": code} if code else body, problem.http_status)

    def refusal(self, refusal: ApiError, request_id: str) -> Response:
        """A refusal of the platform."""
        assert isinstance(self.binding, JsonRpcBinding)
        return error_responses.jsonrpc(refusal, request_id, self.binding.rpc_id)


def ended(ask: A2ACall, message: Message, headers: Headers) -> Response:
    """The outcome of a message that has one."""
    if message.status == "answered":
        return ask.framing.reply(_mirrored(ask, message), headers)
    problem = ask.framing.problem(responses.error_of(message), ask.call.request_id)
    known = message.error or {}
    body = {**problem.body, "code": known.get("code"), "message_id": message.id}
    body |= {name: known[name] for name in _TOLD_BESIDE if name in known}
    if "retry_after" in known:
        headers = (*headers, ("retry-after", str(known["retry_after"])))
    return Response(body, problem.status, headers)


def _mirrored(ask: A2ACall, message: Message) -> bytes:
    """The answer; in 0.3 simple readers look for text in `result.parts` only, so a task repeats it there."""
    result = ask.renderer.stored(message.result or b"null", message.dialect)
    if ask.renderer.spelling != "0.3" or b'"task"' not in result:
        return result
    value: JSON = jsontext.decode(result)
    if not isinstance(value, dict) or value.get("kind") != "task" or "parts" in value:
        return result
    words = text.text_of(value)
    parts: list[JSON] = [{"kind": "text", "text": words}] if words else []
    return jsontext.set_members(result, (), {"parts": parts})


def queued(ask: A2ACall, message: Message, task: dict[str, Any], depth: int, headers: Headers) -> Response:
    """The message is safe and waits: a task that can be asked about, and where."""
    target = ask.workspace
    result = jsontext.decode(ask.renderer.event({"task": task}))
    body: dict[str, Any] = envelopes.result_envelope(ask.request.id, result) | {
        "queued": True,
        "status": "queued",
        "queue_id": message.id,
        "message_id": message.id,
        "queue_depth": depth,
        "message": f"queued for {target.id}",
        "status_url": f"{ask.call.base_url}/messages/{message.id}",
    }
    if target.status not in ALIVE:
        return _absent(target, body, headers)
    if target.delivery_mode == "poll":
        return Response(body | {"delivery_mode": "poll", "method": ask.request.method}, 200, headers)
    return Response(body, 202, headers)


def _absent(target: Workspace, body: dict[str, Any], headers: Headers) -> Response:
    body |= {"workspace_status": target.status, "status_reason": target.status_reason}
    if target.is_restarting:
        body["restarting"] = True
    if target.status != "hibernated":
        return Response(body, 202, headers)
    body |= {"waking": True, "retry_after": WAKING_SECONDS}
    return Response(body, 202, (*headers, ("retry-after", str(WAKING_SECONDS))))
