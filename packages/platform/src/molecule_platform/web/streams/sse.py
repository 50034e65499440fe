"""The stream doors: events as server-sent events, the same as over the WebSocket."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import msgspec

from molecule_platform.domain import events
from molecule_platform.domain.events import RESYNC, Event
from molecule_platform.ports.storage import StorageDown
from molecule_platform.services.events.event_feed import FeedSubscriber, StreamEnd, StreamEnded
from molecule_platform.services.events.subscriptions import EventSubscriptions
from molecule_platform.web.pipeline import error_responses
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.pipeline.query_parser import names
from molecule_platform.web.pipeline.route import EVENT_STREAM
from molecule_platform.web.routes import events as shapes

KEEP_ALIVE_SECONDS = 15.0
RETRY_MS = 2000

HEADERS = (("cache-control", "no-store"), ("x-accel-buffering", "no"))

Telling = Callable[[Event], dict[str, Any]]


class EventStreamHandlers:
    """Serves /events/stream and /workspaces/{id}/events/stream."""

    def __init__(self, followers: EventSubscriptions) -> None:
        self._followers = followers

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {"event.stream": self.everything, "event.stream-one": self.one_workspace}

    async def everything(self, call: Call) -> Response:
        """What the caller may see of its organisation."""
        asked: shapes.FollowEvents = call.query_params
        listener = FeedSubscriber(call.principal, names(asked.types), names(asked.workspace_id))
        return self._reply(call, listener, asked.since, Event.frame)

    async def one_workspace(self, call: Call) -> Response:
        """What happens to one workspace."""
        asked: shapes.FollowOne = call.query_params
        listener = FeedSubscriber(call.principal, names(asked.types), frozenset({call.workspace.id}))
        return self._reply(call, listener, asked.since, Event.told)

    def _reply(self, call: Call, listener: FeedSubscriber, since: str | None, tell: Telling) -> Response:
        resumed = call.headers.get("last-event-id") or since
        after = None if resumed is None else events.parse_id(resumed)
        lines = until_outage(self._lines(listener, after, tell))
        return Response(headers=HEADERS, content_type=EVENT_STREAM, stream=lines)

    async def _lines(
        self, listener: FeedSubscriber, after: int | None, tell: Telling
    ) -> AsyncGenerator[bytes]:
        async with self._followers.follow(listener, after) as follower:
            # The number lets a browser resume without a gap even when the stream ends before the first event.
            yield b"retry: %d\nid: %d\n\n" % (RETRY_MS, follower.position)
            try:
                while True:
                    came = await follower.next(KEEP_ALIVE_SECONDS)
                    yield b"".join(block(event, tell) for event in came) or b": keep-alive\n\n"
            except StreamEnded as ended:
                check_available(ended)


async def until_outage(lines: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Relay a stream. An outage of storage ends it with the event `unavailable`, from where it can resume."""
    try:
        async with aclosing(lines):
            async for chunk in lines:
                yield chunk
    except StorageDown:
        refusal = error_responses.unavailable()
        told = {"code": refusal.code, "error": refusal.sentence, **refusal.extras}
        yield b"event: unavailable\ndata: %b\n\n" % msgspec.json.encode(told)


def check_available(ended: StreamEnded) -> None:
    """Raise `StorageDown` if a stream ended because of an outage."""
    if ended.why is StreamEnd.UNAVAILABLE:
        raise StorageDown("the database does not answer") from ended


def block(event: Event, tell: Telling) -> bytes:
    """An event as a block of a stream."""
    if event.event_type == RESYNC:
        return b"event: resync\ndata: %b\n\n" % msgspec.json.encode(event.payload)
    number = b"" if event.id is None else b"id: %d\n" % event.id
    data = msgspec.json.encode(tell(event))
    return b"%bevent: %b\ndata: %b\n\n" % (number, event.event_type.encode(), data)
