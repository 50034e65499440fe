"""The activity doors: what a workspace did and received, the original way of polling, and words to people."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from molecule_platform.domain.authorisation import org_with, self_with
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.workspaces import invalid
from molecule_platform.ports.activity import ActivityFilter
from molecule_platform.services.events.activity_writer import ActivityEntry, ActivityWriter
from molecule_platform.services.messaging.inbox.activity_polling import ActivityPolling, PollResult
from molecule_platform.services.messaging.messages.replies import Replies
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.schemas import Body, Query, Schema
from molecule_wire import ids, times


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


_OUR_CLIENTS = "molecule-ai"


class ActivityHandlers:
    """Serves /workspaces/{id}/activity and /notify."""

    def __init__(self, activity: ActivityPolling, replies: Replies, activity_writer: ActivityWriter) -> None:
        self._activity = activity
        self._replies = replies
        self._activity_writer = activity_writer

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {"activity.list": self.read, "activity.log": self.log, "activity.notify": self.notify}

    async def read(self, call: Call) -> Response:
        """Rows of the log; a workspace that reads its own mail thereby receives it."""
        own = call.principal.workspace_id == call.workspace.id
        asked: ListActivity = call.query_params
        wanted = ActivityFilter(
            activity_type=asked.type,
            source=asked.source,
            peer_id=_workspace_id(asked.peer_id),
            before=_time(asked.before_ts),
            limit=asked.limit,
        )
        reading = PollResult(
            workspace=call.workspace,
            wanted=wanted,
            base_url=call.base_url,
            own=own,
            since_id=asked.since_id,
            since_secs=asked.since_secs or None,
            original_client=asked.compat == "1" or _is_original_client(call),
        )
        waits = reading.since_id is not None or reading.receives
        return Response(await self._activity.read(reading, asked.wait if waits else 0))

    async def log(self, call: Call) -> Response:
        """Keep what an agent says that it did."""
        body: LogActivity = call.body
        given = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not None}
        row_id = await self._activity_writer.log(call.workspace, ActivityEntry(**given))
        return Response({"status": "logged", "id": row_id})

    async def notify(self, call: Call) -> Response:
        """Tell the people of the organisation something."""
        body: Notify = call.body
        if not body.message.strip():
            raise invalid("message", "message may not be empty")
        named = call.headers.get("x-molecule-in-reply-to")
        attached = [msgspec.to_builtins(one) for one in body.attachments or []]
        row_id = await self._replies.notify(call.workspace, body.message, attached, body.type, named)
        return Response({"status": "sent", "id": row_id})


def _is_original_client(call: Call) -> bool:
    return _OUR_CLIENTS not in call.headers.get("user-agent", "")


def _time(given: str | None) -> datetime | None:
    if not given:
        return None
    try:
        return times.parse_time(given)
    except ValueError as problem:
        raise invalid("before_ts", str(problem)) from problem


def _workspace_id(given: str | None) -> str | None:
    if given is not None and not ids.is_uuid(given):
        raise ApiError("invalid-id", "peer_id is not a workspace id: it is a UUID")
    return None if given is None else given.lower()
