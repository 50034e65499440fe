"""Lists of messages: each page is a few short index scans, however long the mailbox is."""

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select, union_all

from molecule_platform.domain import inbox as inbox_rules
from molecule_platform.domain import principals
from molecule_platform.domain.messages import OPEN, STATUSES, Message
from molecule_platform.ports.mailbox import InboxFilter, MailFilter
from molecule_platform.storage import mailbox_sql as sql
from molecule_platform.storage.message_tables import IS_DEAD
from molecule_platform.storage.page_sizes import fitting
from molecule_platform.storage.tables import messages


def inbox(
    connection: Connection, target_id: str, limit: int, wanted: InboxFilter
) -> Sequence[Mapping[Any, Any]]:
    """The first items of an inbox that fit into one page, all columns."""
    column = messages.c
    conditions = [column.target_id == target_id, *_given(kind=wanted.kind, caller=wanted.caller)]
    conditions += _given(context_id=wanted.context_id)
    if wanted.status == "dead":
        conditions += [column.status == "failed", IS_DEAD]
        order = [column.seq.desc()]
    else:
        conditions.append(column.status.in_(sorted(OPEN)))
        order = [column.priority.desc(), column.seq.asc()]
    sized = select(column.id, func.length(column.body).label("size")).where(*conditions)
    rows = connection.execute(sized.order_by(*order).limit(limit)).all()
    shown = [row.id for row in rows[: fitting(row.size for row in rows)]]
    every = select(*(column[name] for name in sql.COLUMNS)).where(column.id.in_(shown)).order_by(*order)
    return connection.execute(every).mappings().all()


def page(connection: Connection, wanted: MailFilter, limit: int) -> tuple[Sequence[Mapping[Any, Any]], bool]:
    """The newest messages that fit into one page, and whether there are more."""
    scans = [_newest(conditions, limit + 1) for conditions in _ranges(wanted)]
    found = union_all(*(select(scan.subquery()) for scan in scans)).subquery()
    newest = select(found.c.id, found.c.seq, found.c.size).distinct().order_by(found.c.seq.desc())
    rows = connection.execute(newest.limit(limit + 1)).all()
    shown = [row.id for row in rows[: min(fitting(row.size for row in rows), limit)]]
    every = select(*sql.WITHOUT_BODY).where(messages.c.id.in_(shown)).order_by(messages.c.seq.desc())
    return connection.execute(every).mappings().all(), len(rows) > len(shown)


def conversation(
    connection: Connection, message: Message, kinds: Collection[str], limit: int, most_bytes: int
) -> Sequence[Mapping[Any, Any]]:
    """The newest messages before this one, of its context and between the same two sides, oldest first."""
    column, sides = messages.c, [(message.caller, message.target_id)]
    if (peer := inbox_rules.peer_of(message.caller)) and peer != message.target_id:
        sides.append((_caller(message.target_id), peer))
    size = (func.length(column.body) + func.coalesce(func.length(column.result), 0)).label("size")
    scans = [
        select(column.id, column.seq, size)
        .where(
            column.target_id == target,
            column.context_id == message.context_id,
            column.caller == caller,
            column.seq < message.seq,
            column.kind.in_(kinds),
        )
        .order_by(column.seq.desc())
        .limit(limit)
        for caller, target in sides
    ]
    found = union_all(*(select(scan.subquery()) for scan in scans)).subquery()
    newest = select(found.c.id, found.c.size).order_by(found.c.seq.desc()).limit(limit)
    rows = connection.execute(newest).all()
    weights = accumulate(row.size for row in rows)
    shown = [row.id for row, weight in zip(rows, weights, strict=True) if weight <= most_bytes]
    every = select(*(column[name] for name in sql.COLUMNS)).where(column.id.in_(shown))
    return connection.execute(every.order_by(column.seq)).mappings().all()


def _newest(conditions: Sequence[ColumnElement[bool]], limit: int) -> Select[*tuple[Any, ...]]:
    size = func.coalesce(func.length(messages.c.result), 0).label("size")
    chosen = select(messages.c.id, messages.c.seq, size).where(*conditions)
    return chosen.order_by(messages.c.seq.desc()).limit(limit)


def _ranges(wanted: MailFilter) -> list[list[ColumnElement[bool]]]:
    """Conditions that each begin with a whole prefix of an index."""
    column = messages.c
    more = _filters(wanted)
    statuses = sorted(wanted.statuses or STATUSES)
    ranges: list[list[ColumnElement[bool]]] = []
    if wanted.direction != "out":
        peer = _given(caller=None if wanted.peer_id is None else _caller(wanted.peer_id))
        received = column.target_id == wanted.workspace_id
        ranges += [[received, column.status == status, *peer, *more] for status in statuses]
    if wanted.direction != "in":
        sent = [column.caller == _caller(wanted.workspace_id), column.status.in_(statuses)]
        ranges.append([*sent, *_given(target_id=wanted.peer_id), *more])
    return ranges


def _filters(wanted: MailFilter) -> list[ColumnElement[bool]]:
    column = messages.c
    conditions = _given(context_id=wanted.context_id, delegation_id=wanted.delegation_id)
    if wanted.since is not None:
        conditions.append(column.created_at >= wanted.since)
    if wanted.before_seq is not None:
        conditions.append(column.seq < wanted.before_seq)
    return conditions


def _given(**values: str | None) -> list[ColumnElement[bool]]:
    return [messages.c[name] == value for name, value in values.items() if value is not None]


def _caller(workspace_id: str) -> str:
    return principals.workspace_principal(workspace_id)
