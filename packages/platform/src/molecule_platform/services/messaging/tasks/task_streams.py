"""Following tasks: what was, then what happens, for any number of readers on any replica.

A follower is a place in a task's log. What this replica has just written it also keeps for a moment, so that
those who keep up need not read it again; whoever is behind reads the store. So a slow reader costs nobody
anything, and nothing is buffered for it.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from dataclasses import dataclass

from molecule_platform.domain.tasks import TaskEvent, TaskKey
from molecule_platform.ports.storage import Storage
from molecule_platform.services.messaging.tasks import task_log
from molecule_platform.services.support import signals
from molecule_platform.services.support.deadline_timer import DeadlineTimer
from molecule_platform.services.support.signals import Signals

# Of the store, for a reader that is behind. It is small because readers may be slow, and many.
PAGE, PAGE_BYTES = 256, 256 * 1024
QUIET_SECONDS = 15.0
LOOK_AGAIN_SECONDS = 1.0
# Who writes here hands over what it wrote right after the bell; only if nobody does is the store asked.
HANDED_OVER_SECONDS = 0.01
_RECENT_EVENTS = 64
_RECENT_BYTES = 256 * 1024


class _Recent:
    """The newest events of a task that somebody follows here."""

    __slots__ = ("events", "followers", "newest", "rings", "size", "subject")

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.events: list[TaskEvent] = []
        self.size = 0
        # The number of the last event that was handed over, and how often something else was said to be new.
        self.newest = 0
        self.rings = 0
        self.followers: list[TaskSubscription] = []

    def add(self, events: Sequence[TaskEvent]) -> None:
        for event in events:
            if self.events and event.seq != self.events[-1].seq + 1:
                self.events.clear()
                self.size = 0
            self.events.append(event)
            self.size += len(event.payload)
            self.newest = event.seq
        while self.events and (len(self.events) > _RECENT_EVENTS or self.size > _RECENT_BYTES):
            self.size -= len(self.events.pop(0).payload)
        self.call()

    def after(self, place: int) -> list[TaskEvent]:
        """The events that follow a place, nothing when the first of them is not here."""
        if not self.events or self.events[0].seq > place + 1:
            return []
        return [event for event in self.events if event.seq > place]

    def ring(self) -> None:
        self.rings += 1
        self.call()

    def call(self) -> None:
        for follower in list(self.followers):
            follower.call()

    def forget_seen(self) -> None:
        """Forget what everyone has seen."""
        if not self.events:
            return
        slowest = min(follower.place for follower in self.followers)
        seen = sum(event.seq <= slowest for event in self.events)
        self.size -= sum(len(event.payload) for event in self.events[:seen])
        del self.events[:seen]


def _nobody() -> None:
    """Whoever was called is gone."""


class TaskSubscription:
    """One reader's place in the log of a task. Thousands wait at once, so it holds little.

    It is called when there may be something new, and when it was quiet for a quarter of a minute.
    """

    __slots__ = ("_first", "_is_quiet", "_recent", "_seen", "_streams", "call", "is_closed", "key", "place")

    def __init__(
        self,
        streams: "TaskStreams",
        recent: _Recent,
        key: TaskKey,
        after: int,
        first: Sequence[TaskEvent],
        call: Callable[[], None],
    ) -> None:
        self._streams = streams
        self._recent = recent
        self.key = key
        self._first = first
        self._is_quiet = self.is_closed = False
        # Up to which ring everything is read; what was before we came must be looked for.
        self._seen = -1
        self.call = call
        self.place = after

    def at_hand(self) -> list[TaskEvent] | None:
        """The next events that are here, perhaps none; None when only `next` can tell."""
        recent = self._recent
        if self._streams.stopping:
            return None
        came = list(self._first) or recent.after(self.place)
        if came:
            self._first = ()
            self._pass(came)
            return came
        is_current = self._seen == recent.rings and recent.newest <= self.place
        return [] if is_current else None

    async def next(self) -> list[TaskEvent] | None:
        """The next events, wherever they are, perhaps none; None when streams are to end."""
        came = self.at_hand()
        if came is None and not self._streams.stopping:
            rings = self._recent.rings
            came = await self._streams.read(self.key, self.place)
            if not task_log.fills_page(came, PAGE, PAGE_BYTES):
                self._seen = rings
            if came:
                self._pass(came)
        return came

    def was_quiet(self) -> bool:
        """Whether it was quiet for long, since somebody last asked."""
        was_quiet, self._is_quiet = self._is_quiet, False
        return was_quiet

    def fell_quiet(self) -> None:
        """Nothing was new for a quarter of a minute."""
        self._is_quiet = True
        self._streams.quiet.begin(self)
        self.call()

    def close(self) -> None:
        """Nobody reads any more. Harmless when repeated."""
        self._streams.leave(self, self._recent, self.key)
        self.call = _nobody

    def _pass(self, came: list[TaskEvent]) -> None:
        self.place = came[-1].seq
        self._is_quiet = False
        if not self.is_closed:
            self._streams.quiet.begin(self)
            self._recent.forget_seen()


@dataclass(frozen=True)
class SubscriptionStart:
    """Where the events of a message begin, and the first of them if they were just told here."""

    key: TaskKey
    seq: int
    events: tuple[TaskEvent, ...] = ()


class TaskStreams:
    """One per replica."""

    def __init__(self, storage: Storage, bells_: Signals) -> None:
        self._storage = storage
        self._signals = bells_
        self._recent: dict[TaskKey, _Recent] = {}
        self._by_subject: dict[str, _Recent] = {}
        self._rung: set[str] = set()
        self.quiet: DeadlineTimer[TaskSubscription] = DeadlineTimer(
            lambda: QUIET_SECONDS, TaskSubscription.fell_quiet
        )
        self._begun: dict[str, SubscriptionStart] = {}
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self.stopping = False
        bells_.watch(signals.TASKS, self._ring)
        bells_.watch(signals.SETTLED, self._settled)

    # What is new

    def publish(self, key: TaskKey, events: Sequence[TaskEvent]) -> None:
        """Hand over what was just committed here."""
        recent = self._recent.get(key)
        if recent is not None:
            self._rung.discard(recent.subject)
            recent.add(events)
        for place, event in enumerate(events):
            waiting = self._waiting.get(event.message_id)
            if waiting and event.message_id not in self._begun:
                self._begun[event.message_id] = SubscriptionStart(key, event.seq, tuple(events[place:]))
                for woken in waiting:
                    woken.set()

    def _ring(self, subject: str) -> None:
        if subject in self._by_subject:
            if not self._rung:
                asyncio.get_running_loop().call_later(HANDED_OVER_SECONDS, self._look_at_rung)
            self._rung.add(subject)

    def _look_at_rung(self) -> None:
        rung, self._rung = self._rung, set()
        for subject in rung:
            recent = self._by_subject.get(subject)
            if recent is not None:
                recent.ring()

    def _settled(self, message_id: str) -> None:
        for woken in self._waiting.get(message_id, ()):
            woken.set()

    def stop(self) -> None:
        """End every stream: their clients resume at another replica."""
        self.stopping = True
        for recent in list(self._recent.values()):
            recent.ring()
        for waiters in self._waiting.values():
            for woken in waiters:
                woken.set()

    async def look(self) -> None:
        """Find what was missed while rings were lost, for all followers at once."""
        keys = list(self._recent)
        for first in range(0, len(keys), PAGE):
            some = keys[first : first + PAGE]
            newest = await self._storage.read(lambda tx, some=some: tx.tasks.newest(some))
            for key, seq in newest.items():
                recent = self._recent.get(key)
                if recent is not None and any(follower.place < seq for follower in recent.followers):
                    recent.ring()

    # Following

    async def follow(self, key: TaskKey, after: int) -> AsyncGenerator[list[TaskEvent]]:
        """The events after a number, in batches; an empty one after each quarter of a minute of quiet."""
        called = asyncio.Event()
        follower = self.join(key, after, (), called.set)
        try:
            while (batch := await follower.next()) is not None:
                if batch or follower.was_quiet():
                    yield batch
                else:
                    await called.wait()
                called.clear()
        finally:
            follower.close()

    def join(
        self, key: TaskKey, after: int, first: Sequence[TaskEvent], call: Callable[[], None]
    ) -> TaskSubscription:
        """A place in the log. Whoever has the `first` events after it spares us reading them."""
        recent = self._recent.get(key)
        if recent is None:
            subject = signals.task(key).removeprefix(signals.TASKS)
            recent = self._recent[key] = self._by_subject[subject] = _Recent(subject)
        follower = TaskSubscription(self, recent, key, after, first, call)
        recent.followers.append(follower)
        self.quiet.begin(follower)
        return follower

    def leave(self, follower: TaskSubscription, recent: _Recent, key: TaskKey) -> None:
        """A follower goes."""
        if follower.is_closed:
            return
        follower.is_closed = True
        self.quiet.end(follower)
        recent.followers.remove(follower)
        if not recent.followers and self._recent.get(key) is recent:
            del self._recent[key], self._by_subject[recent.subject]

    async def read(self, key: TaskKey, place: int) -> list[TaskEvent]:
        """A page of the events after a number, from the store."""
        return await self._storage.read(lambda tx: tx.tasks.events(key, place, PAGE, PAGE_BYTES))

    @contextlib.contextmanager
    def expecting(self, message_id: str) -> Generator[asyncio.Event]:
        """Inside, the beginning of the message's events is noticed; set it up before anybody can speak."""
        woken = asyncio.Event()
        self._waiting.setdefault(message_id, set()).add(woken)
        try:
            yield woken
        finally:
            waiting = self._waiting[message_id]
            waiting.discard(woken)
            if not waiting:
                del self._waiting[message_id]
                self._begun.pop(message_id, None)

    async def beginning(self, message_id: str, seconds: float) -> SubscriptionStart | None:
        """Where the message's events begin; None when it ended without any, or the time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        with self.expecting(message_id) as woken:
            while True:
                woken.clear()
                begun = self._begun.get(message_id) or await self._storage.glance(
                    lambda tx: _begun(tx.tasks.first_of(message_id))
                )
                left = until - loop.time()
                if begun is not None or left <= 0 or self.stopping:
                    return begun
                if not await self._storage.glance(lambda tx: tx.mailbox.is_open(message_id)):
                    return await self._storage.read(lambda tx: _begun(tx.tasks.first_of(message_id)))
                await _within(woken, min(left, LOOK_AGAIN_SECONDS))


def _begun(found: tuple[TaskKey, int] | None) -> SubscriptionStart | None:
    return None if found is None else SubscriptionStart(*found)


async def _within(woken: asyncio.Event, seconds: float) -> bool:
    # Not `wait_for`: on Python 3.11 that swallows a cancellation which comes together with the ring.
    try:
        async with asyncio.timeout(seconds):
            return await woken.wait()
    except TimeoutError:
        return False
