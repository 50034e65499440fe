"""Where the events of a turn go."""

from typing import Protocol

from molecule_runtime.domain.turns import TurnOutcome
from molecule_wire import JSON


class TextRedactor(Protocol):
    """Redacts streamed text: what may be the beginning of a secret is held back."""

    def feed(self, text: str) -> str:
        """What may be shown now."""
        ...

    def flush(self) -> str:
        """The rest."""
        ...

    def redact(self, text: str) -> str:
        """A whole text; not while another is streamed."""
        ...


class TurnOutput(Protocol):
    """The caller's side of a turn: a task of the A2A server, a leased message, an event queue, a terminal.

    Text comes redacted. `end` is called exactly once and last; what cannot be written any more is dropped.
    """

    async def working(self) -> None:
        """The turn has its slot and begins."""
        ...

    async def status(self, line: str) -> None:
        """How far the work is, for people."""
        ...

    async def text(self, delta: str, *, run: int, first: bool, last: bool) -> None:
        """A piece of the answer of one model run; `run` counts the runs of the turn from 1."""
        ...

    async def artifact(self, name: str, parts: list[JSON]) -> None:
        """A whole artifact, in 1.0 parts."""
        ...

    async def end(self, outcome: TurnOutcome) -> None:
        """The outcome."""
        ...
