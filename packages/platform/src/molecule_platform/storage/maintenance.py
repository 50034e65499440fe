"""What the house looks after by itself, in SQL."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, exists, or_, select, update

from molecule_platform.domain.messages import OPEN, STATUSES
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.storage.tables import (
    access_grants,
    activity_logs,
    delegation_evidence,
    delegations,
    enrolment_tokens,
    events,
    message_events,
    message_transitions,
    messages,
    push_configs,
    secrets,
    tasks,
    tokens,
    workspace_plugins,
    workspaces,
)

_ENDED = sorted(set(STATUSES) - OPEN)
_OWN = (activity_logs, message_events, push_configs, tasks, secrets, enrolment_tokens, workspace_plugins)


class SqlUpkeep:
    """See `ports.upkeep.Upkeep`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def provisioned(self, statuses: Collection[str], after: str, limit: int) -> list[Workspace]:
        """Those whose agents we start ourselves."""
        column = workspaces.c
        wanted = select(workspaces).where(
            column.status.in_(sorted(statuses)), column.external.is_(False), column.id > after
        )
        rows = self._connection.execute(wanted.order_by(column.id).limit(limit)).mappings()
        return [Workspace(**row) for row in rows]

    def to_be_stopped(self, after: str, limit: int) -> list[Workspace]:
        """Those with a process that must end."""
        column = workspaces.c
        wanted = select(workspaces).where(column.stop_through >= 0, column.id > after)
        rows = self._connection.execute(wanted.order_by(column.id).limit(limit)).mappings()
        return [Workspace(**row) for row in rows]

    def stopped(self, workspace_id: str, through: int) -> None:
        """Nothing is left to stop, unless more was asked for."""
        column = workspaces.c
        done = (column.id == workspace_id) & (column.stop_through <= through)
        self._connection.execute(update(workspaces).where(done).values(stop_through=None))

    def owed_a_restart(self, limit: int) -> list[Workspace]:
        """Those whose restart was not begun yet."""
        wanted = select(workspaces).where(workspaces.c.restart_owed >= "").limit(limit)
        return [Workspace(**row) for row in self._connection.execute(wanted).mappings()]

    def seemingly_busy(self, quiet_since: datetime, limit: int) -> list[Workspace]:
        """Busy in name only."""
        column = workspaces.c
        held = exists().where(messages.c.target_id == column.id, messages.c.status == "leased")
        quiet = or_(column.last_activity_at.is_(None), column.last_activity_at < quiet_since)
        silent = or_(column.last_outbound_at.is_(None), column.last_outbound_at < quiet_since)
        wanted = select(workspaces).where(
            column.active_tasks > 0, column.status != "removed", quiet, silent, ~held
        )
        return [Workspace(**row) for row in self._connection.execute(wanted.limit(limit)).mappings()]

    def last_settled(self, workspace_id: str) -> datetime | None:
        """The newest end of a message."""
        step = message_transitions.c
        mine = (step.target_id == workspace_id) & step.kind.in_(_ENDED)
        newest = select(step.created_at).where(mine).order_by(step.event_id.desc()).limit(1)
        return self._connection.execute(newest).scalar_one_or_none()

    def erase(self, workspace_id: str) -> None:
        """Delete its data."""
        said = {"body": b"{}", "result": None, "caller_name": ""}
        self._connection.execute(update(messages).where(messages.c.target_id == workspace_id).values(said))
        for table in _OWN:
            self._connection.execute(delete(table).where(table.c.workspace_id == workspace_id))
        self._erase_delegations(workspace_id)
        ends = or_(access_grants.c.from_id == workspace_id, access_grants.c.to_id == workspace_id)
        self._connection.execute(delete(access_grants).where(ends))
        silent = update(message_transitions).where(message_transitions.c.target_id == workspace_id)
        self._connection.execute(silent.values(also_told=False))
        own, end = events.c.workspace_id == workspace_id, events.c.event_type == "WORKSPACE_REMOVED"
        self._connection.execute(delete(events).where(own, ~end))
        for ended in self._connection.execute(select(events.c.id, events.c.payload).where(own, end)).all():
            bare = {"cascade_deleted": ended.payload.get("cascade_deleted", 0)}
            self._connection.execute(update(events).where(events.c.id == ended.id).values(payload=bare))
        self._connection.execute(update(tokens).where(tokens.c.workspace_id == workspace_id).values(name=""))

    def _erase_delegations(self, workspace_id: str) -> None:
        """What it asked for and what it was asked: that it was stays, and how it ended."""
        column = delegations.c
        between = or_(column.source_id == workspace_id, column.target_id == workspace_id)
        of_these = delegation_evidence.c.delegation_id.in_(select(column.id).where(between))
        self._connection.execute(delete(delegation_evidence).where(of_these))
        said: dict[str, Any] = {
            "task": "",
            "context": None,
            "result": None,
            "error": None,
            "deliverables": [],
        }
        self._connection.execute(update(delegations).where(between).values(said))
