"""Output by version: results and events as the caller reads them; bytes that fit pass unchanged."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import cast

from molecule_wire import JSON, JSONObject, jsontext
from molecule_wire.a2a import convert
from molecule_wire.a2a.push_configs import Spelling

_FROM_1_0: Mapping[Spelling, convert.Converter | None] = MappingProxyType(
    {"1.0": None, "0.3": convert.TO_0_3, "0.3 REST": convert.TO_0_3_REST}
)


class Renderer:
    """One spelling of A2A, and how many messages of a task's history the caller wants (None for all)."""

    __slots__ = ("_converter", "_history", "spelling")

    def __init__(self, spelling: Spelling, history: int | None = None) -> None:
        self.spelling: Spelling = spelling
        self._history = history
        self._converter = _FROM_1_0[spelling]

    @property
    def shows_history(self) -> bool:
        """Whether the caller wants to see anything of a task's history."""
        return self._history != 0

    def event(self, event: JSONObject) -> bytes:
        """A 1.0 result of a send, or event of a stream."""
        cut = event if self._history is None else _in_wrapper(event, self._cut)
        return jsontext.encode(cut if self._converter is None else self._converter.event(cut))

    def message(self, message: JSONObject, written: bytes | None) -> bytes:
        """A 1.0 message as the result of a send; `written` is its text, if there is one."""
        if self._converter is None and written is not None:
            return b'{"message":%b}' % written
        return self.event({"message": message})

    def task(self, task: JSONObject) -> bytes:
        """A 1.0 task as the result of an operation on it."""
        return jsontext.encode(self._task(task))

    def page(self, tasks: list[JSONObject], params: JSONObject, token: str, size: int, total: int) -> bytes:
        """A page of 1.0 tasks; with artifacts only if the params of the list ask for them."""
        wanted = params.get("includeArtifacts") is True
        shown = [self._task(task if wanted else _without(task, "artifacts")) for task in tasks]
        page: JSONObject = {"tasks": [*shown], "nextPageToken": token, "pageSize": size, "totalSize": total}
        return jsontext.encode(page)

    def stored(self, payload: bytes, dialect: str, history: JSON = None) -> bytes:
        """A result or event that was kept in a dialect; `history` is given to a task that has none."""
        if dialect == self.spelling and self._history is None and not history:
            return payload
        kept = jsontext.decode(payload)
        if not isinstance(kept, dict):
            return payload
        modern = convert.FROM_0_3.event(kept) if dialect == "0.3" else kept
        if history:
            modern = _in_wrapper(modern, lambda task: {"history": history, **task})
        return self.event(modern)

    def stored_event(self, payload: bytes, dialect: str, *, is_task: bool) -> bytes:
        """An event that was kept in a dialect; its history matters only where it is a whole task."""
        if dialect == self.spelling and (self._history is None or not is_task):
            return payload
        return self.stored(payload, dialect)

    def _task(self, task: JSONObject) -> JSONObject:
        cut = self._cut(task)
        return cut if self._converter is None else self._converter.task(cut)

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
