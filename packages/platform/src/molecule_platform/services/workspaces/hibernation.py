"""Hibernation: idle agents sleep, and what is sent to them wakes them. Nothing is lost in between."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from molecule_platform.domain import lifecycle, messages
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.messaging.messages import wakeups
from molecule_platform.services.support import event_log
from molecule_platform.services.workspaces.process_monitor import provisioned
from molecule_platform.services.workspaces.provisioning import Provisioning

UNFINISHED_AFTER = timedelta(seconds=60)


@dataclass(frozen=True)
class _Claim:
    """A workspace on its way to sleep, and the mail that it already had."""

    workspace: Workspace
    mail: frozenset[str]


class Hibernation:
    """Puts agents to sleep and wakes them."""

    def __init__(self, storage: Storage, clock: Clock, provisioning: Provisioning, idle_minutes: int) -> None:
        self._storage = storage
        self._clock = clock
        self._provisioning = provisioning
        self._idle_minutes = idle_minutes

    async def hibernate(self, workspace: Workspace, force: bool) -> None:
        """Stop the agent until something is wanted of it; `force` takes back what it is working on."""
        if workspace.external:
            raise ApiError("conflict", f"{workspace.name} is external: only its own host can stop it")
        self._provisioning.required()
        claim = await self._storage.write(lambda tx: self._claim(tx, workspace.id, force))
        if not await self._stop(claim):
            raise ApiError("internal", f"the agent of {workspace.name} does not stop: try again later")

    def _claim(self, tx: Transaction, workspace_id: str, force: bool) -> _Claim:
        current = tx.workspaces.get(workspace_id)
        if current is None or not lifecycle.may(current, "hibernate"):
            raise ApiError("not-found", "only an online or degraded workspace can hibernate")
        busy = max(current.active_tasks, tx.mailbox.open_count(workspace_id))
        if busy and not force:
            sentence = f"{current.name} has work: wait for it, or repeat with force=true"
            raise ApiError("busy", sentence, active_tasks=busy)
        return self._begin(tx, current)

    def _begin(self, tx: Transaction, current: Workspace) -> _Claim:
        now = self._clock.now()
        for message in tx.mailbox.list_leased(current.id, messages.LEASE_KINDS):
            tx.mailbox.release(message.id, message.lease_epoch, now)
        mail = frozenset(waiting.id for waiting in tx.mailbox.waiting(current.id))
        changes = {"active_tasks": 0, "current_task": ""}
        return _Claim(event_log.step(tx, current, "hibernate", now, changes), mail)

    async def _stop(self, claim: _Claim) -> bool:
        failed = await self._provisioning.end({claim.workspace.id: claim.workspace.start_epoch})
        await self._storage.write(lambda tx: self._finish(tx, claim, stopped=not failed))
        return not failed

    def _finish(self, tx: Transaction, claim: _Claim, stopped: bool) -> None:
        now = self._clock.now()
        current = tx.workspaces.get(claim.workspace.id)
        if current is None or current.status != "hibernating":
            return
        if current.start_epoch != claim.workspace.start_epoch:
            return  # it was woken in the meantime, and falls asleep once more
        if not stopped:
            event_log.step(tx, current, "stop-failed", now, recovered_from="hibernating")
            return
        asleep = event_log.step(tx, current, "asleep", now, {"session_ended_at": now})
        if _is_called(tx, asleep, claim.mail):
            wakeups.wake_target(tx, asleep, now)

    async def wake(self, workspace: Workspace) -> str:
        """Wake an agent that sleeps; the status it has then."""
        if workspace.status == "hibernated":
            self._provisioning.required()
        return await self._storage.write(lambda tx: self._wake(tx, workspace.id))

    def _wake(self, tx: Transaction, workspace_id: str) -> str:
        current = tx.workspaces.get(workspace_id)
        if current is None:
            raise ApiError("workspace-not-found", f"there is no workspace {workspace_id} here")
        if current.status in ("paused", "hibernating", "failed"):
            remedy = {"paused": "resume it", "failed": "restart it"}.get(current.status, "try again soon")
            raise ApiError("conflict", f"{current.name} is {current.status}: {remedy}")
        return "provisioning" if wakeups.wake_target(tx, current, self._clock.now()) else current.status

    # What time does

    async def tick(self) -> None:
        """Let idle agents sleep, and finish what an earlier process began."""
        async for workspace in provisioned(self._storage, {*lifecycle.ALIVE, "hibernating"}):
            claim = await self._storage.read(lambda tx, seen=workspace: self._unfinished(tx, seen))
            if claim is None and lifecycle.is_idle(workspace, self._clock.now(), self._idle_minutes):
                claim = await self._storage.write(lambda tx, seen=workspace: self._claim_idle(tx, seen))
            if claim is not None:
                await self._stop(claim)

    def _unfinished(self, tx: Transaction, seen: Workspace) -> _Claim | None:
        if seen.status != "hibernating" or seen.updated_at + UNFINISHED_AFTER > self._clock.now():
            return None
        return _Claim(seen, frozenset())

    def _claim_idle(self, tx: Transaction, seen: Workspace) -> _Claim | None:
        """Claim it only if it is still idle when nothing else can happen any more."""
        now = self._clock.now()
        current = tx.workspaces.get(seen.id)
        if current is None or not lifecycle.is_idle(current, now, self._idle_minutes):
            return None
        settled = tx.upkeep.last_settled(current.id)
        answered = current.changed(last_activity_at=settled) if settled else current
        if tx.mailbox.open_count(current.id) or not lifecycle.is_idle(answered, now, self._idle_minutes):
            return None
        return self._begin(tx, current)


def _is_called(tx: Transaction, workspace: Workspace, before: Collection[str]) -> bool:
    """Whether somebody wrote to it while it was falling asleep."""
    return any(waiting.id not in before for waiting in tx.mailbox.waiting(workspace.id))
