"""Calls of the activity log and of notify: read what came in, log what was done, tell the org's people."""

from molecule_wire import JSON, JSONObject
from molecule_wire.calls import failures, inbound, values


def fetch(
    workspace_id: str,
    *,
    since_id: str | None = None,
    limit: int = 100,
    type: str = "a2a_receive",
    peer_id: str | None = None,
    before_ts: str | None = None,
    wait: float = 0.0,
) -> values.Request:
    """Ask for rows of the own activity log; with `wait` the platform holds the call until there is one."""
    params = {"type": type, "limit": str(limit)}
    optional = {"since_id": since_id, "peer_id": peer_id, "before_ts": before_ts}
    params |= {name: value for name, value in optional.items() if value}
    if wait > 0:
        params["wait"] = f"{wait:g}"
    path = f"/workspaces/{values.segment(workspace_id)}/activity"
    return values.Request("GET", path, params=params, timeout=wait + 10 if wait > 0 else 15.0)


def read_rows(reply: values.Reply) -> list[inbound.InboundMessage]:
    """Read the answer to `fetch`. A 410 is `cursor-lost`, whatever it says, unless the workspace is gone."""
    if reply.status == 410 or not reply.ok:
        raise _failure(reply)
    items = reply.object.get("items") if isinstance(reply.body, dict) else reply.body
    messages = (inbound.parse_row(row) for row in values.objects_of(items))
    return [message for message in messages if message is not None]


def log(
    workspace_id: str,
    activity_type: str,
    *,
    summary: str = "",
    method: str = "",
    target_id: str = "",
    status: str = "",
    error_detail: str = "",
    duration_ms: int | None = None,
    metadata: JSONObject | None = None,
) -> values.Request:
    """Log what the agent did; what is empty is not sent."""
    body: JSONObject = {"activity_type": activity_type}
    texts = {
        "summary": summary,
        "method": method,
        "target_id": target_id,
        "status": status,
        "error_detail": error_detail,
    }
    body |= {name: value for name, value in texts.items() if value}
    if duration_ms is not None:
        body["duration_ms"] = duration_ms
    if metadata:
        body["metadata"] = metadata
    return values.Request("POST", f"/workspaces/{values.segment(workspace_id)}/activity", json=body)


def notify(
    workspace_id: str,
    text: str,
    *,
    attachments: list[JSONObject] | None = None,
    in_reply_to: str = "",
    type: str = "",
) -> values.Request:
    """Tell the people of the org something; with `in_reply_to` it answers the message of a person."""
    body: JSONObject = {"message": text}
    if type:
        body["type"] = type
    if attachments:
        body["attachments"] = list[JSON](attachments)
    headers = {"Content-Type": "application/json"}
    if in_reply_to:
        headers["X-Molecule-In-Reply-To"] = in_reply_to
    path = f"/workspaces/{values.segment(workspace_id)}/notify"
    return values.Request("POST", path, headers=headers, json=body, timeout=15.0)


def _failure(reply: values.Reply) -> values.CallFailed:
    failure = failures.failure(reply)
    if reply.status == 410 and failure.code != "workspace-removed":
        failure.code = "cursor-lost"
    return failure
