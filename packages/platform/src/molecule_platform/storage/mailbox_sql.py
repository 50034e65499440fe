"""The statements of the mailbox, by name."""

from dataclasses import fields
from functools import cache
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Integer,
    ScalarSelect,
    Select,
    Text,
    Update,
    bindparam,
    case,
    func,
    insert,
    literal,
    or_,
    select,
    union_all,
    update,
)

from molecule_platform.domain.messages import CLASSES, Message, QueuedMessage
from molecule_platform.storage.message_tables import HAS_TASK, IS_DEAD, IS_UNFINISHED, MAY_REPEAT
from molecule_platform.storage.prepared import Prepared
from molecule_platform.storage.tables import activity_logs, message_transitions, messages

column = messages.c

COLUMNS = [field.name for field in fields(Message)]
_ALL = [column[name] for name in COLUMNS]
WITHOUT_BODY = [
    literal(b"", column.body.type).label("body") if name == "body" else column[name] for name in COLUMNS
]
WITHOUT_CONTENT = [
    literal(b"", one.type).label(one.name) if one.name in ("body", "result") else one for one in _ALL
]
_WAITING = [column[field.name] for field in fields(QueuedMessage)]
_IS_OPEN = or_(column.status == "accepted", column.status == "leased")
_TARGET = column.target_id == bindparam("target")
_ID = column.id == bindparam("message_id")
_HELD = (column.status == "leased") & (column.lease_epoch == bindparam("epoch"))
_NO_LEASE: dict[str, Any] = {
    "lease_kind": None,
    "lease_owner": None,
    "lease_token_hash": None,
    "lease_expires_at": None,
    "worker": None,
    "deadline_at": column.waits_until,
}


# Asked for every message that a workspace sends: the few it holds are found by the index of its queue.
IN_WORK = Prepared(
    select(column.id, column.delegation)
    .where(_TARGET, column.status == "leased", column.deadline_at > bindparam("now"))
    .order_by(column.seq),
    [column.id, column.delegation],
)


def _newest(*conditions: ColumnElement[bool]) -> Prepared:
    return Prepared(select(*_ALL).where(*conditions).order_by(column.seq.desc()).limit(1), _ALL)


def _messages(wanted: Select[*tuple[Any, ...]]) -> Prepared:
    return Prepared(wanted, _ALL)


def _changing(statement: Update) -> Prepared:
    return Prepared(statement.returning(*_ALL), _ALL)


def _how_many(status: str, *more: ColumnElement[bool]) -> ScalarSelect[int]:
    counted = select(func.count()).select_from(messages)
    return counted.where(_TARGET, column.status == status, *more).scalar_subquery()


@cache
def marking(names: tuple[str, ...]) -> Prepared:
    """Sets these columns of one message."""
    values = {name: bindparam(name, type_=column[name].type) for name in names}
    return Prepared(update(messages).where(_ID).values(values))


GET = _newest(_ID)
BY_ACTIVITY = _newest(
    column.id
    == select(activity_logs.c.message_id).where(activity_logs.c.id == bindparam("activity")).scalar_subquery()
)
BY_KEY = _newest(column.caller == bindparam("sender"), _TARGET, column.idempotency_key == bindparam("key"))
# The newest, but not by its number: that would lead SQLite through all that the sender ever sent.
BY_REFERENCE = _messages(
    select(*_ALL)
    .where(
        column.caller == bindparam("sender"),
        _TARGET,
        column.message_ref == bindparam("reference"),
        column.body_hash == bindparam("hash"),
        MAY_REPEAT,
        column.created_at >= bindparam("since"),
    )
    .order_by(column.created_at.desc(), column.id.desc())
    .limit(1)
)
# Each name is looked for by itself: SQLite would go through all messages of the target rather than join them.
BY_TASK = _newest(
    column.id.in_(
        union_all(
            select(column.id).where(_ID, column.task_id == column.id, _TARGET),
            select(column.id).where(column.task_id == bindparam("message_id"), HAS_TASK, _TARGET),
            select(column.id).where(column.agent_task_id == bindparam("message_id"), _TARGET),
        )
    )
)

IS_HELD = Prepared(select(column.id).where(_ID, _HELD), [column.id])
STATUS = Prepared(select(column.status).where(_ID))
OPEN_COUNT = Prepared(select(func.count()).select_from(messages).where(_TARGET, _IS_OPEN))
LOAD = Prepared(
    select(_how_many("accepted"), _how_many("leased")),
    [Column("accepted", Integer), Column("leased", Integer)],
)
COUNTS = Prepared(
    select(
        _how_many("accepted"),
        _how_many("leased"),
        _how_many("failed", IS_DEAD),
    ),
    [Column("accepted", Integer), Column("leased", Integer), Column("dead", Integer)],
)
_SIZE = func.coalesce(func.sum(func.length(column.body)), 0)
USAGE = Prepared(
    select(column.caller, func.count().label("count"), _SIZE.label("size"))
    .where(_TARGET, _IS_OPEN)
    .group_by(column.caller),
    [column.caller, Column("count", Integer), Column("size", Integer)],
)
OPEN_BYTES = Prepared(
    select(_SIZE).select_from(messages).where(_IS_OPEN, IS_UNFINISHED, column.org_id == bindparam("org"))
)
ALL_OPEN = Prepared(
    select(func.count()).select_from(messages).where(column.status == bindparam("status"), IS_UNFINISHED)
)
ANY_ACCEPTED = Prepared(select(column.id).where(_TARGET, column.status == "accepted").limit(1), [column.id])
CONTEXT = Prepared(
    select(column.id).where(_TARGET, _IS_OPEN, column.context_id == bindparam("context")).limit(1),
    [column.id],
)
WAITING = Prepared(select(*_WAITING).where(_TARGET, _IS_OPEN).order_by(column.seq), _WAITING)
LEASED = Prepared(select(*_WAITING).where(_TARGET, column.status == "leased"), _WAITING)
# The order of `messages.in_order`.
_RAISED = case(*((column.priority < one, one) for one in CLASSES), else_=column.priority)
_RANK = case((column.created_at <= bindparam("raised"), _RAISED), else_=column.priority)
FIRST = Prepared(
    select(*_WAITING)
    .where(_TARGET, column.status == "accepted")
    .order_by(_RANK.desc(), column.seq)
    .limit(bindparam("most")),
    _WAITING,
)
OVERDUE = _messages(
    select(*WITHOUT_BODY)
    .where(_IS_OPEN, IS_UNFINISHED, column.deadline_at <= bindparam("now"))
    .limit(bindparam("most"))
)
LAPSED = _messages(
    select(*WITHOUT_BODY)
    .where(
        column.status == "leased",
        IS_UNFINISHED,
        column.lease_kind == "inbox",
        column.lease_expires_at <= bindparam("now"),
    )
    .limit(bindparam("most"))
)

# What only the way of a message makes of it.
_LATER = {
    *("agent_task_id", "error", "finished_at", "lease_expires_at", "lease_token_hash", "not_before"),
    *("releases", "reply_hash", "result", "seen_at", "worker"),
}
INSERT = Prepared(insert(messages), names=[name for name in COLUMNS if name not in _LATER])
RECORD = Prepared(insert(message_transitions), names=[c.name for c in message_transitions.c])

LEASE = _changing(
    update(messages)
    .where(_ID, column.status == "accepted")
    .values(
        status="leased",
        lease_epoch=column.lease_epoch + 1,
        attempts=column.attempts + 1,
        lease_kind=bindparam("kind_of_lease"),
        lease_owner=bindparam("owner"),
        lease_token_hash=bindparam("token_hash"),
        lease_expires_at=bindparam("expires_at"),
        worker=bindparam("by_worker"),
        leased_at=bindparam("at"),
        deadline_at=bindparam("deadline"),
        not_before=None,
    )
)
EXTEND = _changing(update(messages).where(_ID, _HELD).values(lease_expires_at=bindparam("expires_at")))
_RELEASED: dict[str, Any] = {"status": "accepted", "attempts": column.attempts - 1, **_NO_LEASE}
RELEASE = _changing(update(messages).where(_ID, _HELD).values(_RELEASED))
GIVE_BACK = _changing(
    update(messages)
    .where(_ID, _HELD)
    .values({**_RELEASED, "releases": column.releases + 1, "not_before": bindparam("again_at")})
)
RETRY = _changing(
    update(messages)
    .where(_ID, _HELD)
    .values(status="accepted", not_before=bindparam("again_at"), error=bindparam("problem"), **_NO_LEASE)
)
REDELIVER = _changing(
    update(messages)
    .where(_ID, column.status == "failed", IS_DEAD)
    .values(
        {
            **dict.fromkeys(
                ("lease_kind", "lease_owner", "lease_token_hash", "lease_expires_at", "worker", "leased_at"),
                None,
            ),
            **dict.fromkeys(
                ("result", "error", "task_state", "agent_task_id", "not_before", "seen_at", "finished_at"),
                None,
            ),
            "status": "accepted",
            "attempts": 0,
            "releases": 0,
            "task_id": bindparam("task"),
            "dead_letter": False,
            "cancel_requested": False,
            "deadline_at": bindparam("until"),
            "waits_until": bindparam("until"),
        }
    )
)
_OUTCOME: dict[str, Any] = {
    "status": bindparam("new_status"),
    "result": bindparam("content"),
    "task_state": bindparam("state"),
    "agent_task_id": func.coalesce(bindparam("agent_task", type_=Text), column.agent_task_id),
    "error": bindparam("problem"),
    "dead_letter": bindparam("is_dead"),
    "finished_at": bindparam("at"),
    "lease_expires_at": None,
}
SETTLE = _changing(update(messages).where(_ID, _IS_OPEN).values(_OUTCOME))
SETTLE_HELD = _changing(update(messages).where(_ID, _HELD).values(_OUTCOME))
# The answer of an agent to a message of whose task nobody has heard, and which is nobody's delegation.
ANSWER = Prepared(
    update(messages)
    .where(
        _ID, _HELD, column.task_state.is_(None), column.task_id == column.id, column.delegation_id.is_(None)
    )
    .values(
        status="answered",
        result=bindparam("content"),
        task_state="completed",
        error=None,
        finished_at=bindparam("at"),
        lease_expires_at=None,
    )
)
SHOW_TASK = Prepared(update(messages).where(_ID, column.task_state.is_(None)).values(task_state="submitted"))
HOLD = Prepared(
    update(messages).where(_ID).values(held_by=bindparam("holder"), held_until=bindparam("until"))
)
END_HOLD = Prepared(
    update(messages).where(_ID, column.held_by == bindparam("holder")).values(held_by=None, held_until=None)
)
