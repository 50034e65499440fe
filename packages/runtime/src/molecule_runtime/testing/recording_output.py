"""An output that keeps what it is told."""

from typing import Any

from molecule_runtime.domain.turns import TurnOutcome, TurnRequest
from molecule_wire import JSON, ids


class RecordingOutput:
    """See `TurnOutput`."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.outcomes: list[TurnOutcome] = []

    @property
    def outcome(self) -> TurnOutcome:
        """The one outcome; a turn has no second one."""
        assert len(self.outcomes) == 1, f"a turn has one outcome, this one has {len(self.outcomes)}"
        return self.outcomes[0]

    @property
    def streamed_text(self) -> str:
        """The text that was streamed."""
        return "".join(event[1] for event in self.events if event[0] == "text")

    async def working(self) -> None:
        self.events.append(("working",))

    async def status(self, line: str) -> None:
        self.events.append(("status", line))

    async def text(self, delta: str, *, run: int, first: bool, last: bool) -> None:
        self.events.append(("text", delta, run, first, last))

    async def artifact(self, name: str, parts: list[JSON]) -> None:
        self.events.append(("artifact", name, parts))

    async def end(self, outcome: TurnOutcome) -> None:
        self.outcomes.append(outcome)


def request(text: str, context_id: str = "", **more: Any) -> TurnRequest:
    """A message with one text."""
    name = ids.uuid7()
    parts: list[JSON] = [{"text": text}] if text else []
    return TurnRequest(name, f"task-{name}", context_id or f"context-{name}", parts, **more)
