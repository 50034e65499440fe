"""Following one message: the steps of its row and the events of its task, those so far and then live."""

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from molecule_platform.domain.events import Transition
from molecule_platform.domain.messages import Message
from molecule_platform.domain.tasks import Task, TaskEvent, TaskKey
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.messaging.tasks import task_log
from molecule_platform.services.messaging.tasks.task_streams import PAGE, PAGE_BYTES, TaskStreams
from molecule_platform.services.support import signals
from molecule_platform.services.support.signals import Signals
from molecule_wire.a2a import tasks as machine

QUIET_SECONDS = 15.0
_ON_THE_WAY = frozenset({"accepted", "leased", "retry", "released"})


@dataclass(frozen=True)
class EventsPruned:
    """Events are missing here that are no longer kept: everything after this number is."""

    oldest: int


Happening: TypeAlias = Transition | TaskEvent | EventsPruned


@dataclass(frozen=True)
class _StreamPosition:
    """How far a follower has read: the steps, the events, and the task that these belong to."""

    key: TaskKey
    step: int = 0
    seq: int = 0
    is_over: bool = False


class MessageStreams:
    """Reads on for whoever follows a message; a follower is only a place, so a slow one costs nothing."""

    def __init__(self, storage: Storage, bells_: Signals, tasks: TaskStreams) -> None:
        self._storage = storage
        self._signals = bells_
        self._tasks = tasks

    async def follow(self, message: Message, after: int | None) -> AsyncGenerator[Sequence[Happening]]:
        """What happened and happens, in batches; an empty one after each quarter of a minute of quiet.

        `after` is the number of the last event seen; steps have none, so they are told from the beginning.
        """
        place = _StreamPosition(task_log.key_of(message), seq=after or 0)
        lost = None if after is None else await self._storage.read(lambda tx: _lost(tx, message, after))
        if lost is not None:
            yield [lost]
        while not place.is_over:
            began = asyncio.get_running_loop().time()
            seen = await self._next(message, place)
            if seen is not None:
                place, happened = seen
                yield happened
            elif asyncio.get_running_loop().time() - began < QUIET_SECONDS:
                return  # nobody rings any more: the house is closing
            else:
                yield []

    async def _next(
        self, message: Message, place: _StreamPosition
    ) -> tuple[_StreamPosition, list[Happening]] | None:
        async def look() -> tuple[_StreamPosition, list[Happening]] | None:
            now, happened = await self._storage.read(lambda tx: _read_on(tx, message, place))
            return (now, happened) if happened or now.is_over else None

        rung = asyncio.Event()
        with contextlib.ExitStack() as listening:
            for subject in (signals.settled(message.id), signals.task(place.key)):
                listening.enter_context(self._signals.listen(subject, rung))
            return await self._signals.wait_for(
                signals.mail(message.target_id), look, QUIET_SECONDS, rung=rung
            )

    async def follow_task(self, task: Task, after: int | None) -> AsyncGenerator[Sequence[Happening]]:
        """The events of a task after a number, in batches, until the one with which it ends."""
        place = after or 0
        lost = await self._storage.read(lambda tx: _missing(tx, task.key, place))
        if lost is not None:
            place = lost.oldest
            yield [lost]
        current = await self._storage.read(lambda tx: tx.tasks.get(task.key)) or task
        if current.is_over and place >= current.last_seq:
            return
        async with contextlib.aclosing(self._tasks.follow(task.key, place)) as batches:
            async for batch in batches:
                yield batch
                if batch and _is_last(batch[-1]):
                    return


def _missing(tx: Transaction, key: TaskKey, after: int) -> EventsPruned | None:
    """Where the log goes on, if it no longer reaches back to that number."""
    task, oldest = tx.tasks.get(key), tx.tasks.oldest_seq(key)
    first = oldest if oldest is not None else 1 + (0 if task is None else task.last_seq)
    return EventsPruned(first - 1) if first > after + 1 else None


def _is_last(event: TaskEvent) -> bool:
    if event.kind not in ("task", "status"):
        return False
    [body] = task_log.modern(event).values()
    return machine.state_of(body) in machine.TERMINAL


def _read_on(
    tx: Transaction, message: Message, place: _StreamPosition
) -> tuple[_StreamPosition, list[Happening]]:
    # First of all: what ends after this look is found by the next one.
    is_open = tx.mailbox.is_open(message.id)
    steps = tx.mailbox.transitions(message.id, place.step)
    key, page = _events(tx, message, place)
    if task_log.fills_page(page, PAGE, PAGE_BYTES):
        is_open, steps = True, _before(steps, page[-1])
    step = steps[-1].event_id if steps else place.step
    now = _StreamPosition(key, step, page[-1].seq if page else place.seq, not is_open)
    return now, _in_order(steps, [event for event in page if event.message_id == message.id])


def _events(tx: Transaction, message: Message, place: _StreamPosition) -> tuple[TaskKey, list[TaskEvent]]:
    begun = tx.tasks.first_of(message.id)
    if begun is None:
        return place.key, []
    key, first = begun
    return key, tx.tasks.events(key, max(place.seq, first - 1), PAGE, PAGE_BYTES)


def _before(steps: Sequence[Transition], last: TaskEvent) -> list[Transition]:
    """The steps to tell while there are more events: the last step comes after all of them."""
    return list(itertools.takewhile(lambda step: step.kind in _ON_THE_WAY and _at(step) <= _at(last), steps))


def _in_order(steps: Sequence[Transition], events: Sequence[TaskEvent]) -> list[Happening]:
    """Both as they happened: of what was written together the step comes first, unless it is the last."""

    def when(happening: Transition | TaskEvent) -> tuple[datetime, int]:
        if isinstance(happening, TaskEvent):
            return _at(happening), 1
        return _at(happening), 0 if happening.kind in _ON_THE_WAY else 2

    both: list[Sequence[Transition | TaskEvent]] = [steps, events]
    return list(heapq.merge(*both, key=when))


def _at(happening: Transition | TaskEvent) -> datetime:
    assert happening.created_at is not None
    return happening.created_at


def _lost(tx: Transaction, message: Message, after: int) -> EventsPruned | None:
    """Whether events between that number, which somebody has seen, and the next are no longer kept."""
    begun = tx.tasks.first_of(message.id)
    return None if begun is None or after == 0 else _missing(tx, begun[0], after)
