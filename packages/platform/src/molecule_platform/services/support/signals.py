"""Bells: how a commit on one replica wakes whoever waits for it, on any replica."""

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import TypeVar

from molecule_platform.domain.tasks import TaskKey
from molecule_platform.ports.bus import Bus

T = TypeVar("T")

ROOT = "bell"
SHOWN = "shown"
LOOK_AGAIN_SECONDS = 1.0


def settled(message_id: str) -> str:
    """Rings when a message has its outcome."""
    return f"{SETTLED}{message_id}"


def mail(workspace_id: str) -> str:
    """Rings when a workspace's mailbox or its readiness changed."""
    return f"mail.{workspace_id}"


def card(workspace_id: str) -> str:
    """Rings when a workspace's card, or who may read it, changed."""
    return f"{CARDS}{workspace_id}"


def start(workspace_id: str) -> str:
    """Rings when an agent of ours is to be started."""
    return f"start.{workspace_id}"


def task(key: TaskKey) -> str:
    """Rings when a task has new events. Ids are the agents' own, so the subject holds a digest of them."""
    named = f"{key.workspace_id}\n{key.tenant}\n{key.id}".encode("utf-8", "replace")
    return f"{TASKS}{hashlib.blake2b(named, digest_size=16).hexdigest()}"


def delegation(delegation_id: str) -> str:
    """Rings when a delegation has changed. Its id may be an agent's own, so the subject holds a digest."""
    named = delegation_id.encode("utf-8", "replace")
    return f"delegation.{hashlib.blake2b(named, digest_size=16).hexdigest()}"


ANY_MAIL = "mail."
CARDS = "card."
SETTLED = "settled."
TASKS = "task."
EVENTS = "events"
OUTBOX = "outbox"
CREDENTIALS = "credentials"
SIGNING = "signing"


class Signals:
    """Subjects that ring. A ring may be lost; whoever listens looks again each second anyway."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._listeners: dict[str, set[asyncio.Event]] = {}
        self._watchers: dict[str, list[Callable[[str], None]]] = {}
        self._ringing: set[asyncio.Task[None]] = set()
        # Whoever waits looks once more and goes on.
        self.is_hushed = False

    async def start(self) -> None:
        """Begin to hear the other replicas."""
        await self._bus.subscribe(f"{ROOT}.>", self._heard)

    def watch(self, kind: str, callback: Callable[[str], None]) -> None:
        """Call back with the rest of every subject that begins with this word."""
        self._watchers.setdefault(kind, []).append(callback)

    def notify(self, subjects: Sequence[str]) -> None:
        """Wake everyone who listens for one of the subjects."""
        if subjects and not self._bus.shared:
            for subject in subjects:
                self._ring(subject)
        elif subjects:
            task = asyncio.get_running_loop().create_task(self._publish(subjects))
            self._ringing.add(task)
            task.add_done_callback(self._ringing.discard)

    async def _publish(self, subjects: Sequence[str]) -> None:
        for subject in subjects:
            await self._bus.publish(f"{ROOT}.{subject}", b"")

    @property
    def reaches_others(self) -> bool:
        """Whether other replicas may listen."""
        return self._bus.shared

    async def show(self, payload: bytes) -> None:
        """Hand something that nobody needs to keep to every replica."""
        await self._bus.publish(SHOWN, payload)

    async def on_show(self, callback: Callable[[bytes], None]) -> None:
        """Call back with whatever any replica shows."""
        await self._bus.subscribe(SHOWN, lambda _subject, payload: callback(payload))

    def _heard(self, subject: str, _payload: bytes) -> None:
        self._ring(subject.removeprefix(f"{ROOT}."))

    def _ring(self, name: str) -> None:
        for listener in self._listeners.get(name, ()):
            listener.set()
        word, dot, rest = name.partition(".")
        for callback in self._watchers.get(word + dot, ()):
            callback(rest)

    def close(self) -> None:
        """Nobody waits any longer: whoever does looks once more and goes on. For the end of the house."""
        self.is_hushed = True
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.set()

    @contextlib.contextmanager
    def listen(self, subject: str, listener: asyncio.Event | None = None) -> Generator[asyncio.Event]:
        """An event, a new one or the one given, that is set whenever the subject rings."""
        listener = listener or asyncio.Event()
        self._listeners.setdefault(subject, set()).add(listener)
        try:
            yield listener
        finally:
            listeners = self._listeners[subject]
            listeners.discard(listener)
            if not listeners:
                del self._listeners[subject]

    async def wait_for(
        self,
        subject: str,
        look: Callable[[], Awaitable[T | None]],
        seconds: float,
        rung: asyncio.Event | None = None,
    ) -> T | None:
        """Look now, at each ring and each second, until there is something to see or the time is over.

        Whoever else knows may ring `rung` itself.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        with self.listen(subject, rung) as rung:
            while True:
                rung.clear()
                seen = await look()
                left = until - loop.time()
                if seen is not None or left <= 0 or self.is_hushed:
                    return seen
                await _heard_within(rung, min(left, LOOK_AGAIN_SECONDS))


async def _heard_within(rung: asyncio.Event, seconds: float) -> None:
    # When the time is over it rings as well: whoever waits looks again either way.
    timer = asyncio.get_running_loop().call_later(seconds, rung.set)
    try:
        await rung.wait()
    finally:
        timer.cancel()
