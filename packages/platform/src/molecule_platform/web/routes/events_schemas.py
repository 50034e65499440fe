"""Events: what happened, as lists and as streams."""

from typing import Annotated, Any

from msgspec import Meta

from molecule_platform.domain.authorisation import ANY, org_with, self_with, workspace_with
from molecule_platform.web.pipeline.route import EVENT_STREAM, Route
from molecule_platform.web.pipeline.schemas import EmptyBody, Query, Schema


class ListEvents(Query):
    """The newest, or those after an id; only of some types."""

    since: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    type: str | None = None


class FollowOne(Query):
    """Where to begin (the header `Last-Event-ID` wins), which types, and a ticket instead of a header."""

    since: str | None = None
    types: str | None = None
    ticket: str | None = None


class FollowEvents(FollowOne):
    """The same, and of which workspaces."""

    workspace_id: str | None = None


class EventRow(Schema):
    """One entry of the log."""

    id: str
    event_type: str
    workspace_id: str
    payload: dict[str, Any]
    created_at: str


class Ticket(Schema):
    """Opens one stream, as whoever asked for it."""

    ticket: str
    expires_at: str


_READ = (org_with("org.read"),)
_FOLLOW = (workspace_with("ws.events"), org_with("org.read"))

ROUTES = (
    Route(
        "event.list",
        "GET",
        "/events",
        _READ,
        "What happened, newest first.",
        query=ListEvents,
        reply=list[EventRow],
        refusals=("cursor-lost",),
    ),
    Route(
        "event.list",
        "GET",
        "/events/{id}",
        _READ,
        "What happened to one workspace.",
        query=ListEvents,
        reply=list[EventRow],
        refusals=("cursor-lost",),
        removed_too=True,
    ),
    Route(
        "event.live",
        "GET",
        "/ws",
        _FOLLOW,
        "What happens, live, over a WebSocket.",
        query=FollowEvents,
        stream=True,
    ),
    Route(
        "event.stream",
        "GET",
        "/events/stream",
        _FOLLOW,
        "What happens, live, as server-sent events.",
        query=FollowEvents,
        reply=str,
        media=EVENT_STREAM,
        stream=True,
    ),
    Route(
        "event.stream-one",
        "GET",
        "/workspaces/{id}/events/stream",
        (self_with("ws.events"), org_with("org.read")),
        "What happens to one workspace, live, as server-sent events.",
        query=FollowOne,
        reply=str,
        media=EVENT_STREAM,
        stream=True,
    ),
    Route(
        "ticket.create",
        "POST",
        "/auth/ticket",
        (ANY,),
        "A ticket that opens one stream within a minute, for browsers.",
        EmptyBody,
        reply=Ticket,
        status=(201,),
        creates=True,
    ),
)
