"""Turns: one message at work. What its handler says becomes events of its task, by the rules of A2A."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from molecule_wire import JSON, JSONObject, times
from molecule_wire.a2a import checks, tasks
from molecule_wire.a2a.envelopes import A2ARequest
from molecule_wire.a2a.server.task_log import TaskLog
from molecule_wire.a2a.tasks import TaskState

Now = Callable[[], datetime]


class AnswerInvalid(ValueError):
    """A handler said what no caller can read; the text is for its author."""


class Turn:
    """A message and its task. The turn ends with the first outcome; what is said later is refused.

    `cancelled` tells that its caller called it off, `expired` that its deadline passed, `retry` that the
    handler failed and asks to be given the message again. `on_cancel` is called for the first two, `on_end`
    for every end. `metadata` goes with the message or the status that is told.
    """

    def __init__(self, log: TaskLog, message: JSONObject, now: Now, deadline: datetime | None = None) -> None:
        self.log = log
        self.message = message
        self.deadline = deadline
        self.first = log.number
        """The number of the first event that belongs to this message."""
        self.last = 0
        """The number of the last one, once the turn is over."""
        self.size = 0
        self.result: object = None
        """What the handler returned, for callers who are answered in another form than A2A."""
        self.is_over = self.cancelled = self.expired = self.retry = False
        self.on_cancel: list[Callable[[], object]] = []
        self.on_end: list[Callable[[], object]] = []
        self.request: A2ARequest | None = None
        self.headers: Mapping[str, str] = {}
        """The headers of the request that brought the message, while the turn is at work."""
        self._now = now

    # What a handler may say

    def work(self, parts: object = None) -> None:
        """Tell that the work has begun, or goes on; `parts` say how far it is."""
        self._check_open()
        self._append(TaskState.WORKING, parts)

    def artifact(self, artifact: JSONObject, *, append: bool = False, last: bool = False) -> None:
        """Tell an artifact, whole or a chunk of it."""
        self._check_open()
        told: JSONObject = {**artifact, "parts": parts_of(artifact.get("parts"), "an artifact")}
        self.log.tell_artifact(told, append=append, last=last)

    def complete(self, parts: object = None, *, metadata: JSONObject | None = None) -> None:
        """End the task with an answer."""
        self._end(TaskState.COMPLETED, parts, metadata)

    def answer(self, parts: object, *, metadata: JSONObject | None = None) -> None:
        """Answer with a Message in place of a task; whoever knows of the task gets it as the last status."""
        self._check_open()
        if self.log.is_told:
            return self.complete(parts, metadata=metadata)
        message = self._message(parts_of(parts, "a message"), "answer", metadata)
        del message["taskId"]
        self.is_over, self.last = True, 1
        self.log.answer_with(message)
        return self._let_go()

    def ask(
        self, parts: object, *, for_authentication: bool = False, metadata: JSONObject | None = None
    ) -> None:
        """End the turn with a question: the next message of the task is another turn."""
        state = TaskState.AUTH_REQUIRED if for_authentication else TaskState.INPUT_REQUIRED
        self._end(state, parts, metadata)

    def reject(self, parts: object = None, *, metadata: JSONObject | None = None) -> None:
        """Refuse the work."""
        self._end(TaskState.REJECTED, parts, metadata)

    def fail(self, parts: object = None, *, retry: bool = False, metadata: JSONObject | None = None) -> None:
        """End in failure; with `retry` whoever delivered the message may deliver it again."""
        self.retry = retry
        if retry:  # for who reads a stream: who waits for one answer is told by its status
            own = (metadata or {}).get("molecule")
            told: JSONObject = {**own, "retryable": True} if isinstance(own, dict) else {"retryable": True}
            metadata = {**(metadata or {}), "molecule": told}
        self._end(TaskState.FAILED, parts, metadata)

    # What others do to it

    def cancel(self) -> None:
        """End without an outcome of the handler's, which learns that nobody waits for it."""
        self.cancelled, interrupts = True, self.on_cancel
        self._end(TaskState.CANCELED, None)
        self._call(interrupts)

    def expire(self, parts: object) -> bool:
        """Fail when the deadline has passed; whether it has."""
        if self.is_over or self.deadline is None or self._now() < self.deadline:
            return False
        self.expired, interrupts = True, self.on_cancel
        self.fail(parts)
        self._call(interrupts)
        return True

    def seconds_left(self) -> float | None:
        """Seconds until the deadline; None without one."""
        return None if self.deadline is None else max((self.deadline - self._now()).total_seconds(), 0.0)

    def _call(self, listeners: list[Callable[[], object]]) -> None:
        for called in listeners:
            called()

    def _check_open(self) -> None:
        if self.is_over:
            raise tasks.EventRefused("event-after-terminal", "the message has its outcome already")

    def _end(self, state: TaskState, parts: object, metadata: JSONObject | None = None) -> None:
        self._check_open()
        # Before the log tells its listeners: they look whether the turn is over.
        self.is_over, self.last = True, self.log.number + 1
        try:
            self._append(state, parts, metadata)
        except BaseException:
            self.is_over = False
            raise
        self._let_go()

    def _let_go(self) -> None:
        """Tell the end, and drop what only a turn at work needs.

        A thousand turns that are over are kept: their requests were two fifths of what they held, and
        listeners that know their turn leave it to the garbage collector.
        """
        listeners, self.on_end, self.on_cancel = self.on_end, [], []
        self._call(listeners)
        self.request, self.headers = None, {}

    def _append(self, state: TaskState, parts: object, metadata: JSONObject | None = None) -> None:
        said = [] if parts is None else parts_of(parts, "a message")
        status = new_status(state, self._now())
        if said:
            status["message"] = self._message(said, str(self.log.number + 1))
        self.log.tell_status(status, metadata)

    def _message(self, parts: list[JSON], place: str, metadata: JSONObject | None = None) -> JSONObject:
        """A message of the agent's; its id is the same whenever it is made again for the same place."""
        beside: JSONObject = {"metadata": metadata} if metadata else {}
        return {
            **beside,
            "messageId": f"{self.log.id}-{place}",
            "role": "ROLE_AGENT",
            "parts": parts,
            "taskId": self.log.id,
            "contextId": self.log.context_id,
        }


def new_status(state: TaskState, now: datetime) -> JSONObject:
    """A status without words."""
    return {"state": state.value, "timestamp": times.format_time(now)}


def parts_of(said: object, where: str) -> list[JSON]:
    """Text, or a list of 1.0 parts, as parts. Raises AnswerInvalid for anything else."""
    if isinstance(said, str):
        return [{"text": said}]
    if isinstance(said, Sequence) and not isinstance(said, bytes | bytearray):
        listed = cast("Sequence[Any]", said)
        wrong = [place for place, part in enumerate(listed) if not checks.is_part(part)]
        if listed and not wrong:
            return list(listed)
        which = f"parts[{wrong[0]}] of {where}" if wrong else f"the list of parts of {where}"
        raise AnswerInvalid(f"{which} is no part: a part holds exactly one of text, raw, url and data")
    raise AnswerInvalid(f"{where} is made of text or of a list of parts, not of {type(said).__name__}")
