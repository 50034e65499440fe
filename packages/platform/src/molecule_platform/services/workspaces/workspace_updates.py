"""Changing a workspace: what it may change of itself, what only its operators may, and where it stands."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from molecule_platform.domain import errors, workspaces
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.support import event_log, signals
from molecule_platform.services.workspaces import workspace_creation

OWN_FIELDS = frozenset({"role", "collapsed", "x", "y", "delivery_mode"})
OPERATOR_FIELDS = frozenset(
    {
        # Whoever gets a message trusts the name of its sender.
        "name",
        "tier",
        "parent_id",
        "runtime",
        "workspace_dir",
        "workspace_access",
        "max_concurrent_tasks",
        "visibility",
        "isolated",
        "hibernation_idle_minutes",
    }
)
# Budgets have a route of their own; a workspace that tries it here is told so instead of being ignored.
NEVER_ITS_OWN = OPERATOR_FIELDS | {"budget_limit"}
READ_AT_START = frozenset({"runtime", "workspace_dir", "workspace_access", "tier"})


class WorkspaceUpdater:
    """Applies changes, all of them or none."""

    def __init__(self, storage: Storage, clock: Clock, roots: Collection[str] = ()) -> None:
        self._storage = storage
        self._clock = clock
        self._roots = roots

    async def apply(self, workspace: Workspace, wanted: Mapping[str, Any], principal: Principal) -> bool:
        """Change the fields that are given; whether the agent must restart to see them."""
        if principal.workspace_id is not None:
            refuse_operator_fields(wanted)
        changes = {name: wanted[name] for name in wanted if name in OWN_FIELDS | OPERATOR_FIELDS}
        workspaces.check_fields(changes, self._roots)
        if "tier" in changes:
            workspace_creation.check_tier(changes["tier"], principal)
        return await self._storage.write(lambda tx: self._apply(tx, workspace.id, changes))

    def _apply(self, tx: Transaction, workspace_id: str, wanted: Mapping[str, Any]) -> bool:
        current = tx.workspaces.get(workspace_id)
        if current is None or current.removed:
            raise errors.workspace_not_found(workspace_id)
        changes = {name: value for name, value in wanted.items() if getattr(current, name) != value}
        _check_kind(current, changes)
        if changes:
            self._write(tx, current, changes, self._clock.now())
        return not current.external and not READ_AT_START.isdisjoint(changes)

    def _write(self, tx: Transaction, current: Workspace, changes: dict[str, Any], now: datetime) -> None:
        after = current.changed(**changes, updated_at=now)
        if "parent_id" in changes:
            check_new_parent(tx, current, changes["parent_id"])
        written = tx.workspaces.move(after) if "parent_id" in changes else tx.workspaces.update(after)
        if not written:
            raise ApiError("state-conflict", f"workspace {current.id} changed at the same moment: try again")
        tx.signal(signals.card(after.id))
        event_log.note(tx, "WORKSPACE_UPDATED", after, now, **changes)
        tx.signal(signals.mail(after.id))


def refuse_operator_fields(wanted: Collection[str]) -> None:
    """A workspace that could change its place or its bounds would be free of them."""
    theirs = sorted(NEVER_ITS_OWN.intersection(wanted))
    if theirs:
        raise ApiError(
            "forbidden", f"a workspace may not change its own {', '.join(theirs)}: ask an operator"
        )


def _check_kind(current: Workspace, changes: Mapping[str, Any]) -> None:
    runtime = changes.get("runtime", current.runtime)
    if (runtime == "external") != current.external:
        kind = "external" if current.external else "started by the platform"
        raise workspaces.invalid("runtime", f"this workspace is {kind} and stays so: create a new one")
    if changes.get("delivery_mode") == "push" and not current.url:
        raise workspaces.invalid("delivery_mode", "push needs a url: the agent gives one when it registers")


def check_new_parent(tx: Transaction, current: Workspace, parent_id: str | None) -> None:
    """A parent is of the same organisation, and nobody stands below itself."""
    if parent_id is None:
        return
    parent = workspace_creation.parent_of(tx, parent_id, current.org_id, tx.workspaces.height(current.id))
    if parent.id == current.id or tx.workspaces.descends(current.id, parent.id):
        raise ApiError("parent-cycle", f"{parent.name} is {current.name} or below it: choose another parent")
