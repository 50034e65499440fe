"""Heartbeats: who is alive, how busy, how well. What no decision needs at once is written behind."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from molecule_platform.domain import errors, lifecycle
from molecule_platform.domain.events import Event
from molecule_platform.domain.lifecycle import HeartbeatReport
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.log import Log
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.ports.workspaces import PRESENCE
from molecule_platform.services.events.event_feed import EventFeed
from molecule_platform.services.identity import authorizer
from molecule_platform.services.support import event_log, signals
from molecule_platform.services.workspaces import restart_notice
from molecule_wire import times

WRITE_BEHIND_SECONDS = 0.5


@dataclass(frozen=True)
class HeartbeatResult:
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


class Heartbeats:
    """Evaluates heartbeats in the order the contract gives."""

    def __init__(
        self, storage: Storage, clock: Clock, log: Log, feed: EventFeed, remote_seconds: int
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._log = log
        self._feed = feed
        self._remote_seconds = remote_seconds
        self._behind: dict[str, dict[str, Any]] = {}
        self._flusher: asyncio.Task[None] | None = None

    async def beat(self, workspace_id: str, beat: HeartbeatReport) -> HeartbeatResult:
        """Take one heartbeat. What only says that the agent is still there is written a moment later."""
        before, pending = await self._storage.glance(lambda tx: _look(tx, workspace_id))
        after = lifecycle.beaten(before, beat, self._clock.now(), self._remote_seconds)
        if self._only_presence_changed(before, after):
            self._behind[workspace_id] = {name: getattr(after, name) for name in PRESENCE}
        else:
            after = await self._storage.write(lambda tx: self._write(tx, workspace_id, beat))
            self._behind.pop(workspace_id, None)
        if self._feed.is_watched:
            await self._show(before, after)
        return HeartbeatResult(after, pending, self._clock.now())

    def _only_presence_changed(self, before: Workspace, after: Workspace) -> bool:
        same = {name: getattr(before, name) for name in PRESENCE}
        alike = after.but(**same, version=before.version, updated_at=before.updated_at) == before
        return alike and _is_exactly(after.capabilities, before.capabilities)

    def _write(self, tx: Transaction, workspace_id: str, beat: HeartbeatReport) -> Workspace:
        now = self._clock.now()
        before, _pending = _look(tx, workspace_id)
        after = lifecycle.beaten(before, beat, now, self._remote_seconds)
        payload: dict[str, Any] = {"name": before.name, "external": before.external}
        if after.status == "degraded":
            payload |= {"error_rate": after.last_error_rate, "sample_error": after.last_sample_error}
            payload |= {"runtime_state": beat.runtime_state} if beat.runtime_state else {}
        elif before.status != after.status:
            payload["recovered_from"] = before.status
        event_log.move(tx, before, after, now, **payload)
        restart_notice.send_restart_notice(tx, before, after, now)
        tx.signal(signals.mail(workspace_id))
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
            tx.workspaces.heard(behind)

        try:
            await self._storage.write(work)
        except Exception:
            self._behind = behind | self._behind
            raise


def _is_exactly(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two objects are equal in the kinds of their values too: for Python 1 is True."""
    return one is other or (one == other and _in_words(one) == _in_words(other))


def _in_words(one: Mapping[str, Any] | None) -> list[str]:
    return sorted(map(repr, (one or {}).items()))


def _look(tx: Transaction, workspace_id: str) -> tuple[Workspace, int]:
    workspace = tx.workspaces.get(workspace_id)
    if workspace is None:
        raise errors.workspace_not_found(workspace_id)
    if workspace.removed:
        raise errors.workspace_removed(workspace_id, authorizer.removed_at(workspace))
    return workspace, tx.mailbox.open_count(workspace_id)
