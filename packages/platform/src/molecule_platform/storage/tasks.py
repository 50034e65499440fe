"""Tasks and their events in SQL."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import fields
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Text,
    and_,
    bindparam,
    case,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from molecule_platform.domain.tasks import INTERRUPTED, TERMINAL, Task, TaskEvent, TaskKey
from molecule_platform.ports.pages import PAGE_MAX_BYTES
from molecule_platform.ports.tasks import TaskFilter
from molecule_platform.storage.page_sizes import fitting
from molecule_platform.storage.prepared import Prepared
from molecule_platform.storage.tables import message_events, messages, task_artifacts, tasks

_COLUMNS = [field.name for field in fields(Task)]
_ALL = [tasks.c[name] for name in _COLUMNS]
_EVENT = [
    message_events.c[name] for name in ("kind", "payload", "dialect", "seq", "message_id", "created_at")
]
_ENDED = sorted(TERMINAL)

_THIS = and_(
    tasks.c.workspace_id == bindparam("of_workspace"),
    tasks.c.tenant == bindparam("of_tenant"),
    tasks.c.id == bindparam("task"),
)
_OF_THIS = and_(
    message_events.c.task_id == bindparam("task"),
    message_events.c.workspace_id == bindparam("of_workspace"),
    message_events.c.tenant == bindparam("of_tenant"),
)
# A Task that an agent shows holds the artifacts again, of which some are counted already.
_AT_LEAST_WHOLE = case(
    (tasks.c.artifact_bytes < bindparam("whole", type_=BigInteger), bindparam("shown", type_=BigInteger)),
    else_=tasks.c.artifact_bytes,
)
_GET = Prepared(select(*_ALL).where(_THIS), _ALL)
_APPEND = Prepared(
    update(tasks)
    .where(
        _THIS,
        tasks.c.finished_at.is_(None),
        or_(bindparam("by", type_=Text).is_(None), tasks.c.reader == bindparam("by_same", type_=Text)),
    )
    .values(
        last_seq=tasks.c.last_seq + bindparam("many"),
        state=func.coalesce(bindparam("new_state", type_=Text), tasks.c.state),
        status_at=func.coalesce(bindparam("new_status_at", type_=tasks.c.status_at.type), tasks.c.status_at),
        finished_at=bindparam("ended_at", type_=tasks.c.finished_at.type),
        artifact_bytes=_AT_LEAST_WHOLE + bindparam("added", type_=BigInteger),
    )
    .returning(*_ALL),
    _ALL,
)
_KEEP = Prepared(insert(message_events), names=[column.name for column in message_events.c])
_LENGTH = func.length(message_events.c.payload)
_SIZES = (
    select(
        message_events.c.seq.label("seq"),
        _LENGTH.label("own"),
        func.sum(_LENGTH).over(order_by=message_events.c.seq).label("total"),
    )
    .where(_OF_THIS, message_events.c.seq > bindparam("after"))
    .order_by(message_events.c.seq)
    .limit(bindparam("most"))
    .subquery()
)
# The last event of a page is the one with which it is full. Sizes are known without reading the payloads.
_PAGE_END = (
    select(func.max(_SIZES.c.seq))
    .where(_SIZES.c.total - _SIZES.c.own < bindparam("max_bytes", type_=BigInteger))
    .scalar_subquery()
)
_EVENTS = Prepared(
    select(*_EVENT)
    .where(_OF_THIS, message_events.c.seq > bindparam("after"), message_events.c.seq <= _PAGE_END)
    .order_by(message_events.c.seq),
    _EVENT,
)
_LAST_STATUS = Prepared(
    select(*_EVENT)
    .where(
        _OF_THIS,
        message_events.c.seq <= bindparam("most_seq"),
        message_events.c.kind.in_([literal_column("'task'"), literal_column("'status'")]),
        or_(
            bindparam("message", type_=Text).is_(None),
            message_events.c.message_id == bindparam("same_message", type_=Text),
        ),
    )
    .order_by(message_events.c.seq.desc())
    .limit(1),
    _EVENT,
)
_ARTIFACT_COLUMNS = [column.name for column in task_artifacts.c]
_BEGIN_ARTIFACT = {
    dialect.dialect.name: Prepared(
        dialect.insert(task_artifacts).on_conflict_do_nothing(), names=_ARTIFACT_COLUMNS
    )
    for dialect in (sqlite, postgresql)
}
_HAS_ARTIFACT = Prepared(
    select(task_artifacts.c.task_id).where(
        *(task_artifacts.c[name] == bindparam(f"of_{name}") for name in _ARTIFACT_COLUMNS)
    ),
    [task_artifacts.c.task_id],
)
_FIRST_OF = [message_events.c[name] for name in ("workspace_id", "tenant", "task_id", "seq")]
_FIRST = Prepared(
    select(*_FIRST_OF)
    .where(message_events.c.message_id == bindparam("message"))
    .order_by(message_events.c.seq)
    .limit(1),
    _FIRST_OF,
)
_TARGET_OF = [messages.c.target_id, messages.c.tenant]
_TARGET = Prepared(select(*_TARGET_OF).where(messages.c.id == bindparam("message")), _TARGET_OF)
_ANSWER = [messages.c.result, messages.c.dialect, messages.c.finished_at]
_BARE = Prepared(
    select(*_ANSWER).where(
        messages.c.id == bindparam("task"),
        messages.c.target_id == bindparam("of_workspace"),
        messages.c.tenant == bindparam("of_tenant"),
        messages.c.status == "answered",
        messages.c.result.is_not(None),
        messages.c.task_id == messages.c.id,
    ),
    _ANSWER,
)
_INSERT = {
    dialect.dialect.name: Prepared(dialect.insert(tasks).on_conflict_do_nothing(), names=_COLUMNS)
    for dialect in (sqlite, postgresql)
}


@cache
def _changing(names: tuple[str, ...]) -> Prepared:
    values = {name: bindparam(name, type_=tasks.c[name].type) for name in names}
    return Prepared(update(tasks).where(_THIS).values(values))


class SqlTasks:
    """See `ports.tasks.Tasks`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, key: TaskKey) -> Task | None:
        """The task with that key."""
        row = _GET.first(self._connection, _of(key))
        return None if row is None else Task(**row)

    def named(self, workspace_id: str, tenant: str, name: str) -> Task | None:
        """The task of that id, or of that id at the agent, or of the message with that id."""
        found = self.get(TaskKey(workspace_id, tenant, name))
        if found is not None:
            return found
        here = (tasks.c.workspace_id == workspace_id) & (tasks.c.tenant == tenant)
        row = (
            self._connection.execute(select(*_ALL).where(here, tasks.c.agent_task_id == name).limit(1))
            .mappings()
            .first()
        )
        if row is not None:
            return Task(**row)
        of_message = select(messages.c.task_id).where(
            messages.c.id == name, messages.c.target_id == workspace_id, messages.c.tenant == tenant
        )
        task_id = self._connection.execute(of_message).scalar_one_or_none()
        return None if task_id in (None, name) else self.get(TaskKey(workspace_id, tenant, task_id))

    def insert(self, task: Task) -> bool:
        """Keep a new task."""
        return _INSERT[self._connection.dialect.name].count(self._connection, vars(task)) == 1

    def append(
        self, key: TaskKey, reader: str | None, events: Sequence[TaskEvent], at: datetime
    ) -> Task | None:
        """Number the events and keep them."""
        told = [event.state for event in events if event.state is not None]
        state = told[-1] if told else None
        row = _APPEND.first(
            self._connection,
            {
                **_of(key),
                "by": reader,
                "by_same": reader,
                "many": len(events),
                "new_state": state,
                "new_status_at": at if told else None,
                "ended_at": at if state in TERMINAL else None,
                **_artifact_sizes(events),
            },
        )
        if row is None:
            return None
        task = Task(**row)
        numbered = (
            event.numbered(place, event.message_id or task.message_id, at)
            for place, event in enumerate(events, task.last_seq - len(events) + 1)
        )
        _KEEP.run_all(self._connection, (_row(key, task.org_id, event) for event in numbered))
        self._begin_artifacts(key, events)
        return task

    def _begin_artifacts(self, key: TaskKey, events: Sequence[TaskEvent]) -> None:
        begun = {artifact_id for event in events for artifact_id in event.begins}
        for artifact_id in sorted(begun):
            row = dict(zip(_ARTIFACT_COLUMNS, _artifact_key(key, artifact_id), strict=True))
            _BEGIN_ARTIFACT[self._connection.dialect.name].run(self._connection, row)

    def has_artifacts(self, key: TaskKey, artifact_ids: Collection[str]) -> bool:
        """Return True if the task's log holds the first chunk of each of these artifacts."""
        names = [f"of_{name}" for name in _ARTIFACT_COLUMNS]
        return all(
            _HAS_ARTIFACT.first(self._connection, dict(zip(names, _artifact_key(key, one), strict=True)))
            for one in artifact_ids
        )

    def note(self, key: TaskKey, org_id: str, event: TaskEvent) -> None:
        """Keep an event that belongs to no task, unless it was kept before a crash."""
        if (
            _EVENTS.first(self._connection, {**_of(key), "after": event.seq - 1, "most": 1, "max_bytes": 1})
            is None
        ):
            _KEEP.run(self._connection, _row(key, org_id, event))

    def change(self, key: TaskKey, **values: Any) -> None:
        """Set columns of a task."""
        _changing(tuple(values)).run(self._connection, {**_of(key), **values})

    def events(
        self, key: TaskKey, after: int, limit: int, max_bytes: int = PAGE_MAX_BYTES
    ) -> list[TaskEvent]:
        """Events after a number, in order."""
        wanted = {"after": after, "most": limit, "max_bytes": max_bytes}
        found = _EVENTS.rows(self._connection, {**_of(key), **wanted})
        if not found and after < 1 <= limit:
            return self._bare_answer(key)
        return [TaskEvent(**row) for row in found]

    def last_status(self, key: TaskKey, most_seq: int, message_id: str | None = None) -> TaskEvent | None:
        """Return the newest event up to a number that shows a state, if given only one of that message."""
        wanted = {"most_seq": most_seq, "message": message_id, "same_message": message_id}
        row = _LAST_STATUS.first(self._connection, {**_of(key), **wanted})
        return None if row is None else TaskEvent(**row)

    def _bare_answer(self, key: TaskKey) -> list[TaskEvent]:
        """The one event of a message that was answered without a task: the answer itself."""
        row = _BARE.first(self._connection, _of(key))
        if row is None or self.get(key) is not None:
            return []
        return [TaskEvent("message", row["result"], row["dialect"], 1, key.id, row["finished_at"])]

    def first_of(self, message_id: str) -> tuple[TaskKey, int] | None:
        """Where the events of a message begin."""
        row = _FIRST.first(self._connection, {"message": message_id})
        if row is not None:
            return TaskKey(row["workspace_id"], row["tenant"], row["task_id"]), row["seq"]
        found = _TARGET.first(self._connection, {"message": message_id})
        key = None if found is None else TaskKey(found["target_id"], found["tenant"], message_id)
        return (key, 1) if key is not None and self._bare_answer(key) else None

    def newest(self, keys: Collection[TaskKey]) -> dict[TaskKey, int]:
        """The number of the newest event of each."""
        asked = set(keys)
        wanted = select(tasks.c.workspace_id, tasks.c.tenant, tasks.c.id, tasks.c.last_seq)
        rows = self._connection.execute(wanted.where(tasks.c.id.in_([key.id for key in asked])))
        found = {TaskKey(row.workspace_id, row.tenant, row.id): row.last_seq for row in rows}
        return {key: seq for key, seq in found.items() if key in asked}

    def oldest_seq(self, key: TaskKey) -> int | None:
        """The first number still kept."""
        column = message_events.c
        mine = (column.task_id == key.id) & (column.workspace_id == key.workspace_id)
        oldest = select(func.min(column.seq)).where(mine, column.tenant == key.tenant)
        return self._connection.execute(oldest).scalar_one_or_none()

    def page(self, wanted: TaskFilter, limit: int) -> tuple[list[Task], bool]:
        """Tasks, the newest status first, and whether there are more."""
        conditions = _conditions(wanted)
        if wanted.before is not None:
            at, task_id = wanted.before
            same = (tasks.c.status_at == at) & (tasks.c.id < task_id)
            conditions.append(or_(tasks.c.status_at < at, same))
        order = tasks.c.status_at.desc(), tasks.c.id.desc()
        size = func.coalesce(func.length(tasks.c.snapshot), tasks.c.artifact_bytes).label("size")
        rows = self._connection.execute(
            select(size).where(*conditions).order_by(*order).limit(limit + 1)
        ).all()
        shown = min(fitting(row.size for row in rows), limit)
        found = self._tasks(select(*_ALL).where(*conditions).order_by(*order).limit(shown))
        return found, len(rows) > shown

    def count(self, wanted: TaskFilter) -> int:
        """How many there are on all pages."""
        counted = select(func.count()).select_from(tasks).where(*_conditions(wanted))
        return self._connection.execute(counted).scalar_one()

    def due(self, now: datetime, limit: int) -> list[Task]:
        """Tasks whose agent is to be asked how they do."""
        wanted = select(*_ALL).where(tasks.c.look_at <= now, tasks.c.state.not_in(_ENDED))
        return self._tasks(wanted.order_by(tasks.c.look_at).limit(limit))

    def abandoned(self, before: datetime, limit: int) -> list[Task]:
        """Tasks that have waited for a next message since before that time."""
        waits = tasks.c.state.in_(sorted(INTERRUPTED)) & tasks.c.finished_at.is_(None)
        return self._tasks(select(*_ALL).where(waits, tasks.c.status_at < before).limit(limit))

    def _tasks(self, wanted: Any) -> list[Task]:
        return [Task(**row) for row in self._connection.execute(wanted).mappings()]


def _of(key: TaskKey) -> dict[str, Any]:
    return {"of_workspace": key.workspace_id, "of_tenant": key.tenant, "task": key.id}


def _artifact_sizes(events: Sequence[TaskEvent]) -> dict[str, int]:
    shown = [event for event in events if event.kind == "task" and event.begins]
    whole = max([len(event.payload) for event in shown], default=0)
    added = sum([len(event.payload) for event in events if event.kind == "artifact"])
    return {"whole": whole, "shown": whole, "added": added}


def _artifact_key(key: TaskKey, artifact_id: str) -> tuple[str, str, str, str]:
    """The values of `task_artifacts` in the order of its columns."""
    name = hashlib.blake2b(artifact_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return key.workspace_id, key.tenant, key.id, name


def _row(key: TaskKey, org_id: str, event: TaskEvent) -> dict[str, Any]:
    return {
        "task_id": key.id,
        "seq": event.seq,
        "workspace_id": key.workspace_id,
        "tenant": key.tenant,
        "org_id": org_id,
        "message_id": event.message_id,
        "kind": event.kind,
        "dialect": event.dialect,
        "payload": event.payload,
        "created_at": event.created_at,
    }


def _conditions(wanted: TaskFilter) -> list[ColumnElement[bool]]:
    column = tasks.c
    conditions = [column.workspace_id == wanted.workspace_id, column.tenant == wanted.tenant]
    if wanted.owner is not None:
        conditions.append(column.owner == wanted.owner)
    if wanted.context_id is not None:
        conditions.append(column.context_id == wanted.context_id)
    if wanted.states:
        conditions.append(column.state.in_(sorted(wanted.states)))
    if wanted.status_after is not None:
        conditions.append(column.status_at > wanted.status_after)
    return conditions
