"""The frames of one event stream: of a message that was sent, or of a task that somebody follows."""

from molecule_wire import JSONObject
from molecule_wire.a2a.server import resumption
from molecule_wire.a2a.server.requests import Invocation
from molecule_wire.a2a.server.task_log import TaskLog
from molecule_wire.a2a.server.turns import Turn

KEEP_ALIVE_SECONDS = 15.0


class EventStream:
    """Reads a log from where its follower comes in; `take` gives what is at hand, `is_over` tells the end."""

    def __init__(
        self,
        invocation: Invocation,
        log: TaskLog,
        after: int,
        shown: JSONObject | None = None,
        turn: Turn | None = None,
    ) -> None:
        """Read the events after a number, of one turn or all; before them something may be shown."""
        self.log = log
        self._invocation = invocation
        self._seen = after
        self._shown = shown
        self._turn = turn

    @classmethod
    def rejoined(cls, invocation: Invocation, log: TaskLog, last_event_id: str | None) -> "EventStream":
        """A task's events from where a follower comes in that has seen some. Raises A2AError."""
        seen = resumption.last_seen(last_event_id, log.number) if last_event_id else log.number
        if log.is_over and seen == log.number:
            raise resumption.nothing_follows(log.state)
        if not last_event_id or seen + 1 < log.oldest:
            return cls(invocation, log, log.number, log.show())
        shown = resumption.resumed_task(log.id, log.context_id, log.as_of(seen), seen) if seen else None
        return cls(invocation, log, seen, shown)

    @property
    def is_over(self) -> bool:
        """Whether everything was taken and nothing follows."""
        if self._shown is not None:
            return False
        if self._turn is not None:
            return self._turn.is_over and self._seen >= self._turn.last
        return (self.log.is_over or self.log.waits) and self._seen >= self.log.number

    def take(self) -> bytes:
        """The frames of the events since the last call; empty when there are none."""
        frames: list[bytes] = []
        if self._shown is not None:
            frames.append(self._invocation.event(self._seen, {"task": self._shown}))
            self._shown = None
        for number, event in self.log.after(self._seen):
            if self._turn is not None and self._turn.is_over and number > self._turn.last:
                break
            self._seen = number
            frames.append(self._invocation.event(number, event))
        return b"".join(frames)
