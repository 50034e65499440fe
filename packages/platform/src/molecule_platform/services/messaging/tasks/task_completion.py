"""What the outcome of a message means for its task."""

from datetime import datetime
from typing import Any, cast

from molecule_platform.domain import results, task_ids, tasks
from molecule_platform.domain.messages import Message
from molecule_platform.domain.tasks import Task, TaskEvent, TaskKey
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.messaging.tasks import task_log
from molecule_platform.services.messaging.webhooks import outbox
from molecule_wire import jsontext
from molecule_wire.a2a import convert, differences
from molecule_wire.a2a import tasks as machine
from molecule_wire.a2a.operations import Dialect
from molecule_wire.a2a.tasks import EventRefused


def rewrite_ids(tx: Transaction, message: Message, result: bytes | None) -> bytes | None:
    """An answer under the ids that its sender knows: those of the platform's task, if there is one."""
    task = None if result is None else task_log.task_of(tx, message)
    if task is None or result is None:
        return result
    answered = _task_in(result, message.dialect)
    if answered is None or (answered["id"], answered.get("contextId")) == (task.id, task.context_id):
        return result
    again = task_ids.under(task, answered)
    return jsontext.encode({"task": again} if message.dialect == "1.0" else convert.TO_0_3.task(again))


def complete_task(tx: Transaction, message: Message, now: datetime, *, told: bool = False) -> None:
    """Write the events that bring a message's task to where the message ended, unless they were told."""
    task = task_log.task_of(tx, message)
    if task is None:
        if not told:
            _conclude_first(tx, message, now)
        return
    if not told and not task.is_over and task.message_id == message.id:
        if task.agent_task_id is None and message.agent_task_id is not None:
            # The sender knows the task by our name; the answer to a question must find it by the agent's.
            tx.tasks.change(task.key, agent_task_id=message.agent_task_id)
        closing = _closing(tx, task, message, now)
        task = task_log.append(tx, task.key, None, closing, now) if closing else task
    if task.is_over and not _is_kept(task):
        keep(tx, task, jsontext.encode(task_log.folded(tx, task)))
    elif task.state in tasks.INTERRUPTED:
        _follow(tx, task, now)


def whole(tx: Transaction, task: Task) -> bytes:
    """The whole task as 1.0 JSON; one that is over is put together only once."""
    if task.snapshot is not None and _is_kept(task):
        return task.snapshot
    snapshot = jsontext.encode(task_log.folded(tx, task))
    if task.is_over:
        keep(tx, task, snapshot)
    return snapshot


def keep(tx: Transaction, task: Task, snapshot: bytes) -> None:
    """Store a task that is over in one piece."""
    tx.tasks.change(task.key, snapshot=snapshot, snapshot_seq=task.last_seq, look_at=None, looks=0)


def _is_kept(task: Task) -> bool:
    return task.snapshot is not None and task.snapshot_seq == task.last_seq


def _conclude_first(tx: Transaction, message: Message, now: datetime) -> None:
    """An answer in one piece: a task of the agent's own. A bare message needs none and is its own event."""
    if message.status != "answered" or message.result is None:
        return
    answered = _task_in(message.result, message.dialect)
    dialect = cast("Dialect", message.dialect)
    if answered is None:
        return
    task = adopt_agent_task(tx, message, answered["id"], answered.get("contextId"), now)
    if task is None:
        return
    begins = task_log.artifacts_begun(answered)
    event = TaskEvent("task", message.result, dialect, 0, message.id, now, message.task_state, begins)
    task = task_log.append(tx, task.key, None, [event], now)
    if task.is_over:
        keep(tx, task, jsontext.encode(answered))
    else:
        _follow(tx, task, now)


def _follow(tx: Transaction, task: Task, now: datetime) -> None:
    """Ask the agent from now on about a task that waits for its caller."""
    tx.tasks.change(task.key, look_at=now if task.agent_task_id else None, looks=0)


def adopt_agent_task(
    tx: Transaction, message: Message, task_id: str, context_id: Any, now: datetime
) -> Task | None:
    """Make the agent's task known as the task of the message; None when that id is somebody else's."""
    key = TaskKey(message.target_id, message.tenant, task_id)
    context = context_id if isinstance(context_id, str) and context_id else message.context_id
    task = Task(
        workspace_id=key.workspace_id,
        tenant=key.tenant,
        id=key.id,
        org_id=message.org_id,
        owner=message.caller,
        context_id=context,
        message_id=message.id,
        state="submitted",
        status_at=now,
        created_at=now,
        is_agents=True,
        agent_task_id=task_id,
        watchers=outbox.moved(tx, task_log.key_of(message), key),
    )
    if not tx.tasks.insert(task):
        task = tx.tasks.get(key)
        if task is None or task.owner != message.caller or task.is_over:
            return None
        tx.tasks.change(key, message_id=message.id)
    tx.mailbox.belongs_to(message.id, task_id, task_id, task.context_id)
    return task


def _closing(tx: Transaction, task: Task, message: Message, now: datetime) -> list[TaskEvent]:
    state = results.task_state_of(message)
    if message.status != "answered":
        error = message.error or {"code": "internal", "message": "the message failed"}
        said = results.agent_message(f"{message.id}-error", [{"text": error["message"]}])
        return [task_log.status_event(task, state, now, message.id, said, {"code": error["code"]})]
    answered = _task_in(message.result, message.dialect)
    if answered is None:
        words = _modern(message.result, message.dialect).get("message")
        return [] if state == task.state else [task_log.status_event(task, state, now, message.id, words)]
    known = task_log.folded(tx, task)
    named = task_ids.under(task, answered)
    # This answer was told by no event, so a question is one more, be it the same as before.
    asks = machine.state_of(named) in machine.INTERRUPTED
    return [
        task_log.event_from(cast("dict[str, Any]", event), message.id)
        for event in differences.difference(known, named, again=asks)
    ]


def _task_in(result: bytes | None, dialect: str) -> dict[str, Any] | None:
    """The 1.0 task of an answer; None for a bare message, and for what is no task that can be told of."""
    task: Any = _modern(result, dialect).get("task")
    if not isinstance(task, dict) or not isinstance(cast("dict[str, Any]", task).get("id"), str):
        return None
    try:
        machine.state_of(cast("dict[str, Any]", task))
    except EventRefused:
        return None
    return cast("dict[str, Any]", task)


def _modern(result: bytes | None, dialect: str) -> dict[str, Any]:
    value = None if result is None else jsontext.decode(result)
    if not isinstance(value, dict):
        return {}
    return convert.FROM_0_3.event(value) if dialect == "0.3" else value
