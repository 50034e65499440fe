"""Task states, and how events become a task. Tasks, messages and events are plain 1.0 objects.

A stream is either one Message or a Task followed by its updates. Whatever breaks that order raises
`EventRefused` with a named reason; the engine that folds then ends the task as FAILED.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Literal, TypeAlias

from molecule_wire import JSON, JSONObject
from molecule_wire.a2a import errors


class TaskState(StrEnum):
    """The states of a task as 1.0 writes them; UNSPECIFIED is read, never made."""

    UNSPECIFIED = "TASK_STATE_UNSPECIFIED"
    SUBMITTED = "TASK_STATE_SUBMITTED"
    WORKING = "TASK_STATE_WORKING"
    INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
    AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"
    COMPLETED = "TASK_STATE_COMPLETED"
    FAILED = "TASK_STATE_FAILED"
    CANCELED = "TASK_STATE_CANCELED"
    REJECTED = "TASK_STATE_REJECTED"


INTERRUPTED = frozenset({TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED})
TERMINAL = frozenset({TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED})
STATES = frozenset(TaskState) - {TaskState.UNSPECIFIED}
_BY_VALUE = {state.value: state for state in STATES}

TRANSITIONS: Mapping[TaskState, frozenset[TaskState]] = MappingProxyType(
    {state: frozenset[TaskState]() if state in TERMINAL else STATES for state in TaskState}
)
"""Where a task may go from each state: from a terminal one nowhere, from any other everywhere."""

RefusalReason: TypeAlias = Literal[
    "malformed-event",
    "unknown-state",
    "task-missing",
    "foreign-task",
    "foreign-context",
    "message-after-task",
    "second-message",
    "event-after-message",
    "event-after-terminal",
    "append-to-unknown-artifact",
]


class EventRefused(errors.A2AError):
    """An agent broke the order of events: the task must end as FAILED and name this reason."""

    def __init__(self, event_reason: RefusalReason, sentence: str) -> None:
        kind = errors.INVALID_AGENT_RESPONSE
        super().__init__(kind.code, sentence, reason=kind.reason, metadata={"event_reason": event_reason})
        self.event_reason: RefusalReason = event_reason

    @property
    def sentence(self) -> str:
        """What the agent did wrong, with the reason by its name."""
        return f"the agent broke the protocol ({self.event_reason}): {self.message}"


def state_of(task: JSONObject) -> TaskState:
    """The state of a task or status update; raises EventRefused for one that A2A does not know."""
    status = task.get("status")
    state = status.get("state") if isinstance(status, dict) else None
    known = _BY_VALUE.get(state) if isinstance(state, str) else None
    if known is None:
        raise EventRefused("unknown-state", f"{str(state)[:64]!r} is no task state")
    return known


def is_settled(task: JSONObject) -> bool:
    """Whether a blocking send ends here: the task is terminal or waits for its caller."""
    return state_of(task) in TERMINAL | INTERRUPTED


def fold(current: JSONObject | None, event: JSONObject) -> JSONObject:
    """Apply one 1.0 stream response; returns the new Task, or the Message of a stream that is only one.

    Nothing given is changed. `current` is what the last call returned, None before the first event.
    """
    name, body = _only_member(event)
    if current is not None:
        _refuse_after_the_end(current, name)
    if name == "message":
        return body
    if name == "task":
        return _with_snapshot(current, body)
    if current is None:
        raise EventRefused("task-missing", f"{name} came before its Task")
    _check_belongs(current, body)
    return _UPDATES[name](current, body)


def begun(task_id: str, context_id: str | None, message: JSONObject, status: JSONObject) -> JSONObject:
    """The task with which a message begins."""
    said: JSONObject = {**message, "taskId": task_id, "contextId": context_id}
    return {"id": task_id, "contextId": context_id, "status": status, "history": [said]}


def continued(task: JSONObject, message: JSONObject, status: JSONObject) -> JSONObject:
    """The task with one more message, after what the agent had asked: only a whole Task can tell that."""
    asked = task["status"].get("message") if isinstance(task["status"], dict) else None
    said: JSONObject = {**message, "taskId": task["id"], "contextId": task.get("contextId")}
    history: list[JSON] = [*_items(task, "history"), *([asked] if asked else []), said]
    return {**task, "status": status, "history": history}


_MEMBERS = ("task", "message", "statusUpdate", "artifactUpdate")


def _only_member(event: JSONObject) -> tuple[str, JSONObject]:
    if len(event) == 1:
        ((name, body),) = event.items()
        if name in _MEMBERS and isinstance(body, dict):
            return name, body
    present = [name for name in _MEMBERS if name in event]
    body = event[present[0]] if len(present) == 1 else None
    if not isinstance(body, dict):
        raise EventRefused(
            "malformed-event", "an event holds exactly one of task, message, statusUpdate and artifactUpdate"
        )
    return present[0], body


def _refuse_after_the_end(current: JSONObject, name: str) -> None:
    if "status" not in current:
        if name == "message":
            raise EventRefused("second-message", "a stream holds one Message and nothing after it")
        raise EventRefused("event-after-message", f"{name} came after the Message that ends a stream")
    if name == "message":
        raise EventRefused("message-after-task", "a stream that began with a Task holds no bare Message")
    if not TRANSITIONS[state_of(current)]:
        raise EventRefused("event-after-terminal", f"{name} came after the task had ended")


def _with_snapshot(current: JSONObject | None, task: JSONObject) -> JSONObject:
    if not isinstance(task.get("id"), str) or not task["id"]:
        raise EventRefused("malformed-event", "a Task needs an id")
    state_of(task)
    if current is None:
        return task
    _check_belongs(current, {"taskId": task["id"], "contextId": task.get("contextId")})
    return {**current, **task}


def _check_belongs(current: JSONObject, body: JSONObject) -> None:
    if body.get("taskId") != current["id"]:
        raise EventRefused("foreign-task", "the event names another task than its stream")
    named, own = body.get("contextId"), current.get("contextId")
    if named and own and named != own:
        raise EventRefused("foreign-context", "the event names another contextId than its task")


def with_status(task: JSONObject, update: JSONObject) -> JSONObject:
    """The task after a statusUpdate that may come now."""
    state_of(update)
    changed = _with_metadata(task, update) if "metadata" in update else dict(task)
    previous = task["status"]
    said = previous.get("message") if isinstance(previous, dict) else None
    if said is not None:
        changed["history"] = [*_items(task, "history"), said]
    changed["status"] = update["status"]
    return changed


def with_artifact(task: JSONObject, update: JSONObject) -> JSONObject:
    """The task after an artifactUpdate that may come now. Raises EventRefused for one that says nothing."""
    artifact = update.get("artifact")
    if not isinstance(artifact, dict) or not isinstance(artifact.get("artifactId"), str):
        raise EventRefused("malformed-event", "an artifactUpdate needs an artifact with its artifactId")
    artifacts, append = _items(task, "artifacts"), bool(update.get("append"))
    found = _find(artifacts, artifact["artifactId"])
    if found is not None:
        place, known = found
        artifacts[place] = _appended(known, artifact) if append else artifact
    elif append:
        raise EventRefused("append-to-unknown-artifact", "the first chunk of this artifact never came")
    else:
        artifacts.append(artifact)
    return {**_with_metadata(task, update), "artifacts": artifacts}


def _find(artifacts: list[JSON], artifact_id: JSON) -> tuple[int, JSONObject] | None:
    for place, artifact in enumerate(artifacts):
        if isinstance(artifact, dict) and artifact.get("artifactId") == artifact_id:
            return place, artifact
    return None


def _appended(artifact: JSONObject, chunk: JSONObject) -> JSONObject:
    said = {name: value for name, value in chunk.items() if name != "metadata"}
    parts = [*_items(artifact, "parts"), *_items(chunk, "parts")]
    return {**_with_metadata(artifact, chunk), **said, "parts": parts}


def _with_metadata(holder: JSONObject, update: JSONObject) -> JSONObject:
    """A shallow copy of `holder` that also holds the metadata of `update`."""
    old, new = holder.get("metadata"), update.get("metadata")
    if not isinstance(new, dict):
        return dict(holder)
    return {**holder, "metadata": {**old, **new} if isinstance(old, dict) else new}


def _items(holder: JSONObject, name: str) -> list[JSON]:
    items = holder.get(name)
    return list(items) if isinstance(items, list) else []


_UPDATES: Mapping[str, Callable[[JSONObject, JSONObject], JSONObject]] = MappingProxyType(
    {"statusUpdate": with_status, "artifactUpdate": with_artifact}
)
