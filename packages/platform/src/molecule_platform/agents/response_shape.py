"""The forms in which agents answer: a Task or a Message of either dialect, whole or nearly, or neither."""

from typing import Literal, NamedTuple

from molecule_wire import JSON, JSONObject
from molecule_wire.a2a import checks
from molecule_wire.a2a.operations import Dialect


class ResponseShape(NamedTuple):
    """An answer as the dialect writes it that it is in: wrapped in 1.0, bare in 0.3."""

    kind: Literal["task", "message"]
    result: JSONObject
    dialect: Dialect


def of(result: JSON, asked: Dialect) -> ResponseShape | None:
    """The form of an answer, which shows in its shape whatever the agent was asked in; None for no A2A.

    That it has a form does not say that it is valid.
    """
    if not isinstance(result, dict):
        return None
    if isinstance(result.get("task"), dict):
        return ResponseShape("task", result, "1.0")
    message = result.get("message")
    if isinstance(message, dict):
        return _wrapped_message(result, message, asked)
    if _is_bare_task(result):
        return _bare_task(result, asked)
    if result.get("kind") == "message" or ("kind" not in result and "parts" in result):
        return ResponseShape("message", result, "0.3")
    return None


def _wrapped_message(result: JSONObject, message: JSONObject, asked: Dialect) -> ResponseShape:
    """Whoever speaks 1.0 is held to it; others may have meant the message alone, and forgot half of it."""
    if asked == "1.0" or checks.is_message(message):
        return ResponseShape("message", result, "1.0")
    return ResponseShape("message", message, "0.3")


def _is_bare_task(result: JSONObject) -> bool:
    """Whether it says that it is a Task, or looks like one; many a plain answer has a `status`, too."""
    if "kind" in result:
        return result["kind"] == "task"
    status = result.get("status")
    if not isinstance(status, dict) or "taskId" in result:
        return False
    return "state" in status or ("id" in result and "contextId" in result)


def _bare_task(task: JSONObject, asked: Dialect) -> ResponseShape:
    """A Task without its wrapper is in the dialect in which it spells its state."""
    status = task.get("status")
    state = status.get("state") if isinstance(status, dict) else None
    if isinstance(state, str):
        is_new = state.startswith("TASK_STATE_")
    else:
        is_new = asked == "1.0" and "kind" not in task
    if is_new:
        return ResponseShape("task", {"task": task}, "1.0")
    return ResponseShape("task", task if "kind" in task else {**task, "kind": "task"}, "0.3")
