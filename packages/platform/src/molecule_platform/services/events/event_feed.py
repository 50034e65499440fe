"""The live feed: every committed event reaches every listener of its organisation, in order, with no gap.

A replica reads new entries of the log once and hands them to its listeners. A listener that begins at some
number first reads history up to where the feed stands, and then follows (`services/events/subscriptions.py`).
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from enum import Enum
from typing import Any

from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.events import Event
from molecule_platform.domain.principals import Principal
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.log import Log
from molecule_platform.ports.pages import PAGE_MAX_BYTES
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.identity import event_filter
from molecule_platform.services.support.signals import EVENTS, Signals
from molecule_wire import jsontext

BUFFER = 1024
PAGE = 500
LISTED_AT_ONCE = 100
LOOK_AGAIN_SECONDS = 1.0


class StreamEnd(Enum):
    """Why a stream ends although its client is still there."""

    SLOW = "the client reads too slowly"
    REVOKED = "the credential has ended"
    DRAINING = "this replica stops"
    UNAVAILABLE = "the database does not answer"


class StreamEnded(Exception):
    """Nothing more comes; the client may resume from its last number."""

    def __init__(self, why: StreamEnd) -> None:
        super().__init__(why.value)
        self.why = why


class FeedSubscriber:
    """One subscriber: what it may and wants to see, and what waits for it."""

    def __init__(
        self,
        principal: Principal,
        types: frozenset[str] = frozenset(),
        workspace_ids: frozenset[str] = frozenset(),
    ) -> None:
        self.principal = principal
        self.types = types
        self.workspace_ids = workspace_ids
        # While it catches up from the log, what does not fit into the buffer is found there.
        self.catches_up = False
        self.overflowed = False
        self.why: StreamEnd | None = None
        self.ended = asyncio.Event()
        self._waiting: deque[Event] = deque()
        self._rung = asyncio.Event()

    def wants(self, event: Event) -> bool:
        """Whether this listener wants to see the event, and may as far as the event itself tells."""
        if event.org_id != self.principal.org_id:
            return False
        mine = self.principal.workspace_id
        if mine is not None and event.is_private and not event.has_party(mine):
            return False
        if self.types and event.event_type not in self.types:
            return False
        return not self.workspace_ids or event.workspace_id in self.workspace_ids

    def offer(self, event: Event) -> None:
        """Hand over an event; whoever is too slow for its buffer is told to resume, and misses nothing."""
        if self.why is not None or not self.wants(event):
            return
        if len(self._waiting) < BUFFER:
            self._waiting.append(event)
            self._rung.set()
        elif self.catches_up:
            self.overflowed = True
        else:
            self.end(StreamEnd.SLOW)

    def end(self, why: StreamEnd) -> None:
        """End the stream; the first reason holds."""
        self.why = self.why or why
        self._waiting.clear()
        self.ended.set()
        self._rung.set()

    def check(self) -> None:
        """Raise `StreamEnded` when it has."""
        if self.why is not None:
            raise StreamEnded(self.why)

    def start_over(self) -> None:
        """Forget what waits: all of it is in the log by now."""
        self._waiting.clear()
        self.overflowed = False

    async def take(self, seconds: float) -> list[Event]:
        """What waits, as soon as there is something; nothing when the time is over."""
        # Not `wait_for`: on Python 3.11 that swallows a cancellation which comes together with the ring.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        self.check()
        self._rung.clear()
        taken = list(self._waiting)
        self._waiting.clear()
        return taken


@dataclass(frozen=True)
class EventFilter:
    """Which events of an organisation a list is about."""

    org_id: str
    workspace_id: str | None = None
    types: Collection[str] | None = None

    def narrowed(self) -> dict[str, Any]:
        """What the log is asked for, the organisation aside."""
        return {"workspace_id": self.workspace_id, "types": self.types}


class EventFeed:
    """Follows the log on behalf of all listeners of this replica."""

    def __init__(self, storage: Storage, clock: Clock, signals: Signals, log: Log) -> None:
        self._storage = storage
        self._clock = clock
        self._signals = signals
        self._log = log
        self._listeners: set[FeedSubscriber] = set()
        self._rung = asyncio.Event()
        self._at = 0
        self._draining = False
        self._task: asyncio.Task[None] | None = None
        signals.watch(EVENTS, self._hear)

    async def start(self) -> None:
        """Begin at the end of the log."""
        self._draining = False
        await self._signals.on_show(lambda payload: self._hand_out(Event.from_line(payload)))
        self._at = await self._storage.read(lambda tx: tx.events.last_id())
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def stop(self) -> None:
        """Stop following."""
        self.drain()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def drain(self) -> None:
        """End every stream, and each that comes: their clients resume at another replica."""
        self._draining = True
        for listener in self._listeners:
            listener.end(StreamEnd.DRAINING)

    def _hear(self, _rest: str) -> None:
        """Something happened: worth a look while anybody listens."""
        if self._listeners:
            self._rung.set()

    async def _follow(self) -> None:
        while True:
            self._rung.clear()
            try:
                await self._read_on()
            except Exception as problem:  # noqa: BLE001 - a feed that ends would leave every listener in the dark
                self._log.warning("the event feed waits for the database", problem=repr(problem))
            # Not `wait_for`: on Python 3.11 that swallows a cancellation which comes together with the ring.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_SECONDS):
                    await self._rung.wait()

    async def _read_on(self) -> None:
        while True:
            if not self._listeners:
                return
            found = await self._storage.read(lambda tx: tx.events.after(self._at, PAGE))
            for event in found:
                self._at = event.id or self._at
                self._hand_out(event)
            if len(found) < PAGE:
                return

    @property
    def is_watched(self) -> bool:
        """Whether anybody could see what is only shown live."""
        return bool(self._listeners) or self._signals.reaches_others

    async def show(self, event: Event) -> None:
        """Show what is not worth keeping, live, to the listeners of every replica."""
        await self._signals.show(event.as_line())

    def _hand_out(self, event: Event) -> None:
        for listener in self._listeners:
            listener.offer(event)

    async def join(self, listener: FeedSubscriber) -> int:
        """Begin to receive what is new: everything after the number given back.

        While nobody listens nobody reads the log either: the first to come begins at its end.
        """
        newest = 0 if self._listeners else await self._storage.glance(lambda tx: tx.events.last_id())
        if not self._listeners:
            self._at = max(self._at, newest)
        self._listeners.add(listener)
        if self._draining:
            listener.end(StreamEnd.DRAINING)
        return self._at

    def leave(self, listener: FeedSubscriber) -> None:
        """Receive nothing more."""
        self._listeners.discard(listener)

    async def newest(self, principal: Principal, wanted: EventFilter, limit: int) -> list[Event]:
        """The newest events that exist for the principal, newest first; fewer where they are large."""
        now = self._clock.now()

        def work(tx: Transaction, last: int | None, count: int) -> _Page:
            found = tx.events.newest(wanted.org_id, count, before=last, **wanted.narrowed())
            return event_filter.visible(tx, principal, found, now), found[-1].id if found else None

        async def page(last: int | None, count: int) -> _Page:
            return await self._storage.read(lambda tx: work(tx, last, count))

        return await _bounded(page, None, limit)

    async def since(self, principal: Principal, wanted: EventFilter, after: int, limit: int) -> list[Event]:
        """The events after a number that exist for the principal, oldest first; fewer where they are large.

        Raises 410 when some are forgotten.
        """
        now = self._clock.now()

        def work(tx: Transaction, place: int, count: int) -> _Page:
            oldest = tx.events.oldest_kept()
            if place < oldest:
                sentence = f"the events after {place} are no longer kept: begin again with since={oldest}"
                raise ApiError("cursor-lost", sentence, oldest_id=str(oldest))
            found = tx.events.after(place, count, org_id=wanted.org_id, **wanted.narrowed())
            return event_filter.visible(tx, principal, found, now), found[-1].id if found else None

        async def page(last: int | None, count: int) -> _Page:
            return await self._storage.read(lambda tx: work(tx, last or 0, count))

        return await _bounded(page, after, limit)


# Some events, and the number of the last that was looked at to find them; None when there was none.
_Page = tuple[list[Event], int | None]


async def _bounded(
    page: Callable[[int | None, int], Awaitable[_Page]], last: int | None, limit: int
) -> list[Event]:
    """Events until there are enough of them, or their payloads fill a page: a list carries what was said."""
    found: list[Event] = []
    size = 0
    while len(found) < limit and size <= PAGE_MAX_BYTES:
        more, last = await page(last, min(LISTED_AT_ONCE, limit - len(found)))
        if last is None:
            break
        for event in more:
            size += len(jsontext.encode(event.payload))
            if found and size > PAGE_MAX_BYTES:
                break
            found.append(event)
    return found
