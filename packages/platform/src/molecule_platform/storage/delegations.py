"""Delegations in SQL."""

from collections.abc import Collection
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, cast, func, insert, or_, select, update

from molecule_platform.domain.delegations import OPEN, Delegation, Evidence
from molecule_platform.storage.page_sizes import fitting
from molecule_platform.storage.tables import delegation_evidence, delegations

column = delegations.c
_ALL = [column[field.name] for field in fields(Delegation)]
_SIZE = func.length(column.task) + func.coalesce(func.length(cast(column.result, Text)), 0)
_IS_OPEN = column.status.in_(sorted(OPEN))


class SqlDelegations:
    """See `ports.delegations.Delegations`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert(self, delegation: Delegation) -> None:
        """Keep a new delegation."""
        values = asdict(delegation) | {"deliverables": list(delegation.deliverables)}
        self._connection.execute(insert(delegations).values(values))

    def get(self, delegation_id: str) -> Delegation | None:
        """The delegation with that id."""
        return self._one(column.id == delegation_id)

    def by_key(self, source: str, idempotency_key: str) -> Delegation | None:
        """The delegation that holds a key of its source."""
        return self._one(column.idempotency_key == idempotency_key, column.source == source)

    def give_up_key(self, delegation_id: str) -> None:
        """Free the key that a delegation holds."""
        statement = update(delegations).where(column.id == delegation_id).values(idempotency_key=None)
        self._connection.execute(statement)

    def change(self, delegation_id: str, **values: Any) -> Delegation | None:
        """Change an open delegation."""
        statement = update(delegations).where(column.id == delegation_id, _IS_OPEN).values(values)
        row = self._connection.execute(statement.returning(*_ALL)).mappings().first()
        return None if row is None else Delegation(**row)

    def page(
        self, workspace_id: str, role: str, statuses: Collection[str] | None, before: int | None, limit: int
    ) -> tuple[list[Delegation], bool]:
        """Delegations of a workspace in a role, newest first, and whether there are more."""
        wanted = [_whose(workspace_id, role)]
        if statuses is not None:
            wanted.append(column.status.in_(sorted(statuses)))
        if before is not None:
            wanted.append(column.seq < before)
        newest = select(column.id, _SIZE.label("size")).where(*wanted).order_by(column.seq.desc())
        rows = self._connection.execute(newest.limit(limit + 1)).all()
        shown = [row.id for row in rows[: min(fitting(row.size for row in rows), limit)]]
        every = select(*_ALL).where(column.id.in_(shown)).order_by(column.seq.desc())
        found = [Delegation(**row) for row in self._connection.execute(every).mappings()]
        return found, len(rows) > len(shown)

    def open_children(self, delegation_id: str) -> list[Delegation]:
        """Open delegations that came of this one."""
        return self._many(column.parent_id == delegation_id, _IS_OPEN)

    def open_of(self, workspace_id: str) -> list[Delegation]:
        """Open delegations from or to a workspace."""
        return self._many(_whose(workspace_id, "any"), _IS_OPEN)

    def chains_to(self, workspace_id: str, now: datetime, limit: int) -> dict[str, list[str]]:
        """The chains of the newest delegations to a workspace."""
        mine = select(column.id, column.chain, column.deadline_at).where(column.target_id == workspace_id)
        newest = mine.order_by(column.seq.desc()).limit(limit).subquery()
        rows = self._connection.execute(select(newest).where(newest.c.deadline_at > now))
        return {row.id: row.chain for row in rows}

    def overdue(self, now: datetime, limit: int) -> list[Delegation]:
        """Open delegations whose deadline has passed."""
        return self._many(_IS_OPEN, column.deadline_at <= now, limit=limit)

    def count_call(self, root_id: str) -> int | None:
        """Count one more delegation below a root."""
        statement = update(delegations).where(column.id == root_id).values(calls=column.calls + 1)
        return self._connection.execute(statement.returning(column.calls)).scalar_one_or_none()

    def add_evidence(self, evidence: Evidence) -> None:
        """Keep what somebody shows for a deliverable."""
        self._connection.execute(insert(delegation_evidence).values(asdict(evidence)))

    def evidence(self, delegation_id: str) -> list[Evidence]:
        """What was shown, oldest first."""
        table = delegation_evidence
        wanted = select(table).where(table.c.delegation_id == delegation_id).order_by(table.c.id)
        return [Evidence(**row) for row in self._connection.execute(wanted).mappings()]

    def _one(self, *conditions: ColumnElement[bool]) -> Delegation | None:
        row = self._connection.execute(select(*_ALL).where(*conditions)).mappings().first()
        return None if row is None else Delegation(**row)

    def _many(self, *conditions: ColumnElement[bool], limit: int | None = None) -> list[Delegation]:
        wanted = select(*_ALL).where(*conditions).order_by(column.seq).limit(limit)
        return [Delegation(**row) for row in self._connection.execute(wanted).mappings()]


def _whose(workspace_id: str, role: str) -> ColumnElement[bool]:
    if role == "source":
        return column.source_id == workspace_id
    if role == "target":
        return column.target_id == workspace_id
    return or_(column.source_id == workspace_id, column.target_id == workspace_id)
