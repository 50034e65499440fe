"""What a caller hears: results and events in its own dialect; bytes pass unchanged where nothing differs."""

from collections.abc import Callable
from typing import Any, cast

from molecule_platform.domain.tasks import TaskEvent
from molecule_wire import JSON, JSONObject, jsontext
from molecule_wire.a2a import convert
from molecule_wire.a2a.push_configs import Spelling

_FROM_1_0: dict[Spelling, convert.Converter | None] = {
    "1.0": None,
    "0.3": convert.TO_0_3,
    "0.3 REST": convert.TO_0_3_REST,
}


class Speech:
    """One spelling of A2A."""

    __slots__ = ("_converter", "_history", "spelling")

    def __init__(self, spelling: Spelling, history: int | None = None) -> None:
        self.spelling: Spelling = spelling
        # How many messages of a task's history are wanted; None for all.
        self._history = history
        self._converter = _FROM_1_0[spelling]

    @property
    def tells_history(self) -> bool:
        """Whether the caller wants to see anything of a task's history."""
        return self._history != 0

    def result(self, payload: bytes, dialect: str, history: JSON = None) -> bytes:
        """A send result or an event that was kept in a dialect; `history` is given to a task without one."""
        if dialect == self.spelling and self._history is None and not history:
            return payload
        value = jsontext.decode(payload)
        if not isinstance(value, dict):
            return payload
        modern = convert.FROM_0_3.event(value) if dialect == "0.3" else value
        if history:
            modern = _in_wrapper(modern, lambda task: {"history": history, **task})
        return jsontext.encode(self._event(_in_wrapper(modern, self._cut)))

    def event(self, event: TaskEvent) -> bytes:
        """An event of a task; its history matters only where it is told whole."""
        if event.dialect == self.spelling and (self._history is None or event.kind != "task"):
            return event.payload
        return self.result(event.payload, event.dialect)

    def task_result(self, task: dict[str, Any]) -> bytes:
        """A 1.0 task as the result of a send, or as the first event of a stream."""
        return jsontext.encode(self._event({"task": self._cut(task)}))

    def task(self, task: dict[str, Any]) -> bytes:
        """A 1.0 task as the result of an operation on it."""
        return jsontext.encode(self._task(task))

    def page(self, tasks: list[dict[str, Any]], *, artifacts: bool, **more: Any) -> bytes:
        """A list of 1.0 tasks; their artifacts only if they are wanted."""
        shown = tasks if artifacts else [_without(task, "artifacts") for task in tasks]
        return jsontext.encode({"tasks": [self._task(task) for task in shown], **more})

    def _task(self, task: dict[str, Any]) -> JSONObject:
        cut = self._cut(task)
        return cut if self._converter is None else self._converter.task(cut)

    def _event(self, event: JSONObject) -> JSONObject:
        return event if self._converter is None else self._converter.event(event)

    def _cut(self, task: JSONObject) -> JSONObject:
        history = task.get("history")
        if self._history is None or not isinstance(history, list):
            return task
        if self._history == 0:
            return _without(task, "history")
        return {**task, "history": history[-self._history :]}


def _without(task: JSONObject, name: str) -> JSONObject:
    return {member: value for member, value in task.items() if member != name}


def _in_wrapper(event: JSONObject, edit: Callable[[JSONObject], JSONObject]) -> JSONObject:
    task = event.get("task")
    return {**event, "task": edit(cast("JSONObject", task))} if isinstance(task, dict) else event
