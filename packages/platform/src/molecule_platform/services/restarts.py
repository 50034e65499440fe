"""Restarts: a new process with today's settings, and nothing lost of what the old one was given."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from molecule_platform.domain import lifecycle
from molecule_platform.domain.refusals import Refusal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services import journal
from molecule_platform.services.provisioning import Provisioning


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
        journal.note(tx, "WORKSPACE_RESTART_REQUESTED", workspace, self._clock.now(), name=workspace.name)

    def _restart(self, tx: Transaction, workspace_id: str, reason: str) -> None:
        current = tx.workspaces.get(workspace_id)
        if current is None or not lifecycle.may(current, "restart"):
            raise _not_running(current)
        paused = paused_above(tx, current)
        if paused is not None:
            raise parent_paused(paused)
        begin_again(tx, current, self._clock.now(), reason)

    async def because(self, workspaces: Collection[Workspace], reason: str) -> None:
        """Restart those of the workspaces whose agents we run and whose operators want them to run."""
        ours = [workspace.id for workspace in workspaces if not workspace.external]
        if ours:
            await self._storage.write(lambda tx: self._restart_running(tx, ours, reason))

    def _restart_running(self, tx: Transaction, workspace_ids: list[str], reason: str) -> None:
        now = self._clock.now()
        for current in tx.workspaces.many(workspace_ids).values():
            if lifecycle.may(current, "restart") and paused_above(tx, current) is None:
                begin_again(tx, current, now, reason)


def begin_again(tx: Transaction, current: Workspace, now: datetime, reason: str) -> None:
    """Ask for a new process. What was on its way to the old one waits for it, at no cost."""
    if current.status == "provisioning" and current.provisioning_since is None:
        # The start that is already asked for reads everything anew: one is enough.
        if reason == lifecycle.RESET:
            tx.workspaces.touch(current.id, restart_reason=lifecycle.RESET)
        return
    for message in tx.mailbox.list_leased(current.id, ("dispatch",)):
        tx.mailbox.release(message.id, message.lease_epoch, now)
    changes = {"restart_reason": reason, "session_ended_at": now, "needs_restart": False}
    journal.step(tx, current, "restart", now, changes, **shown(current))


def paused_above(tx: Transaction, workspace: Workspace) -> Workspace | None:
    """The nearest workspace above that is paused."""
    line = tx.workspaces.ancestors(workspace.id)
    found = tx.workspaces.many(line)
    return next((found[above] for above in line if found[above].status == "paused"), None)


def parent_paused(parent: Workspace) -> Refusal:
    """Nothing below a paused workspace starts."""
    return Refusal("parent-paused", f"its parent {parent.name} is paused: resume that one first")


def shown(workspace: Workspace) -> dict[str, Any]:
    """What the event of a start tells."""
    placed = {"parent_id": workspace.parent_id, "x": workspace.x, "y": workspace.y}
    return {"tier": workspace.tier, "runtime": workspace.runtime, **placed}


def _not_running(workspace: Workspace | None) -> Refusal:
    if workspace is None:
        return Refusal("workspace-not-found", "this workspace is gone")
    remedy = {"paused": "resume it", "hibernated": "wake it"}.get(workspace.status, "wait a moment")
    return Refusal("conflict", f"{workspace.name} is {workspace.status}: {remedy} instead")
