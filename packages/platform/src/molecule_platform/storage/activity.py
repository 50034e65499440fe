"""The activity log in SQL, each row with the message it stands for."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Text, cast, func, insert, literal, select

from molecule_platform.domain import activity
from molecule_platform.domain.messages import OPEN
from molecule_platform.ports.activity import ActivityFilter, ActivityRow
from molecule_platform.storage import counters
from molecule_platform.storage.mailbox import message_from
from molecule_platform.storage.page_sizes import fitting
from molecule_platform.storage.prepared import Prepared
from molecule_platform.storage.tables import activity_logs, messages

_COLUMNS = [f.name for f in fields(ActivityRow) if f.name != "message"]
_OWN = [activity_logs.c[name].label(f"row_{name}") for name in _COLUMNS]
_BODIES = ("request_body", "response_body", "tool_trace", "metadata")
_KEPT = (messages.c.body, messages.c.result, *(cast(activity_logs.c[name], Text) for name in _BODIES))
_SIZE = sum((func.coalesce(func.length(kept), 0) for kept in _KEPT), start=literal(0))
_INSERT = Prepared(insert(activity_logs), names=_COLUMNS)


class SqlActivityLog:
    """See `ports.activity.ActivityLog`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert(self, row: ActivityRow) -> None:
        """Keep a new row."""
        _INSERT.run(self._connection, vars(row))

    def seq_of(self, workspace_id: str, activity_id: str) -> int | None:
        """The place of a row."""
        mine = (activity_logs.c.workspace_id == workspace_id) & (activity_logs.c.id == activity_id)
        return self._connection.execute(select(activity_logs.c.seq).where(mine)).scalar_one_or_none()

    def rows(self, workspace_id: str, wanted: ActivityFilter) -> list[ActivityRow]:
        """Rows with their messages."""
        joined = activity_logs.outerjoin(messages, messages.c.id == activity_logs.c.message_id)
        order = activity_logs.c.seq.asc() if wanted.oldest_first else activity_logs.c.seq.desc()
        sized = (
            select(activity_logs.c.seq, _SIZE.label("size"))
            .select_from(joined)
            .where(*_conditions(workspace_id, wanted))
        )
        rows = self._connection.execute(sized.order_by(order).limit(wanted.limit)).all()
        if not rows:
            return []
        shown = [row.seq for row in rows[: fitting(row.size for row in rows)]]
        every = select(*_OWN, *messages.c).select_from(joined).where(activity_logs.c.seq.in_(shown))
        return [_row(mapping) for mapping in self._connection.execute(every.order_by(order)).mappings()]

    def next_seq(self) -> int:
        """The next number."""
        return counters.draw(self._connection)


def _row(mapping: RowMapping) -> ActivityRow:
    kept = {name: mapping[f"row_{name}"] for name in _COLUMNS}
    if mapping["id"] is None:
        return ActivityRow(**kept)
    message = message_from(mapping)
    return ActivityRow(**kept | activity.outcome_of(message), message=message)


def _conditions(workspace_id: str, wanted: ActivityFilter) -> list[ColumnElement[bool]]:
    column = activity_logs.c
    mine = column.workspace_id == workspace_id
    if wanted.only_open:
        # Few messages are open: without naming the workspace SQLite begins with them, not with its whole log.
        is_open = (messages.c.target_id == workspace_id) & messages.c.status.in_(sorted(OPEN))
        mine = column.id.in_(select(messages.c.activity_id).where(is_open))
    optional: list[tuple[Any, Callable[[Any], ColumnElement[bool]]]] = [
        (wanted.activity_type, lambda asked: column.activity_type == asked),
        (wanted.peer_id, lambda asked: column.source_id == asked),
        (wanted.after_seq, lambda asked: column.seq > asked),
        (wanted.before, lambda asked: column.created_at < asked),
        (wanted.since, lambda asked: column.created_at >= asked),
        (wanted.source, lambda asked: column.source_id != "" if asked == "agent" else column.source_id == ""),
        (wanted.is_mail or None, lambda _: messages.c.id.is_not(None)),
    ]
    return [mine, *(condition(asked) for asked, condition in optional if asked is not None)]
