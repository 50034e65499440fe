"""Activity: what a workspace did and received, and what it tells people."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from molecule_platform.domain.authorisation import org_with, self_with
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.schemas import Body, Query, Schema


class ListActivity(Query):
    """Which rows, from where, and how long to wait for one."""

    type: str | None = None
    source: Literal["canvas", "agent"] | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    since_id: str | None = None
    since_secs: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 0
    peer_id: str | None = None
    before_ts: str | None = None
    wait: Annotated[float, Meta(ge=0, le=30)] = 0
    compat: str | None = None


class ActivityRow(Schema):
    """One row, with the members of both generations of clients."""

    id: str
    type: str
    activity_type: str
    workspace_id: str
    source_id: str
    target_id: str
    method: str
    summary: str
    duration_ms: int | None
    status: str
    error_detail: str
    ts: str
    created_at: str
    caller: str
    message_id: str | None
    data: dict[str, Any]
    request_body: Any | UnsetType = UNSET
    response_body: Any | UnsetType = UNSET
    tool_trace: Any | UnsetType = UNSET
    metadata: Any | UnsetType = UNSET
    kind: str | UnsetType = UNSET


class LogActivity(Body):
    """What an agent says that it did."""

    activity_type: str
    method: str | None = None
    summary: str | None = None
    target_id: str | None = None
    source_id: str | None = None
    status: str | None = None
    error_detail: str | None = None
    duration_ms: int | None = None
    request_body: Any = None
    response_body: Any = None
    metadata: dict[str, Any] | None = None


class Attachment(Body):
    """Something to look at."""

    uri: str
    name: str
    mimeType: str | UnsetType = UNSET
    size: int | UnsetType = UNSET


class Notify(Body):
    """What an agent tells the people of its organisation."""

    message: str
    attachments: list[Attachment] | None = None
    type: str | None = None


class Sent(Schema):
    """The row that keeps it."""

    status: str
    id: str


ROUTES = (
    Route(
        "activity.list",
        "GET",
        "/workspaces/{id}/activity",
        (self_with("ws.inbox"), org_with("org.read")),
        "What the workspace did and received.",
        query=ListActivity,
        reply=list[ActivityRow],
        refusals=("cursor-lost",),
        removed_too=True,
        quiet=True,
    ),
    Route(
        "activity.log",
        "POST",
        "/workspaces/{id}/activity",
        (self_with("ws.inbox"),),
        "Log what the agent did.",
        LogActivity,
        reply=Sent,
        refusals=("identity-mismatch",),
        creates=True,
    ),
    Route(
        "activity.notify",
        "POST",
        "/workspaces/{id}/notify",
        (self_with("ws.send"),),
        "Tell the people of the organisation something.",
        Notify,
        reply=Sent,
        refusals=("message-not-found",),
        creates=True,
    ),
)
