"""What happened, written with what happened: events and status changes in one transaction."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from molecule_platform.domain import lifecycle
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.events import STATUS_EVENT_OF, Event, parties_of
from molecule_platform.domain.push import PushConfig
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.support import signals


def note(tx: Transaction, event_type: str, workspace: Workspace, now: datetime, **payload: Any) -> None:
    """Write an event and ring for it."""
    tx.events.append(Event(event_type, workspace.org_id, workspace.id, payload, now))
    tx.signal(signals.EVENTS)


def note_push(tx: Transaction, event_type: str, config: PushConfig, now: datetime, **payload: Any) -> None:
    """Write an event about a push config: for its creator, and for the workspace of its task."""
    named = {"task_id": config.task_id, "config_id": config.config_id, **payload}
    parties = parties_of(config.owner, config.workspace_id)
    tx.events.append(Event(event_type, config.org_id, config.workspace_id, named, now, parties=parties))
    tx.signal(signals.EVENTS)


def move(tx: Transaction, before: Workspace, after: Workspace, now: datetime, **payload: Any) -> Workspace:
    """Write a workspace's next version, with the event of its new status if that changed."""
    if not tx.workspaces.update(after):
        raise ApiError("state-conflict", f"workspace {before.id} changed at the same moment: try again")
    if before.status != after.status:
        note(tx, STATUS_EVENT_OF[after.status], after, now, **payload)
        tx.signal(signals.mail(after.id))
    return after


def step(
    tx: Transaction,
    before: Workspace,
    trigger: str,
    now: datetime,
    changes: Mapping[str, Any] | None = None,
    **payload: Any,
) -> Workspace:
    """Take a workspace one step of its life, with the event of that step; a start rings for who starts it."""
    after = lifecycle.stepped(before, trigger, now, **(changes or {}))
    if not tx.workspaces.update(after):
        raise ApiError("state-conflict", f"workspace {before.id} changed at the same moment: try again")
    event = lifecycle.STEPS[trigger].event
    if event:
        note(tx, event, after, now, **{"name": after.name, **payload})
    tx.signal(signals.mail(after.id))
    if after.status == "provisioning":
        tx.signal(signals.start(after.id))
    return after
