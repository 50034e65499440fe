"""The stream of one delegation: what happened to it so far, then what happens, until its outcome."""

from collections.abc import AsyncGenerator
from dataclasses import replace

from molecule_platform.domain import events
from molecule_platform.domain.delegations import Delegation
from molecule_platform.domain.events import Event
from molecule_platform.domain.principals import Principal
from molecule_platform.services.events.event_feed import FeedSubscriber, StreamEnded
from molecule_platform.services.events.subscriptions import EventSubscriptions
from molecule_platform.services.messaging.delegations import delegation_state
from molecule_platform.services.messaging.delegations.delegation_service import DelegationService
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.pipeline.route import EVENT_STREAM
from molecule_platform.web.routes import delegations_schemas as shapes
from molecule_platform.web.streams.sse import (
    HEADERS,
    KEEP_ALIVE_SECONDS,
    RETRY_MS,
    block,
    check_available,
    until_outage,
)

_LAST = frozenset({delegation_state.COMPLETE, delegation_state.FAILED})


class _DelegationEvents(FeedSubscriber):
    """Listens to the events of one delegation, on the side where its reader stands."""

    def __init__(self, principal: Principal, delegation: Delegation) -> None:
        is_source = principal.workspace_id == delegation.source_id
        side = delegation.source_id if is_source else delegation.target_id
        here = replace(principal, org_id=delegation.org_id)
        super().__init__(here, delegation_state.EVENTS, frozenset({side}))
        self._delegation_id = delegation.id

    def wants(self, event: Event) -> bool:
        """Whether it is an event of this delegation."""
        return event.payload.get("delegation_id") == self._delegation_id and super().wants(event)


class DelegationStream:
    """Serves /delegations/{id}/events."""

    def __init__(self, waiters: DelegationService, followers: EventSubscriptions) -> None:
        self._waiters = waiters
        self._followers = followers

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {"delegation.stream": self.follow}

    async def follow(self, call: Call) -> Response:
        """From its beginning, or from where the reader was."""
        asked: shapes.FollowDelegation = call.query_params
        delegation = await self._waiters.visible(call.principal, call.path["delegation_id"])
        resumed = call.headers.get("last-event-id") or asked.since
        after = delegation.seq if resumed is None else events.parse_id(resumed)
        listener = _DelegationEvents(call.principal, delegation)
        lines = until_outage(self._lines(listener, after, is_over=not delegation.is_open))
        return Response(headers=HEADERS, content_type=EVENT_STREAM, stream=lines)

    async def _lines(self, listener: FeedSubscriber, after: int, *, is_over: bool) -> AsyncGenerator[bytes]:
        async with self._followers.follow(listener, after) as follower:
            yield b"retry: %d\nid: %d\n\n" % (RETRY_MS, follower.position)
            try:
                while not is_over or listener.catches_up:
                    came = await follower.next(0.0 if is_over else KEEP_ALIVE_SECONDS)
                    is_over = is_over or any(event.event_type in _LAST for event in came)
                    if came or not is_over:
                        yield b"".join(block(event, Event.frame) for event in came) or b": keep-alive\n\n"
            except StreamEnded as ended:
                check_available(ended)
