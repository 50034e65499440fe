"""What time does to the agents that live here: late starts, processes that are gone, work that is none."""

from collections.abc import AsyncIterator, Set
from datetime import datetime, timedelta

from molecule_platform.domain import lifecycle, messages
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.metrics import DeliveryMetrics
from molecule_platform.ports.provisioner import StartFailed
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.support import event_log, signals
from molecule_platform.services.workspaces import pause_rules, provisioning, restarts
from molecule_platform.services.workspaces.provisioning import Provisioning
from molecule_platform.services.workspaces.restarts import Restarts

PAGE = 200
FORGOTTEN_AFTER = timedelta(seconds=60)
QUIET = timedelta(minutes=10)


class StartTimeouts:
    """Starts that took too long have failed; starts that nobody is at work on are offered again."""

    def __init__(
        self, storage: Storage, clock: Clock, starter: Provisioning, timeout_seconds: int, replica_id: str
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._starter = starter
        self._timeout_seconds = timeout_seconds
        self._replica_id = replica_id
        self._opened_at = clock.now()

    async def tick(self) -> None:
        """Look at every start that is under way."""
        living = await self._storage.read(lambda tx: tx.presence.alive(messages.REPLICA_UNSEEN))
        async for workspace in provisioned(self._storage, {"provisioning"}):
            if self._is_orphan(workspace, {*living, self._replica_id}):
                await self._take_over(workspace)
            elif not await self._is_held_up(workspace):
                await self._hurry(workspace)

    def _is_orphan(self, workspace: Workspace, living: Set[str]) -> bool:
        """Whether the replica that took it on is gone; a new one has a moment to say that it lives."""
        since = workspace.provisioning_since
        moment_ago = self._clock.now() - messages.REPLICA_UNSEEN
        return since is not None and since <= moment_ago and workspace.started_by not in living

    async def _take_over(self, left: Workspace) -> None:
        """Offer it again, unless its process runs: then its agent will answer, or be late."""
        if await self._starter.is_gone(left.id):
            await self._storage.write(
                lambda tx: provisioning.give_back(tx, left.id, left.start_epoch, self._clock.now())
            )
        else:
            await self._hurry(left)

    async def _is_held_up(self, workspace: Workspace) -> bool:
        """Whether it waits for a paused workspace above: that is not its fault, and makes it no older."""
        if not self._is_forgotten(workspace):
            return False

        def work(tx: Transaction) -> bool:
            if pause_rules.paused_ancestor(tx, workspace) is None:
                return False
            tx.workspaces.touch(workspace.id, updated_at=self._clock.now())
            return True

        return await self._storage.write(work)

    async def _hurry(self, workspace: Workspace) -> None:
        if _began(workspace) + self._watchdog(workspace) <= self._clock.now():
            await self._storage.write(lambda tx: self._fail(tx, workspace))
        elif self._is_forgotten(workspace):
            self._starter.wake(workspace.id)

    def _is_forgotten(self, workspace: Workspace) -> bool:
        """Whether nobody takes it on: it waited for long, or rang before this house could hear it."""
        asked_at = workspace.updated_at
        waits_long = asked_at <= self._clock.now() - FORGOTTEN_AFTER
        return lifecycle.is_to_be_started(workspace) and (waits_long or asked_at < self._opened_at)

    def _watchdog(self, workspace: Workspace) -> timedelta:
        return timedelta(seconds=lifecycle.provision_seconds(workspace, self._timeout_seconds))

    def _fail(self, tx: Transaction, seen: Workspace) -> None:
        current = tx.workspaces.get(seen.id)
        if current is not None and current.version == seen.version:
            seconds = int(self._watchdog(current).total_seconds())
            problem = StartFailed(f"its agent did not answer within {seconds} s")
            self._starter.give_up(tx, current, problem, timeout_secs=seconds)


class ProcessLiveness:
    """Agents of ours that must not run end; those whose process is gone or that fell silent start again."""

    def __init__(self, storage: Storage, clock: Clock, starter: Provisioning, restarts: Restarts) -> None:
        self._storage = storage
        self._clock = clock
        self._starter = starter
        self._restarts = restarts

    async def tick(self) -> None:
        """Look at every agent, whether it should run or not."""
        await self._starter.end_the_rest()
        while await self._restarts.begin_owed():
            pass
        async for workspace in provisioned(self._storage, {*lifecycle.ALIVE, "offline"}):
            if await self._starter.is_gone(workspace.id) or workspace.status == "offline":
                await self._storage.write(lambda tx, gone=workspace: self._revive(tx, gone))

    def _revive(self, tx: Transaction, seen: Workspace) -> None:
        now = self._clock.now()
        current = tx.workspaces.get(seen.id)
        if current is None or current.version != seen.version:
            return
        if current.status != "offline":
            changes = {"status_reason": "process gone"}
            current = event_log.step(tx, current, "silence", now, changes, reason="process gone")
        if pause_rules.paused_ancestor(tx, current) is None:
            restarts.begin_again(tx, current, now, current.status_reason)


class StaleTaskCounts:
    """Agents that say they work although they hold nothing: left so, they would never be given anything."""

    def __init__(self, storage: Storage, clock: Clock, measures: DeliveryMetrics) -> None:
        self._storage = storage
        self._clock = clock
        self._measures = measures

    async def tick(self) -> None:
        """Take them for free, and count them."""
        quiet_since = self._clock.now() - QUIET
        if await self._storage.read(lambda tx: tx.upkeep.seemingly_busy(quiet_since, 1)):
            for _freed in range(await self._storage.write(lambda tx: self._free(tx, quiet_since))):
                self._measures.phantom_busy()

    def _free(self, tx: Transaction, quiet_since: datetime) -> int:
        found = tx.upkeep.seemingly_busy(quiet_since, PAGE)
        for workspace in found:
            tx.workspaces.touch(workspace.id, active_tasks=0, current_task="")
            tx.signal(signals.mail(workspace.id))
        return len(found)


async def provisioned(storage: Storage, statuses: Set[str]) -> AsyncIterator[Workspace]:
    """Every workspace in one of the statuses whose agent we start ourselves, a page at a time."""
    page = await storage.read(lambda tx: tx.upkeep.provisioned(statuses, "", PAGE))
    while page:
        for workspace in page:
            yield workspace
        last = page[-1].id
        page = await storage.read(lambda tx, after=last: tx.upkeep.provisioned(statuses, after, PAGE))


def _began(workspace: Workspace) -> datetime:
    return workspace.provisioning_since or workspace.updated_at
