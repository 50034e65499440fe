"""The activity doors: what a workspace did and received, the original way of polling, and words to people."""

from datetime import datetime

from molecule_platform.api import shapes
from molecule_platform.api.calls import Call, Reply
from molecule_platform.domain.workspaces import invalid
from molecule_platform.ports.activity import ActivityFilter
from molecule_platform.services.activity import Activity, Reading
from molecule_platform.services.replies import Replies
from molecule_wire import times

WAIT_MOST_SECONDS = 30.0
LIMIT_MOST = 500
_OUR_CLIENTS = "molecule-ai"


class ActivityDoors:
    """Serves /workspaces/{id}/activity and /notify."""

    def __init__(self, activity: Activity, replies: Replies) -> None:
        self._activity = activity
        self._replies = replies

    async def read(self, call: Call) -> Reply:
        """Rows of the log; a workspace that reads its own mail thereby receives it."""
        own = call.principal.workspace_id == call.workspace.id
        query = call.query
        wanted = ActivityFilter(
            activity_type=query.get("type") or None,
            source=query.get("source") or None,
            peer_id=query.get("peer_id") or None,
            before=_time(query.get("before_ts")),
            limit=int(call.number("limit", 100, 1, LIMIT_MOST)),
        )
        reading = Reading(
            workspace=call.workspace,
            wanted=wanted,
            base_url=call.base_url,
            own=own,
            since_id=query.get("since_id") or None,
            since_secs=int(call.number("since_secs", 0, 0, 10**9)) or None,
            original_client=_is_original_client(call),
        )
        waits = reading.since_id is not None or reading.receives
        wait = call.number("wait", 0, 0, WAIT_MOST_SECONDS) if waits else 0
        return Reply(await self._activity.read(reading, wait))

    async def notify(self, call: Call) -> Reply:
        """Tell the people of the organisation something."""
        body: shapes.Notify = call.body
        if not body.message.strip():
            raise invalid("message", "message may not be empty")
        named = call.headers.get("x-molecule-in-reply-to")
        row_id = await self._replies.notify(
            call.workspace, body.message, list(body.attachments or []), body.type, named
        )
        return Reply({"status": "sent", "id": row_id})


def _is_original_client(call: Call) -> bool:
    return call.query.get("compat") == "1" or _OUR_CLIENTS not in call.headers.get("user-agent", "")


def _time(given: str | None) -> datetime | None:
    if not given:
        return None
    try:
        return times.parse_time(given)
    except ValueError as problem:
        raise invalid("before_ts", str(problem)) from problem
