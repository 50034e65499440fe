"""The live feed: every committed event reaches every listener of its organisation, in order, with no gap.

A replica reads new entries of the log once and hands them to its listeners. A listener that begins at some
number first reads history up to where the feed stands, and then follows.
"""

import asyncio
import contextlib
from collections.abc import Collection
from dataclasses import dataclass, field

from molecule_platform.domain.events import Event
from molecule_platform.domain.principals import Principal
from molecule_platform.ports.log import Log
from molecule_platform.ports.storage import Storage
from molecule_platform.services.bells import EVENTS, Bells

BUFFER = 1024
PAGE = 500
LOOK_AGAIN_SECONDS = 1.0


@dataclass(eq=False)
class Listener:
    """One subscriber. `lagged` is set when it was too slow; it resumes from its last number."""

    principal: Principal
    types: frozenset[str] = frozenset()
    workspace_ids: frozenset[str] = frozenset()
    queue: asyncio.Queue[Event] = field(default_factory=lambda: asyncio.Queue[Event](BUFFER))
    lagged: asyncio.Event = field(default_factory=asyncio.Event)

    def wants(self, event: Event) -> bool:
        """Whether this listener may and wants to see the event."""
        if event.org_id != self.principal.org_id and not self.principal.is_admin:
            return False
        if self.types and event.event_type not in self.types:
            return False
        return not self.workspace_ids or event.workspace_id in self.workspace_ids

    def offer(self, event: Event) -> None:
        """Hand over an event; a full buffer means the listener is too slow."""
        if not self.wants(event):
            return
        try:
            self.queue.put_nowait(event)
        except asyncio.QueueFull:
            self.lagged.set()


class Feed:
    """Follows the log on behalf of all listeners of this replica."""

    def __init__(self, storage: Storage, bells: Bells, log: Log) -> None:
        self._storage = storage
        self._bells = bells
        self._log = log
        self._listeners: set[Listener] = set()
        self._rung = asyncio.Event()
        self._at = 0
        self._task: asyncio.Task[None] | None = None
        bells.watch(EVENTS, lambda _rest: self._rung.set())

    async def start(self) -> None:
        """Begin at the end of the log."""
        await self._bells.on_show(lambda payload: self._hand_out(Event.from_line(payload)))
        self._at = await self._storage.read(lambda tx: tx.events.last_id())
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def stop(self) -> None:
        """Stop following."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

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
            found = await self._storage.read(lambda tx: tx.events.after(self._at, PAGE))
            for event in found:
                self._at = event.id or self._at
                self._hand_out(event)
            if len(found) < PAGE:
                return

    async def show(self, event: Event) -> None:
        """Show what is not worth keeping, live, to the listeners of every replica."""
        await self._bells.show(event.as_line())

    def _hand_out(self, event: Event) -> None:
        for listener in self._listeners:
            listener.offer(event)

    def join(self, listener: Listener) -> None:
        """Begin to receive what is new."""
        self._listeners.add(listener)

    def leave(self, listener: Listener) -> None:
        """Receive nothing more."""
        self._listeners.discard(listener)

    async def history(self, listener: Listener, after: int) -> list[Event]:
        """A page of the past that the listener wants, oldest first."""
        org_id = None if listener.principal.is_admin else listener.principal.org_id
        types = listener.types or None
        return await self._storage.read(lambda tx: tx.events.after(after, PAGE, org_id=org_id, types=types))

    async def newest(
        self, principal: Principal, limit: int, workspace_id: str | None, types: Collection[str] | None
    ) -> list[Event]:
        """The newest events of the principal's organisation, newest first."""
        return await self._storage.read(
            lambda tx: tx.events.newest(principal.org_id, limit, workspace_id=workspace_id, types=types)
        )

    async def since(
        self,
        principal: Principal,
        after: int,
        limit: int,
        workspace_id: str | None,
        types: Collection[str] | None,
    ) -> list[Event]:
        """The organisation's events after a number, oldest first."""
        return await self._storage.read(
            lambda tx: tx.events.after(
                after, limit, org_id=principal.org_id, workspace_id=workspace_id, types=types
            )
        )
