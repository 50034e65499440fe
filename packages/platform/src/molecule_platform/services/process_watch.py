"""What time does to the agents that live here: late starts, processes that are gone, work that is none."""

from collections.abc import AsyncIterator, Set
from datetime import datetime, timedelta

from molecule_platform.domain import lifecycle
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.measures import Measures
from molecule_platform.ports.provisioner import StartFailed
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services import bells, journal, provisioning, restarts
from molecule_platform.services.provisioning import Provisioning

PAGE = 200
FORGOTTEN_AFTER = timedelta(seconds=60)
QUIET = timedelta(minutes=10)


class LateStarts:
    """Starts that took too long have failed; starts that nobody took on are offered again."""

    def __init__(
        self, storage: Storage, clock: Clock, starter: Provisioning, timeout_seconds: int, alone: bool
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._starter = starter
        self._timeout_seconds = timeout_seconds
        self._orphans_before = clock.now() if alone else None

    async def tick(self) -> None:
        """Look at every start that is under way."""
        if self._orphans_before is not None:
            await self._take_over(self._orphans_before)
            self._orphans_before = None
        async for workspace in provisioned(self._storage, {"provisioning"}):
            now = self._clock.now()
            if _began(workspace) + self._patience(workspace) <= now:
                await self._storage.write(lambda tx, late=workspace: self._fail(tx, late))
            elif workspace.provisioning_since is None and workspace.updated_at + FORGOTTEN_AFTER <= now:
                self._starter.wake(workspace.id)

    async def _take_over(self, opened_at: datetime) -> None:
        """Where there is one process only, starts that an earlier one was at work on wait to be taken on."""
        async for left in provisioned(self._storage, {"provisioning"}):
            if _began(left) < opened_at and await self._starter.is_gone(left.id):
                await self._storage.write(
                    lambda tx, left=left: provisioning.give_back(tx, left.id, self._clock.now())
                )

    def _patience(self, workspace: Workspace) -> timedelta:
        return timedelta(seconds=lifecycle.provision_seconds(workspace, self._timeout_seconds))

    def _fail(self, tx: Transaction, seen: Workspace) -> None:
        current = tx.workspaces.get(seen.id)
        if current is not None and current.version == seen.version:
            seconds = int(self._patience(current).total_seconds())
            problem = StartFailed(f"its agent did not answer within {seconds} s")
            self._starter.give_up(tx, current, problem, timeout_secs=seconds)


class ProcessCheck:
    """Agents of ours whose process is gone, or that fell silent, start again."""

    def __init__(self, storage: Storage, clock: Clock, starter: Provisioning) -> None:
        self._storage = storage
        self._clock = clock
        self._starter = starter

    async def tick(self) -> None:
        """Look at every agent that should run."""
        await self._starter.end_the_rest()
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
            current = journal.step(tx, current, "silence", now, changes, reason="process gone")
        if restarts.paused_above(tx, current) is None:
            restarts.begin_again(tx, current, now, current.status_reason)


class PhantomBusy:
    """Agents that say they work although they hold nothing: left so, they would never be given anything."""

    def __init__(self, storage: Storage, clock: Clock, measures: Measures) -> None:
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
            tx.signal(bells.mail(workspace.id))
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
