"""The frames of one event stream: of a message that was sent, or of a task that somebody follows."""

from molecule_wire.a2a.server.requests import Invocation
from molecule_wire.a2a.server.service import Subscription
from molecule_wire.a2a.server.turns import Turn

KEEP_ALIVE_SECONDS = 15.0


class EventStream:
    """Reads a log from where its follower comes in; `take` gives what is at hand, `is_over` tells the end."""

    def __init__(self, invocation: Invocation, source: Turn | Subscription) -> None:
        self._invocation = invocation
        self._turn = source if isinstance(source, Turn) else None
        self.log = source.log
        self._seen = source.first - 1 if isinstance(source, Turn) else source.after
        self._shown = None if isinstance(source, Turn) else source.shown

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
        binding, renderer = self._invocation.binding, self._invocation.renderer
        frames: list[bytes] = []
        if self._shown is not None:
            frames.append(binding.event(self._seen, renderer.event({"task": self._shown})))
            self._shown = None
        for number, event in self.log.after(self._seen):
            if self._turn is not None and self._turn.is_over and number > self._turn.last:
                break
            self._seen = number
            frames.append(binding.event(number, renderer.event(event)))
        return b"".join(frames)
