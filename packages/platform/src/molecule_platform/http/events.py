"""The event log as a list."""

from molecule_platform.api.calls import Call, Reply
from molecule_platform.domain import events
from molecule_platform.services.feed import Feed

LIMIT_MOST = 1000


class EventRoutes:
    """Serves /events."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    async def listing(self, call: Call) -> Reply:
        """The newest events, or those after a number, oldest first."""
        limit = int(call.number("limit", 100, 1, LIMIT_MOST))
        types = [name for name in call.query.get("type", "").split(",") if name] or None
        workspace_id = call.path.get("id")
        since = call.query.get("since")
        if since is None:
            found = await self._feed.newest(call.principal, limit, workspace_id, types)
        else:
            after = events.parse_id(since)
            found = await self._feed.since(call.principal, after, limit, workspace_id, types)
        return Reply([event.row() for event in found])
