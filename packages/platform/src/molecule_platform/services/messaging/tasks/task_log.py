"""The log of a task: the one place where its events are numbered and kept.

Who speaks may be the agent (as it streams, or by its one answer) or the platform, which keeps a task for an
agent that has none of its own. Either way an event is on disk, with its number, before anybody sees it.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from molecule_platform.domain import results, task_folding
from molecule_platform.domain.messages import Message
from molecule_platform.domain.tasks import EventKind, Task, TaskEvent, TaskKey
from molecule_platform.ports.agents import ResponseTooLarge
from molecule_platform.ports.pages import PAGE_MAX_BYTES
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.messaging.webhooks import outbox
from molecule_platform.services.support import signals
from molecule_wire import jsontext, times
from molecule_wire.a2a import convert
from molecule_wire.a2a import tasks as machine

PAGE = 1000

_MEMBER_OF: dict[EventKind, str] = {
    "task": "task",
    "message": "message",
    "status": "statusUpdate",
    "artifact": "artifactUpdate",
}
_KIND_OF: dict[str, EventKind] = {member: kind for kind, member in _MEMBER_OF.items()}


class LeaseLost(Exception):
    """Somebody else reads this task now, or it is over: what was said no longer counts."""


def key_of(message: Message) -> TaskKey:
    """The task that a message belongs to, or would if it had one."""
    return TaskKey(message.target_id, message.tenant, message.task_id)


def task_of(tx: Transaction, message: Message) -> Task | None:
    """The task of a message; None while nobody was told of one."""
    return tx.tasks.get(key_of(message))


def append(
    tx: Transaction, key: TaskKey, reader: str | None, events: Sequence[TaskEvent], now: datetime
) -> Task:
    """Number the events, keep them, and let everyone know who follows the task. Raises `Fenced`."""
    task = tx.tasks.append(key, reader, events, now)
    if task is None:
        raise LeaseLost
    if task.watchers:
        outbox.enqueue(tx, task, task.last_seq - len(events) + 1, task.last_seq, now)
    tx.signal(signals.task(key))
    return task


def check_size(task: Task, max_bytes: int) -> None:
    """Raise `AnswerTooLong` if the artifacts of a running task are too large together."""
    if not task.is_over and task.artifact_bytes > max_bytes:
        raise ResponseTooLarge(f"the artifacts of one task are larger than {max_bytes} bytes together")


def folded(tx: Transaction, task: Task) -> dict[str, Any]:
    """The whole task, as 1.0: its snapshot if it is over, else folded from its log.

    It never fails: a task that could not be read could not be ended either. An event that makes no sense is
    left out.
    """
    return fold(task, events_after(tx, task.key, task.snapshot_seq))


def fold(task: Task, events: Iterable[TaskEvent]) -> dict[str, Any]:
    """Return the whole task, as 1.0, from its row and the events after its snapshot."""
    current: Any = None if task.snapshot is None else jsontext.decode(task.snapshot)
    current = task_folding.fold_all(current, readable(events))
    if current is None:
        status = status_of(task.state, task.status_at)
        return {"id": task.id, "contextId": task.context_id, "status": status}
    return current


def readable(events: Iterable[TaskEvent]) -> Iterator[Any]:
    """The events as 1.0 has them, without what nobody could read."""
    for event in events:
        with contextlib.suppress(jsontext.NotJSON):
            if isinstance(value := modern(event), dict):
                yield value


def events_after(tx: Transaction, key: TaskKey, after: int) -> Iterator[TaskEvent]:
    """Every event after a number, a page at a time."""
    is_full = True
    while is_full and (page := tx.tasks.events(key, after, PAGE)):
        yield from page
        after = page[-1].seq
        is_full = fills_page(page, PAGE)


def fills_page(page: Sequence[TaskEvent], limit: int, max_bytes: int = PAGE_MAX_BYTES) -> bool:
    """Return True if a page of events is full, so that more may follow."""
    return len(page) >= limit or sum([len(event.payload) for event in page]) >= max_bytes


def state_in(event: TaskEvent) -> str:
    """The task's state that an event tells, in the words of 0.3; empty when it tells none."""
    if event.state is not None:
        return event.state
    (body,) = modern(event).values()
    with contextlib.suppress(machine.EventRefused):
        return results.state_0_3(machine.state_of(body))
    return ""


def state_told_by(tx: Transaction, task: Task, message: Message) -> str | None:
    """Return the state that the events of a message showed last; None if they showed none."""
    event = tx.tasks.last_status(task.key, task.last_seq, message.id)
    return None if event is None else state_in(event) or None


def modern(event: TaskEvent) -> Any:
    """An event as a 1.0 stream response."""
    value = jsontext.decode(event.payload)
    return convert.FROM_0_3.event(value) if event.dialect == "0.3" and isinstance(value, dict) else value


# Making events


def event_of(kind: EventKind, body: dict[str, Any], message_id: str, state: str | None = None) -> TaskEvent:
    """An event with that body, in 1.0; `state` is the task's state that it tells."""
    payload = jsontext.encode({_MEMBER_OF[kind]: body})
    return TaskEvent(kind, payload, "1.0", message_id=message_id, state=state, begins=artifacts_begun(body))


def artifacts_begun(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids of the artifacts whose first chunk is in a 1.0 task or update."""
    chunk: Any = None if body.get("append") else body.get("artifact")
    listed: list[Any] = [chunk, *(body.get("artifacts") or ())]
    artifacts = [cast("dict[str, Any]", one) for one in listed if isinstance(one, dict)]
    return tuple(one["artifactId"] for one in artifacts if isinstance(one.get("artifactId"), str))


def event_from(event: dict[str, Any], message_id: str) -> TaskEvent:
    """A 1.0 stream response as an event to append."""
    ((member, body),) = event.items()
    kind = _KIND_OF[member]
    state = results.state_0_3(machine.state_of(body)) if kind in ("task", "status") else None
    return event_of(kind, body, message_id, state)


def status_event(
    task: Task, state: str, now: datetime, message_id: str, said: Any = None, metadata: Any = None
) -> TaskEvent:
    """A status update in the platform's words."""
    status = status_of(state, now)
    if said is not None:
        status["message"] = {**said, "taskId": task.id, "contextId": task.context_id}
    update: dict[str, Any] = {"taskId": task.id, "contextId": task.context_id, "status": status}
    if metadata:
        update["metadata"] = metadata
    return event_of("status", update, message_id, state)


def artifact_event(task: Task, artifact: dict[str, Any], message_id: str, **flags: bool) -> TaskEvent:
    """An artifact update; `flags` are `append` and `lastChunk`."""
    update: dict[str, Any] = {"taskId": task.id, "contextId": task.context_id, "artifact": artifact}
    update |= {name: True for name, given in flags.items() if given}
    return event_of("artifact", update, message_id)


def status_of(state: str, now: datetime) -> dict[str, Any]:
    """A 1.0 status without words."""
    return {"state": results.state_1_0(state), "timestamp": times.format_time(now)}
