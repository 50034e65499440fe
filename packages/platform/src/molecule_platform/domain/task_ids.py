"""Tasks and events under the names that their sender knows, wherever those names stand in them."""

from typing import Any, cast

from molecule_platform.domain.tasks import Task


def under(task: Task, body: dict[str, Any]) -> dict[str, Any]:
    """A 1.0 task or update with the task's own id and context, also in the messages inside it."""
    name = "id" if "id" in body and "taskId" not in body else "taskId"
    named = {**body, name: task.id, "contextId": task.context_id}
    status, history = body.get("status"), body.get("history")
    if isinstance(status, dict) and "message" in status:
        told = cast("dict[str, Any]", status)
        named["status"] = {**told, "message": _said_in(task, told["message"])}
    if isinstance(history, list):
        named["history"] = [_said_in(task, said) for said in cast("list[Any]", history)]
    return named


def _said_in(task: Task, message: Any) -> Any:
    """A message; only the names that it has are changed."""
    if not isinstance(message, dict):
        return message
    said = cast("dict[str, Any]", message)
    names = {"taskId": task.id, "contextId": task.context_id}
    return {**said, **{name: value for name, value in names.items() if name in said}}
