"""The event log of one task: 1.0 events, numbered from 1, and the task that they add up to."""

from collections.abc import Callable
from typing import NamedTuple, cast

from molecule_wire import JSONObject, jsontext
from molecule_wire.a2a import tasks

MOST_EVENTS = 10_000
"""How many events are kept for replay; whoever has seen fewer is shown the whole task instead."""


class Owner(NamedTuple):
    """Whose task it is: for anybody else it does not exist."""

    principal: str = ""
    tenant: str = ""


class TaskLog:
    """Appends events that the protocol allows. Chunks that nobody has read yet are put together."""

    __slots__ = (
        "_answer_json",
        "_before_last",
        "_dropped",
        "_events",
        "_read",
        "_state",
        "_whole",
        "answer",
        "context_id",
        "id",
        "listeners",
        "merges_chunks",
        "owner",
    )

    def __init__(self, task_id: str, context_id: str, owner: Owner) -> None:
        self.id = task_id
        self.context_id = context_id
        self.owner = owner
        self.listeners: list[Callable[[], None]] = []
        self.answer: JSONObject | None = None
        """The Message with which the agent answered instead of a task."""
        self._answer_json: bytes | None = None
        self.merges_chunks = True
        """Off where the number of an event must not depend on whether somebody had read the one before."""
        self._events: list[JSONObject] = []
        self._dropped = self._read = 0
        self._whole: JSONObject | None = None
        self._state: tasks.TaskState | None = None
        """The state of the whole, once somebody has asked for it."""
        self._before_last: JSONObject | None = None

    @classmethod
    def restored(cls, whole: JSONObject, owner: Owner, number: int, answer: JSONObject | None) -> "TaskLog":
        """The log of a task of which only the sum is known: its events cannot be replayed."""
        log = cls(str(whole["id"]), str(whole.get("contextId") or ""), owner)
        log._whole, log.answer, log._dropped = whole, answer, number
        log._read = number
        return log

    @property
    def answer_json(self) -> bytes | None:
        """The answer as text: it is kept and told, and so written once."""
        if self._answer_json is None and self.answer is not None:
            self._answer_json = jsontext.encode(self.answer)
        return self._answer_json

    @property
    def whole(self) -> JSONObject:
        """The task as it stands."""
        assert self._whole is not None, "a log begins with a task"
        return self._whole

    @property
    def number(self) -> int:
        """The number of the newest event."""
        return self._dropped + len(self._events)

    @property
    def oldest(self) -> int:
        """The number of the oldest event that is still kept."""
        return self._dropped + 1

    @property
    def state(self) -> tasks.TaskState:
        """The state of the task."""
        if self._state is None:
            self._state = tasks.state_of(self.whole)
        return self._state

    @property
    def is_over(self) -> bool:
        """Whether no event can follow."""
        return self.answer is not None or self.state in tasks.TERMINAL

    @property
    def waits(self) -> bool:
        """Whether the task waits for its caller."""
        return self.answer is None and self.state in tasks.INTERRUPTED

    @property
    def is_told(self) -> bool:
        """Whether anybody was told of the task."""
        return self._read > 0

    @property
    def status(self) -> JSONObject:
        """The newest status."""
        return cast("JSONObject", self.whole["status"])

    def begin(self, task: JSONObject) -> None:
        """The first event: the task with which the log begins."""
        self._whole, self._state = task, None
        self._events.append({"task": task})

    def append(self, event: JSONObject) -> None:
        """Add an event. Raises EventRefused when the protocol does not allow it here."""
        self._check_unanswered()
        self._add(event, tasks.fold(self._whole, event))

    # Updates of this very task, which need not be checked for that

    def tell_status(self, status: JSONObject, metadata: JSONObject | None = None) -> None:
        """Add a status. Raises EventRefused after the end."""
        self._check_open()
        update: JSONObject = {"taskId": self.id, "contextId": self.context_id, "status": status}
        if metadata:
            update["metadata"] = metadata
        self._add({"statusUpdate": update}, tasks.with_status(self.whole, update))

    def tell_artifact(self, artifact: JSONObject, *, append: bool = False, last: bool = False) -> None:
        """Add an artifact or a chunk of one. Raises EventRefused after the end, or without a first chunk."""
        self._check_open()
        update: JSONObject = {"taskId": self.id, "contextId": self.context_id, "artifact": artifact}
        if append:
            update["append"] = True
        if last:
            update["lastChunk"] = True
        joined = self._joined(update) if append and self.merges_chunks else None
        if joined is None or self._before_last is None:
            return self._add({"artifactUpdate": update}, tasks.with_artifact(self.whole, update))
        self._whole = tasks.with_artifact(self._before_last, joined)
        self._events[-1] = {"artifactUpdate": joined}
        return self._notify()

    def _add(self, event: JSONObject, whole: JSONObject) -> None:
        self._before_last, self._whole, self._state = self._whole, whole, None
        self._events.append(event)
        if len(self._events) > MOST_EVENTS:
            half = MOST_EVENTS // 2
            del self._events[:half]
            self._dropped += half
        self._notify()

    def _check_unanswered(self) -> None:
        if self.answer is not None:
            raise tasks.EventRefused("event-after-message", "the task was answered with a Message")

    def _check_open(self) -> None:
        self._check_unanswered()
        if self.state in tasks.TERMINAL:
            raise tasks.EventRefused("event-after-terminal", "the task had ended before")

    def answer_with(self, message: JSONObject) -> None:
        """End with a Message in place of a task, of which nobody was told yet."""
        if self.is_told or self.is_over:
            raise tasks.EventRefused("message-after-task", "the caller was told of a task already")
        self.answer = message
        self._dropped, self._events, self._before_last = self.number, [], None
        self._notify()

    def after(self, number: int) -> list[tuple[int, JSONObject]]:
        """The events after a number."""
        if self.answer is not None:
            return [] if number else [(1, {"message": self.answer})]
        self._read = max(self._read, self.number)
        start = max(number - self._dropped, 0)
        return list(enumerate(self._events[start:], start=self._dropped + start + 1))

    def as_of(self, number: int) -> JSONObject:
        """The status after an event that is still kept."""
        for event in reversed(self._events[: number - self._dropped]):
            (body,) = event.values()
            if isinstance(body, dict) and isinstance(body.get("status"), dict):
                return cast("JSONObject", body["status"])
        return self.status

    def show(self) -> JSONObject:
        """The task as it stands, for a caller that is told of it now: no Message can follow."""
        self._read = max(self._read, 1)
        return self.whole

    def _joined(self, chunk: JSONObject) -> JSONObject | None:
        """The last update with the text of this one, when both are chunks of one text and nobody saw it."""
        if not self._events or self._read >= self.number:
            return None
        last = self._events[-1].get("artifactUpdate")
        match last, chunk:
            case (
                {"artifact": {"parts": [{"text": str(text), **beside}], **before}},
                {"artifact": {"parts": [{"text": str(more), **also_beside}], **after}},
            ) if before == after and not (beside or also_beside):
                last = cast("JSONObject", last)
                if last.get("lastChunk"):
                    return None
                artifact: JSONObject = {**before, "parts": [{"text": text + more}]}
                ended: JSONObject = {"lastChunk": True} if chunk.get("lastChunk") else {}
                return {**last, "artifact": artifact, **ended}
            case _:
                return None

    def _notify(self) -> None:
        if self.listeners:
            for listener in tuple(self.listeners):
                listener()
