"""The event log as a list."""

from molecule_platform.domain import events
from molecule_platform.services.events.event_feed import EventFeed, EventFilter
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.routes import events_schemas as shapes


class EventHandlers:
    """Serves /events and /events/{id}."""

    def __init__(self, feed: EventFeed) -> None:
        self._feed = feed

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {"event.list": self.listing}

    async def listing(self, call: Call) -> Response:
        """The newest events, or those after a number, oldest first."""
        asked: shapes.ListEvents = call.query_params
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
