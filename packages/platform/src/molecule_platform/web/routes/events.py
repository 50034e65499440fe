"""The event log as a list."""

from typing import Annotated, Any

from msgspec import Meta

from molecule_platform.domain import events
from molecule_platform.domain.authorisation import ANY, org_with, self_with, workspace_with
from molecule_platform.services.events.event_feed import EventFeed, EventFilter
from molecule_platform.services.identity.stream_tickets import StreamTickets
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.pipeline.route import EVENT_STREAM, Route
from molecule_platform.web.pipeline.schemas import EmptyBody, Query, Schema
from molecule_wire import times


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


class EventHandlers:
    """Serves /events and /events/{id}."""

    def __init__(self, feed: EventFeed) -> None:
        self._feed = feed

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {"event.list": self.listing}

    async def listing(self, call: Call) -> Response:
        """The newest events, or those after a number, oldest first."""
        asked: ListEvents = call.query_params
        types = [name for name in (asked.type or "").split(",") if name] or None
        workspace_id = call.path.get("id")
        org_id = call.principal.org_id if workspace_id is None else call.workspace.org_id
        wanted = EventFilter(org_id, workspace_id, types)
        if asked.since is None:
            found = await self._feed.newest(call.principal, wanted, asked.limit)
        else:
            after = events.parse_id(asked.since)
            found = await self._feed.since(call.principal, wanted, after, asked.limit)
        return Response([event.row() for event in found])


class StreamTicketHandlers:
    """Serves /auth/ticket."""

    def __init__(self, tickets: StreamTickets) -> None:
        self._tickets = tickets

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {"ticket.create": self.create}

    async def create(self, call: Call) -> Response:
        """A ticket that opens one stream."""
        ticket, expires_at = await self._tickets.mint(call.principal)
        return Response({"ticket": ticket, "expires_at": times.format_time(expires_at)}, 201)
