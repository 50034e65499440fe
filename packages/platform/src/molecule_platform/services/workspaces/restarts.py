"""Restarts: a new process with today's settings, and nothing lost of what the old one was given."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from molecule_platform.domain import lifecycle
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.support import event_log
from molecule_platform.services.workspaces import pause_rules
from molecule_platform.services.workspaces.provisioning import Provisioning

PAGE = 100


@dataclass(frozen=True)
class Restarted:
    """What a restart led to; an external agent is only asked to restart itself."""

    status: str
    config_dir: str | None = None


class Restarts:
    """Restarts agents: at once when somebody asks, and quietly when something they start with has changed."""

    def __init__(self, storage: Storage, clock: Clock, provisioning: Provisioning) -> None:
        self._storage = storage
        self._clock = clock
        self._provisioning = provisioning

    async def restart(self, workspace: Workspace, reset: bool = False) -> Restarted:
        """Restart one agent because somebody asked for it; `reset` forgets its session."""
        if workspace.external:
            await self._storage.write(lambda tx: self._request(tx, workspace))
            return Restarted("online")
        provisioner = self._provisioning.required()
        reason = lifecycle.RESET if reset else "requested"
        await self._storage.write(lambda tx: self._restart(tx, workspace.id, reason))
        return Restarted("provisioning", provisioner.config_dir(workspace.id))

    def _request(self, tx: Transaction, workspace: Workspace) -> None:
        current = tx.workspaces.get(workspace.id)
        if current is None or current.status == "paused":
            raise _not_running(current)
        pause_rules.refuse_below_paused(tx, current)
        event_log.note(tx, "WORKSPACE_RESTART_REQUESTED", workspace, self._clock.now(), name=workspace.name)

    def _restart(self, tx: Transaction, workspace_id: str, reason: str) -> None:
        current = tx.workspaces.get(workspace_id)
        if current is None or not lifecycle.may(current, "restart"):
            raise _not_running(current)
        pause_rules.refuse_below_paused(tx, current)
        begin_again(tx, current, self._clock.now(), reason)

    def because(self, tx: Transaction, workspace_id: str, reason: str) -> None:
        """Restart an agent, if we run it and its operators want it to run."""
        current = tx.workspaces.get(workspace_id)
        if current is None or current.external or not lifecycle.may(current, "restart"):
            return
        if pause_rules.paused_ancestor(tx, current) is None:
            begin_again(tx, current, self._clock.now(), reason)

    async def begin_owed(self) -> bool:
        """Begin some of the restarts that are owed; whether there may be more."""
        if not await self._storage.read(lambda tx: tx.upkeep.owed_a_restart(1)):
            return False
        return await self._storage.write(self._begin_owed) == PAGE

    def _begin_owed(self, tx: Transaction) -> int:
        owed = tx.upkeep.owed_a_restart(PAGE)
        for workspace in owed:
            tx.workspaces.touch(workspace.id, restart_owed=None)
            self.because(tx, workspace.id, workspace.restart_owed or "")
        return len(owed)


def begin_again(tx: Transaction, current: Workspace, now: datetime, reason: str) -> None:
    """Ask for a new process. What was on its way to the old one waits for it, at no cost."""
    if lifecycle.is_to_be_started(current):
        # The start that is already asked for reads everything anew: one is enough.
        if reason == lifecycle.RESET:
            tx.workspaces.touch(current.id, restart_reason=lifecycle.RESET)
        return
    for message in tx.mailbox.list_leased(current.id, ("dispatch",)):
        tx.mailbox.release(message.id, message.lease_epoch, now)
    changes = {"restart_reason": reason, "session_ended_at": now, "needs_restart": False}
    event_log.step(tx, current, "restart", now, changes, **restart_row(current))


def restart_row(workspace: Workspace) -> dict[str, Any]:
    """What the event of a start tells."""
    placed = {"parent_id": workspace.parent_id, "x": workspace.x, "y": workspace.y}
    return {"tier": workspace.tier, "runtime": workspace.runtime, **placed}


def _not_running(workspace: Workspace | None) -> ApiError:
    if workspace is None:
        return ApiError("workspace-not-found", "this workspace is gone")
    remedy = {"paused": "resume it", "hibernated": "wake it"}.get(workspace.status, "wait a moment")
    return ApiError("conflict", f"{workspace.name} is {workspace.status}: {remedy} instead")
