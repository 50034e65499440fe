"""Heartbeats: who is alive, how busy, how well. What no decision needs at once is written behind."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from molecule_platform.domain import lifecycle, refusals
from molecule_platform.domain.events import Event
from molecule_platform.domain.lifecycle import Beat
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.log import Log
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.ports.workspaces import PRESENCE
from molecule_platform.services import authority, bells, journal, restart_context
from molecule_platform.services.bells import ANY_MAIL, Bells
from molecule_platform.services.feed import Feed
from molecule_wire import jsontext, times

WRITE_BEHIND_SECONDS = 0.5
# What another replica did to a workspace rings at once; should the ring be lost, it is seen after this long.
KNOWN_SECONDS = 1.0
MOST_KNOWN = 100_000


@dataclass(frozen=True)
class Heard:
    """The answer to a heartbeat."""

    workspace: Workspace
    pending: int
    at: datetime

    def body(self) -> dict[str, Any]:
        """The answer on the wire."""
        return {
            "status": "ok",
            "workspace_status": self.workspace.status,
            "paused": self.workspace.status == "paused",
            "pending": self.pending,
            "server_time": times.format_time(self.at),
        }


@dataclass(frozen=True)
class _Known:
    """A workspace as the last heartbeat left it, and what it said. An equal one changes its presence only."""

    workspace: Workspace
    pending: int
    said: Beat
    window: timedelta
    until: float
    answer: bytes

    def presence(self, uptime: float | None, sample_error: str | None, now: datetime) -> dict[str, Any]:
        """What is written of a beat that repeats the last one."""
        return {
            "last_heartbeat_at": now,
            "liveness_expires_at": now + self.window,
            "uptime_seconds": lifecycle.whole(int(uptime or 0)),
            "last_error_rate": self.workspace.last_error_rate,
            "last_sample_error": (sample_error or "")[: lifecycle.SAMPLE_ERROR_LONGEST],
            "current_task": self.workspace.current_task,
        }


class Said(Protocol):
    """A heartbeat as it came; what was not said is None."""

    workspace_id: str
    error_rate: float | None
    sample_error: str | None
    active_tasks: int | None
    uptime_seconds: float | None
    current_task: str | None
    monthly_spend: float | None
    runtime_state: str | None
    runtime_metadata: dict[str, Any] | None


class Heartbeats:
    """Evaluates heartbeats in the order the contract gives."""

    def __init__(
        self, storage: Storage, clock: Clock, log: Log, feed: Feed, bells: Bells, remote_seconds: int
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._log = log
        self._feed = feed
        self._remote_seconds = remote_seconds
        self._behind: dict[str, tuple[_Known, float | None, str | None, datetime]] = {}
        self._known: dict[str, _Known] = {}
        self._flusher: asyncio.Task[None] | None = None
        bells.watch(ANY_MAIL, self._forget)

    def _forget(self, workspace_id: str) -> None:
        self._known.pop(workspace_id, None)

    async def beat(self, workspace_id: str, beat: Beat) -> Heard:
        """Take one heartbeat. One that says the same as the last within a second asks no database."""
        known = self._repeats(workspace_id, beat)
        if known is None:
            return await self._evaluated(workspace_id, beat)
        if self._feed.is_watched:
            await self._show_alive(known.workspace, beat.uptime_seconds)
        return self._noted(known, beat)

    def unseen_repetition(self, said: Said) -> tuple[bytes, datetime] | None:
        """The answer to a heartbeat that repeats the last one while nobody watches; None for any other.

        The answer is the JSON up to the time, and the time.
        """
        known = self._known.get(said.workspace_id)
        if known is None or known.until <= time.monotonic() or self._feed.is_watched:
            return None
        if not _says_the_same(said, known.said):
            return None
        now = self._clock.now()
        self._behind[said.workspace_id] = (known, said.uptime_seconds, said.sample_error, now)
        return known.answer, now

    def _repeats(self, workspace_id: str, beat: Beat) -> _Known | None:
        known = self._known.get(workspace_id)
        if known is None or known.until <= time.monotonic() or not _says_the_same(beat, known.said):
            return None
        return known

    def _noted(self, known: _Known, beat: Beat) -> Heard:
        workspace, now = known.workspace, self._clock.now()
        self._behind[workspace.id] = (known, beat.uptime_seconds, beat.sample_error, now)
        return Heard(workspace, known.pending, now)

    async def _evaluated(self, workspace_id: str, beat: Beat) -> Heard:
        asked_at = time.monotonic()
        before, pending = await self._storage.read(lambda tx: _look(tx, workspace_id))
        after = lifecycle.beaten(before, beat, self._clock.now(), self._remote_seconds)
        presence_alone = self._only_presence_changed(before, after)
        if not presence_alone:
            after = await self._storage.write(lambda tx: self._write(tx, workspace_id, beat))
            self._behind.pop(workspace_id, None)
        window = lifecycle.liveness_window(after.external, after.capabilities, self._remote_seconds)
        known = _Known(after, pending, beat, window, asked_at + KNOWN_SECONDS, _beginning(after, pending))
        self._remember(known)
        if presence_alone:
            self._noted(known, beat)
        await self._show(before, after)
        return Heard(after, pending, self._clock.now())

    def _remember(self, known: _Known) -> None:
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[known.workspace.id] = known

    def _only_presence_changed(self, before: Workspace, after: Workspace) -> bool:
        same = {name: getattr(before, name) for name in PRESENCE}
        alike = replace(after, **same, version=before.version, updated_at=before.updated_at) == before
        return alike and _is_exactly(after.capabilities, before.capabilities)

    def _write(self, tx: Transaction, workspace_id: str, beat: Beat) -> Workspace:
        now = self._clock.now()
        before, _pending = _look(tx, workspace_id)
        after = lifecycle.beaten(before, beat, now, self._remote_seconds)
        payload: dict[str, Any] = {"name": before.name, "external": before.external}
        if after.status == "degraded":
            payload |= {"error_rate": after.last_error_rate, "sample_error": after.last_sample_error}
            payload |= {"runtime_state": beat.runtime_state} if beat.runtime_state else {}
        elif before.status != after.status:
            payload["recovered_from"] = before.status
        journal.move(tx, before, after, now, **payload)
        restart_context.tell(tx, before, after, now)
        tx.signal(bells.mail(workspace_id))
        return after

    async def _show(self, before: Workspace, after: Workspace) -> None:
        now = self._clock.now()
        await self._show_alive(after, after.uptime_seconds)
        if (before.current_task, before.active_tasks) != (after.current_task, after.active_tasks):
            work = {"current_task": after.current_task, "active_tasks": after.active_tasks}
            await self._feed.show(Event("TASK_UPDATED", after.org_id, after.id, work, now))

    async def _show_alive(self, workspace: Workspace, uptime_seconds: int) -> None:
        counts = {"active_tasks": workspace.active_tasks, "uptime_seconds": uptime_seconds}
        now = self._clock.now()
        await self._feed.show(Event("WORKSPACE_HEARTBEAT", workspace.org_id, workspace.id, counts, now))

    # Writing behind

    def start(self) -> None:
        """Begin to write behind."""
        self._flusher = asyncio.get_running_loop().create_task(self._flush_for_ever())

    async def stop(self) -> None:
        """Write what is left."""
        if self._flusher is not None:
            self._flusher.cancel()
            await asyncio.gather(self._flusher, return_exceptions=True)
        await self.flush()

    async def _flush_for_ever(self) -> None:
        while True:
            await asyncio.sleep(WRITE_BEHIND_SECONDS)
            try:
                await self.flush()
            except Exception as problem:  # noqa: BLE001 - a flusher that ends would make every agent look dead
                self._log.warning("heartbeats are not written", problem=repr(problem))

    async def flush(self) -> None:
        """Write the newest presence of everyone who was heard."""
        behind, self._behind = self._behind, {}
        if not behind:
            return

        def work(tx: Transaction) -> None:
            for workspace_id, (known, uptime, sample_error, at) in behind.items():
                tx.workspaces.heard(workspace_id, **known.presence(uptime, sample_error, at))

        try:
            await self._storage.write(work)
        except Exception:
            self._behind = behind | self._behind
            raise


def _beginning(workspace: Workspace, pending: int) -> bytes:
    """The answer to this workspace's heartbeats, up to the time."""
    body = Heard(workspace, pending, workspace.updated_at).body()
    return jsontext.encode(body).rsplit(b'"', 2)[0] + b'"'


def _says_the_same(said: Said | Beat, last: Beat) -> bool:
    """Whether nothing but presence differs: no rule would decide anything new."""
    return (
        (said.error_rate or 0.0) == last.error_rate
        and (said.active_tasks or 0) == last.active_tasks
        and (said.current_task or "") == last.current_task
        and (said.runtime_state or "") == last.runtime_state
        and _is_exactly(said.runtime_metadata, last.runtime_metadata)
        and int(said.monthly_spend or 0) == last.monthly_spend
    )


def _is_exactly(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two objects are equal in the kinds of their values too: for Python 1 is True."""
    return one is other or (one == other and _in_words(one) == _in_words(other))


def _in_words(one: Mapping[str, Any] | None) -> list[str]:
    return sorted(map(repr, (one or {}).items()))


def _look(tx: Transaction, workspace_id: str) -> tuple[Workspace, int]:
    workspace = tx.workspaces.get(workspace_id)
    if workspace is None:
        raise refusals.workspace_not_found(workspace_id)
    if workspace.removed:
        raise refusals.workspace_removed(workspace_id, authority.removed_at(workspace))
    return workspace, tx.workspaces.pending([workspace_id]).get(workspace_id, 0)
