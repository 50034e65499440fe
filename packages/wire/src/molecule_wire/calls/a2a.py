"""Calls of the A2A platform path: say something to a peer, answer a peer, look at a task."""

from molecule_wire import JSONObject
from molecule_wire.calls import failures, values


def proxy_path(target_id: str) -> str:
    """The path under which the platform takes A2A messages for a workspace."""
    return f"/workspaces/{values.segment(target_id)}/a2a"


def send(
    workspace_id: str,
    target_id: str,
    text: str,
    *,
    rpc_id: str,
    message_id: str,
    context_id: str | None = None,
    metadata: JSONObject | None = None,
    timeout: float = 30.0,
) -> values.Request:
    """Send a peer a text as a new turn; the same ids and text again are the same message."""
    message = _message("user", message_id, text)
    if context_id is not None:
        message["contextId"] = context_id
    if metadata is not None:
        message["metadata"] = metadata
    headers = {"X-Workspace-ID": workspace_id, "Content-Type": "application/json"}
    body = _envelope(rpc_id, "message/send", {"message": message})
    path = proxy_path(target_id)
    return values.Request("POST", path, headers=headers, json=body, timeout=timeout, idempotent=True)


def run_skill(
    workspace_id: str,
    target_id: str,
    skill: str,
    arguments: JSONObject,
    *,
    rpc_id: str,
    message_id: str,
    timeout: float = 30.0,
) -> values.Request:
    """Let a peer run one of its skills; the same ids and arguments again are the same message."""
    asked: JSONObject = {"kind": "data", "data": {"skill": skill, "arguments": arguments}}
    message: JSONObject = {"role": "user", "messageId": message_id, "parts": [asked]}
    headers = {"X-Workspace-ID": workspace_id, "Content-Type": "application/json"}
    body = _envelope(rpc_id, "message/send", {"message": message})
    path = proxy_path(target_id)
    return values.Request("POST", path, headers=headers, json=body, timeout=timeout, idempotent=True)


def cancel_task(workspace_id: str, target_id: str, task_id: str, *, rpc_id: str) -> values.Request:
    """Call a task of a peer off."""
    headers = {"X-Workspace-ID": workspace_id, "Content-Type": "application/json"}
    body = _envelope(rpc_id, "tasks/cancel", {"id": task_id})
    return values.Request("POST", proxy_path(target_id), headers=headers, json=body, idempotent=True)


def answer(
    workspace_id: str, target_id: str, text: str, *, rpc_id: str, message_id: str, in_reply_to: str
) -> values.Request:
    """Answer a peer's message that was read through the activity log."""
    headers = {
        "X-Workspace-ID": workspace_id,
        "X-Source-Workspace-Id": workspace_id,
        "Content-Type": "application/json",
        "X-Molecule-In-Reply-To": in_reply_to,
    }
    body = _envelope(rpc_id, "message/send", {"message": _message("agent", message_id, text)})
    return values.Request("POST", proxy_path(target_id), headers=headers, json=body, timeout=15.0)


def get_task(workspace_id: str, target_id: str, task_id: str, *, rpc_id: str) -> values.Request:
    """Ask how far a task of a peer is."""
    headers = {"X-Workspace-ID": workspace_id, "Content-Type": "application/json"}
    body = _envelope(rpc_id, "tasks/get", {"id": task_id})
    path = proxy_path(target_id)
    return values.Request("POST", path, headers=headers, json=body, timeout=30.0, idempotent=True)


def read_envelope(reply: values.Reply) -> JSONObject:
    """Read a JSON-RPC answer as it stands; an accepted answer that is no JSON object is a failure."""
    failures.check(reply)
    if not isinstance(reply.body, dict):
        raise values.CallFailed(reply.status, "invalid-agent-response", "the answer is not a JSON object")
    return reply.body


def _message(role: str, message_id: str, text: str) -> JSONObject:
    return {"role": role, "messageId": message_id, "parts": [{"kind": "text", "text": text}]}


def _envelope(rpc_id: str, method: str, params: JSONObject) -> JSONObject:
    return {"jsonrpc": "2.0", "id": rpc_id, "method": method, "params": params}
