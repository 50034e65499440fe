"""Calls of delegations: ask a peer for a piece of work, look how it ended."""

import hashlib

from molecule_wire import JSONObject
from molecule_wire.calls import values

DELEGATE_TIMEOUT = 300.0


def minute_key(task: str, now: float) -> str:
    """A key that is the same for the same text within one minute; `now` is in seconds since the epoch."""
    minute = int(now) // 60 * 60
    return hashlib.sha256(f"{task}:{minute}".encode()).hexdigest()


def delegate(
    workspace_id: str,
    target_id: str,
    task: str,
    *,
    idempotency_key: str,
    timeout: float = DELEGATE_TIMEOUT,
) -> values.Request:
    """Ask a peer for a piece of work; the same key and task again are the same delegation."""
    headers = {"X-Workspace-ID": workspace_id, "Content-Type": "application/json"}
    path = f"/workspaces/{values.segment(target_id)}/delegate"
    body: JSONObject = {"task": task, "idempotency_key": idempotency_key}
    return values.Request("POST", path, headers=headers, json=body, timeout=timeout)


def show(workspace_id: str, delegation_id: str) -> values.Request:
    """Ask for one delegation, whole."""
    path = f"/workspaces/{values.segment(workspace_id)}/delegations/{values.segment(delegation_id)}"
    return values.Request("GET", path)
