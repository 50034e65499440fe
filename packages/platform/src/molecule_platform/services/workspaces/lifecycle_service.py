"""The operator's hand: pause, resume and remove workspaces with everything below them."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from molecule_platform.domain import errors, lifecycle, messages, visibility
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.support import event_log, signals
from molecule_platform.services.workspaces import pause_rules, removal
from molecule_platform.services.workspaces.provisioning import Provisioning


@dataclass(frozen=True)
class RemovalResult:
    """How many went, and the agents among them that may still run."""

    removed: int
    stop_failures: list[str]


class Lifecycle:
    """Moves workspaces through their states, each step in one transaction with its events."""

    def __init__(self, storage: Storage, clock: Clock, provisioning: Provisioning) -> None:
        self._storage = storage
        self._clock = clock
        self._provisioning = provisioning

    async def pause(self, workspace: Workspace, by: Principal | None = None) -> int:
        """Pause a workspace and all below it; what an agent held waits again, and mail is still accepted.

        Returns how many those are, as far as they exist for who asked.
        """
        now = self._clock.now()
        paused = await self._storage.write(lambda tx: self._pause(tx, workspace))
        await self._provisioning.end(_ours(paused))
        return sum(by is None or visibility.is_visible_to(by, member, now) for member in paused)

    def _pause(self, tx: Transaction, workspace: Workspace) -> list[Workspace]:
        now = self._clock.now()
        members = [m for m in tx.workspaces.subtree(workspace.id) if lifecycle.may(m, "pause")]
        for member in members:
            event_log.step(tx, member, "pause", now)
            for message in tx.mailbox.list_leased(member.id, messages.LEASE_KINDS):
                tx.mailbox.release(message.id, message.lease_epoch, now)
        return members

    async def resume(self, workspace: Workspace) -> list[str]:
        """Undo a pause, for everything below too; the statuses they go on with, its own first."""
        return await self._storage.write(lambda tx: self._resume(tx, workspace))

    def _resume(self, tx: Transaction, workspace: Workspace) -> list[str]:
        now = self._clock.now()
        below = tx.workspaces.subtree(workspace.id)
        members = [m for m in below if m.status == "paused"]
        if not members or members[0].id != workspace.id:
            raise ApiError("not-found", f"workspace {workspace.id} is not paused")
        pause_rules.refuse_below_paused(tx, members[0])
        if _ours(members):
            self._provisioning.required()
        statuses = [_resume_one(tx, member, now) for member in members]
        for waiting in filter(lifecycle.is_to_be_started, below):
            tx.signal(signals.start(waiting.id))
        return statuses

    async def remove(
        self, workspace: Workspace, confirmed: bool, purge: bool = False, by: Principal | None = None
    ) -> RemovalResult:
        """Remove a workspace and all below it for good; `purge` also erases what they knew."""
        members = await self._storage.write(lambda tx: self._remove(tx, workspace, confirmed, purge, by))
        return RemovalResult(len(members), await self._provisioning.end(_ours(members)))

    def _remove(
        self, tx: Transaction, workspace: Workspace, confirmed: bool, purge: bool, by: Principal | None
    ) -> list[Workspace]:
        now = self._clock.now()
        if workspace.removed:
            removal.purge(tx, workspace)
            return [workspace]
        members = tx.workspaces.subtree(workspace.id)
        if not members:
            raise errors.workspace_removed(workspace.id, None)
        if len(members) > 1 and not confirmed:
            shown = [m for m in members[1:] if by is None or visibility.is_visible_to(by, m, now)]
            raise removal.confirmation_required(shown, len(members) - 1)
        below = Counter[str]()
        for member in reversed(members):
            removed = removal.remove(tx, member, now, below[member.id])
            below[member.parent_id or ""] += below[member.id] + 1
            if purge:
                removal.purge(tx, removed)
        tx.signal(signals.CREDENTIALS)
        return members


def _ours(members: list[Workspace]) -> dict[str, int]:
    """Those whose agents we run, each with the start that it may run from."""
    return {member.id: member.start_epoch for member in members if not member.external}


def _resume_one(tx: Transaction, member: Workspace, now: datetime) -> str:
    trigger = "resume-external" if member.external else "resume-provisioned"
    status = lifecycle.STEPS[trigger].after
    event_log.step(tx, member, trigger, now, status=status)
    return status
