"""Followers: what was, then what happens, for one listener, without gap or repeat.

Both ways out of the house, the WebSocket and the event stream, are one follower each and differ in how they
write a frame. History is read from the log page by page, as fast as the client takes it; meanwhile the feed
fills the listener's buffer, and where both meet, numbers that were seen are skipped.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace

from molecule_platform.domain import access
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.events import RESYNC, Event
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.log import Log
from molecule_platform.ports.storage import Storage, StorageDown, Transaction
from molecule_platform.services.events.event_feed import EventFeed, FeedSubscriber, StreamEnd, StreamEnded
from molecule_platform.services.identity import authorizer
from molecule_platform.services.identity.authentication import AuthenticationService
from molecule_platform.services.identity.event_filter import EventVisibility
from molecule_platform.services.support.signals import CREDENTIALS, Signals

PAGE = 100
REACH_SECONDS = 1.0

# Streams of something else than events listen to none.
_NO_TYPE = frozenset({"none"})


class VisibleEvents:
    """What a listener may see of what exists for it: a workspace what the tree lets it, asked each second."""

    def __init__(self, storage: Storage, clock: Clock, principal: Principal) -> None:
        self._storage = storage
        self._clock = clock
        self._mine = principal.workspace_id
        self._existing = EventVisibility(storage, clock, principal)
        self._reached: dict[str, bool] = {}
        self._until = 0.0

    async def of(self, events: list[Event]) -> list[Event]:
        """Those that may be seen. What is private was already kept for its parties."""
        events = await self._existing.of(events)
        if self._mine is None:
            return events
        await self._ask(self._mine, {event.workspace_id for event in events if event.asks_the_tree})
        seen = (event for event in events if not event.asks_the_tree or self._reached[event.workspace_id])
        return [event.without_address(self._mine) for event in seen]

    async def _ask(self, mine: str, asked: Collection[str]) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._until:
            self._reached.clear()
            self._until = now + REACH_SECONDS
        unknown = [one for one in asked if one not in self._reached]
        if unknown:
            self._reached |= await self._storage.read(
                lambda tx: {one: self._reaches(tx, mine, one) for one in unknown}
            )

    def _reaches(self, tx: Transaction, mine: str, other: str) -> bool:
        target = tx.workspaces.get(other)
        if target is None:
            return False
        if target.removed:
            return _reached(tx, mine, target)
        return authorizer.verdict(tx, mine, target, self._clock).allowed


def _reached(tx: Transaction, mine: str, removed: Workspace) -> bool:
    """Whether the tree let a workspace reach one that is gone: then it may learn that it is."""
    caller = tx.workspaces.get(mine)
    if caller is None:
        return False
    parents = authorizer.line_above(tx, caller)
    above: Workspace | None = removed
    for _step in range(access.MAX_DEPTH):
        if above is None or above.id in parents:
            break
        parents[above.id] = above.parent_id
        above = None if above.parent_id is None else tx.workspaces.get(above.parent_id)
    as_it_was = replace(removed.as_member(), removed=False)
    return access.judge(caller.as_member(), as_it_was, parents).allowed


class EventSubscription:
    """One listener's way through the log. `position` is the number up to which it has seen everything."""

    def __init__(
        self, storage: Storage, clock: Clock, listener: FeedSubscriber, since: int | None, joined_at: int
    ) -> None:
        self.position = joined_at if since is None else since
        self._storage = storage
        self._clock = clock
        self._listener = listener
        self._sight = VisibleEvents(storage, clock, listener.principal)

    async def next(self, seconds: float) -> list[Event]:
        """The next events, oldest first; none when it was quiet for so long. Raises `StreamEnded`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        try:
            while True:
                seen = await self._read(until - loop.time())
                if seen or loop.time() >= until:
                    return seen
        except StorageDown as problem:
            raise StreamEnded(StreamEnd.UNAVAILABLE) from problem

    async def _read(self, seconds: float) -> list[Event]:
        self._listener.check()
        if self._listener.catches_up:
            return await self._replay()
        came = await self._listener.take(seconds)
        fresh = [event for event in came if event.id is None or event.id > self.position]
        self._passed(fresh)
        return await self._sight.of(fresh)

    async def _replay(self) -> list[Event]:
        if self._listener.overflowed:
            self._listener.start_over()
        is_lost, oldest, page = await self._storage.read(self._page)
        if is_lost:
            self.position = oldest
            return [self._resync(oldest)]
        # Neither the page nor the buffer was full: whatever is not in the one is in the other.
        self._listener.catches_up = len(page) == PAGE or self._listener.overflowed
        self._passed(page)
        return await self._sight.of([event for event in page if self._listener.wants(event)])

    def _page(self, tx: Transaction) -> tuple[bool, int, list[Event]]:
        oldest = tx.events.oldest_kept()
        if not oldest <= self.position <= tx.events.last_id():
            return True, oldest, []
        listener = self._listener
        org_id = listener.principal.org_id
        one = next(iter(listener.workspace_ids)) if len(listener.workspace_ids) == 1 else None
        types = listener.types or None
        return (
            False,
            oldest,
            tx.events.after(self.position, PAGE, org_id=org_id, workspace_id=one, types=types),
        )

    def _passed(self, events: list[Event]) -> None:
        self.position = max((event.id or 0 for event in events), default=0) or self.position

    def _resync(self, oldest: int) -> Event:
        org_id = self._listener.principal.org_id
        return Event(RESYNC, org_id, "", {"oldest_id": str(oldest)}, self._clock.now())


class EventSubscriptions:
    """Opens followers, and ends them together with the credential that opened them."""

    def __init__(
        self,
        storage: Storage,
        signals: Signals,
        clock: Clock,
        log: Log,
        feed: EventFeed,
        identity: AuthenticationService,
    ) -> None:
        self._storage = storage
        self._signals = signals
        self._clock = clock
        self._log = log
        self._feed = feed
        self._identity = identity

    @asynccontextmanager
    async def follow(self, listener: FeedSubscriber, since: int | None) -> AsyncGenerator[EventSubscription]:
        """Inside, everything after `since`, or without it whatever happens from now on."""
        listener.catches_up = since is not None
        joined_at = await self._feed.join(listener)
        watching = asyncio.get_running_loop().create_task(self._end_with_credential(listener))
        try:
            yield EventSubscription(self._storage, self._clock, listener, since, joined_at)
        finally:
            self._feed.leave(listener)
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    @asynccontextmanager
    async def bound(self, principal: Principal) -> AsyncGenerator[asyncio.Event]:
        """Inside, the event given is set once the credential has ended, or this replica stops."""
        listener = FeedSubscriber(principal, types=_NO_TYPE)
        async with self.follow(listener, None):
            yield listener.ended

    async def _end_with_credential(self, listener: FeedSubscriber) -> None:
        async def look() -> bool | None:
            try:
                await self._identity.again(listener.principal.credential)
            except ApiError:
                return True
            except StorageDown:
                return None
            except Exception as problem:  # noqa: BLE001 - no stream outlives its credential because we stumbled
                self._log.error("a stream's credential could not be looked at", exc_info=problem)
            return None

        if await self._signals.wait_for(CREDENTIALS, look, math.inf):
            listener.end(StreamEnd.REVOKED)
