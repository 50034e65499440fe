"""Following tasks: what was, then what happens, for any number of readers on any replica.

A follower is a place in a task's log. What this replica has just written it also keeps for a moment, so that
those who keep up need not read it again; whoever is behind reads the store. So a slow reader costs nobody
anything, and nothing is buffered for it.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator, Sequence
from dataclasses import dataclass

from molecule_platform.domain.tasks import TaskEvent, TaskKey
from molecule_platform.ports.storage import Storage
from molecule_platform.services import bells
from molecule_platform.services.bells import Bells

PAGE = 256
QUIET_SECONDS = 15.0
LOOK_AGAIN_SECONDS = 1.0
_RECENT_EVENTS = 64
_RECENT_BYTES = 256 * 1024


class _Recent:
    """The newest events of a task that somebody follows here."""

    __slots__ = ("events", "followers", "rings", "size")

    def __init__(self) -> None:
        self.events: list[TaskEvent] = []
        self.size = 0
        self.followers: set[Follower] = set()
        self.rings = 0

    def add(self, events: Sequence[TaskEvent]) -> None:
        for event in events:
            if self.events and event.seq != self.events[-1].seq + 1:
                self._clear()
            self.events.append(event)
            self.size += len(event.payload)
        while self.events and (len(self.events) > _RECENT_EVENTS or self.size > _RECENT_BYTES):
            self.size -= len(self.events.pop(0).payload)
        self.wake()

    def after(self, place: int) -> list[TaskEvent]:
        """The events that follow a place, nothing when the first of them is not here."""
        if not self.events or self.events[0].seq > place + 1:
            return []
        return [event for event in self.events if event.seq > place]

    def wake(self) -> None:
        self.rings += 1
        for follower in self.followers:
            follower.wake()

    def forget_seen(self) -> None:
        """Forget what everyone has seen."""
        slowest = min(follower.place for follower in self.followers)
        seen = sum(event.seq <= slowest for event in self.events)
        self.size -= sum(len(event.payload) for event in self.events[:seen])
        del self.events[:seen]

    def _clear(self) -> None:
        self.events.clear()
        self.size = 0


class Follower:
    """One reader's place in the log of a task. Thousands wait at once, so it holds little."""

    __slots__ = ("_first", "_key", "_recent", "_streams", "_waiter", "place")

    def __init__(
        self, streams: "TaskStreams", recent: _Recent, key: TaskKey, after: int, first: Sequence[TaskEvent]
    ) -> None:
        self._streams = streams
        self._recent = recent
        self._key = key
        self._first = first
        self._waiter: asyncio.Future[bool] | None = None
        self.place = after

    async def next(self) -> list[TaskEvent] | None:
        """The next events; none after a quarter of a minute of quiet, None when streams are to end."""
        recent = self._recent
        while not self._streams.stopping:
            rings = recent.rings
            came = list(self._first) or recent.after(self.place)
            came = came or await self._streams.read(self._key, self.place)
            if came:
                self._first = ()
                self.place = came[-1].seq
                recent.forget_seen()
                return came
            if recent.rings == rings and not await self._rung():
                return []
        return None

    def wake(self) -> None:
        """There may be something new."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(True)

    async def _rung(self) -> bool:
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        timer = loop.call_later(QUIET_SECONDS, _give_up, waiter)
        try:
            return await waiter
        finally:
            self._waiter = None
            timer.cancel()


def _give_up(waiter: "asyncio.Future[bool]") -> None:
    if not waiter.done():
        waiter.set_result(False)


@dataclass(frozen=True)
class Begun:
    """Where the events of a message begin, and the first of them if they were just told here."""

    key: TaskKey
    seq: int
    events: tuple[TaskEvent, ...] = ()


class TaskStreams:
    """One per replica."""

    def __init__(self, storage: Storage, bells_: Bells) -> None:
        self._storage = storage
        self._bells = bells_
        self._recent: dict[TaskKey, _Recent] = {}
        self._by_subject: dict[str, TaskKey] = {}
        self._begun: dict[str, Begun] = {}
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self.stopping = False
        bells_.watch(bells.TASKS, self._rung)
        bells_.watch(bells.SETTLED, self._settled)

    # What is new

    def publish(self, key: TaskKey, events: Sequence[TaskEvent]) -> None:
        """Hand over what was just committed here."""
        recent = self._recent.get(key)
        if recent is not None:
            recent.add(events)
        for place, event in enumerate(events):
            waiting = self._waiting.get(event.message_id)
            if waiting and event.message_id not in self._begun:
                self._begun[event.message_id] = Begun(key, event.seq, tuple(events[place:]))
                for woken in waiting:
                    woken.set()

    def _rung(self, digest: str) -> None:
        key = self._by_subject.get(digest)
        if key is not None:
            self._recent[key].wake()

    def _settled(self, message_id: str) -> None:
        for woken in self._waiting.get(message_id, ()):
            woken.set()

    def stop(self) -> None:
        """End every stream: their clients resume at another replica."""
        self.stopping = True
        for recent in self._recent.values():
            recent.wake()
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
                    recent.wake()

    # Following

    async def follow(self, key: TaskKey, after: int) -> AsyncGenerator[list[TaskEvent]]:
        """The events after a number, in batches; an empty one after each quarter of a minute of quiet."""
        with self.following(key, after) as follower:
            while (batch := await follower.next()) is not None:
                yield batch

    @contextlib.contextmanager
    def following(self, key: TaskKey, after: int, first: Sequence[TaskEvent] = ()) -> Generator[Follower]:
        """Inside, a place in the log. Whoever has the `first` events after it spares us reading them."""
        recent = self._recent.setdefault(key, _Recent())
        digest = bells.task(key).removeprefix(bells.TASKS)
        self._by_subject[digest] = key
        follower = Follower(self, recent, key, after, first)
        recent.followers.add(follower)
        try:
            yield follower
        finally:
            recent.followers.discard(follower)
            if not recent.followers:
                del self._recent[key], self._by_subject[digest]

    async def read(self, key: TaskKey, place: int) -> list[TaskEvent]:
        """A page of the events after a number, from the store."""
        return await self._storage.read(lambda tx: tx.tasks.events(key, place, PAGE))

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

    async def beginning(self, message_id: str, seconds: float) -> Begun | None:
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


def _begun(found: tuple[TaskKey, int] | None) -> Begun | None:
    return None if found is None else Begun(*found)


async def _within(woken: asyncio.Event, seconds: float) -> bool:
    # Not `wait_for`: on Python 3.11 that swallows a cancellation which comes together with the ring.
    try:
        async with asyncio.timeout(seconds):
            return await woken.wait()
    except TimeoutError:
        return False
