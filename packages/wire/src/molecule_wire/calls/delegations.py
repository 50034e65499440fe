"""Calls of delegations: ask a peer for a piece of work, look how it and others ended."""

import hashlib
from typing import Literal, NamedTuple, TypeAlias

from molecule_wire import JSONObject
from molecule_wire.calls import failures, values

DELEGATE_TIMEOUT = 300.0
MAX_ROWS = 200

Role: TypeAlias = Literal["source", "target", "any"]


class DelegationPage(NamedTuple):
    """One page of delegations, newest first, as the platform shows them; a cursor leads to older ones."""

    rows: list[JSONObject]
    next_cursor: str = ""


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
    parent_delegation_id: str = "",
    parent_message_id: str = "",
    timeout: float = DELEGATE_TIMEOUT,
) -> values.Request:
    """Ask a peer for a piece of work; the same key and task again are the same delegation.

    The parents are the `id` of the delegation context in which the agent works, and the message for which it
    asks; who works on one message at a time need not name them.
    """
    headers = {"X-Workspace-ID": workspace_id, "Content-Type": "application/json"}
    path = f"/workspaces/{values.segment(target_id)}/delegate"
    body: JSONObject = {"task": task, "idempotency_key": idempotency_key}
    if parent_delegation_id:
        body["parent_delegation_id"] = parent_delegation_id
    if parent_message_id:
        body["parent_message_id"] = parent_message_id
    return values.Request("POST", path, headers=headers, json=body, timeout=timeout, idempotent=True)


def show(workspace_id: str, delegation_id: str) -> values.Request:
    """Ask for one delegation, whole."""
    path = f"/workspaces/{values.segment(workspace_id)}/delegations/{values.segment(delegation_id)}"
    return values.Request("GET", path)


def list_page(
    workspace_id: str, *, role: Role = "source", status: str = "", limit: int = 50, cursor: str = ""
) -> values.Request:
    """List the delegations that the workspace gave (`source`), was given (`target`), or both."""
    params = {"role": role, "limit": str(min(limit, MAX_ROWS))}
    params |= {name: value for name, value in (("status", status), ("cursor", cursor)) if value}
    path = f"/workspaces/{values.segment(workspace_id)}/delegations"
    return values.Request("GET", path, params=params)


def read_page(reply: values.Reply) -> DelegationPage:
    """Read the answer to `list_page`; rows without an id are skipped."""
    failures.check(reply)
    rows = [row for row in values.objects_of(reply.body) if values.text_of(row.get("delegation_id"))]
    return DelegationPage(rows, reply.header("X-Next-Cursor"))
