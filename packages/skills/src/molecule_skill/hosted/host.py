"""What the runs of one agent share in a process: store, settings, signals, and those who wait for answers."""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from molecule_skill.hosted.invocation import GateSettings
from molecule_skill.hosted.signals import Signals
from molecule_skill.interactions import Interaction
from molecule_skill.secrets import Redactor
from molecule_skill.store.protocol import RunStore

if TYPE_CHECKING:
    from molecule_skill.agent import A2AAgent

log = logging.getLogger("molecule_skill")


@dataclass
class Waiter:
    """A handler that waits for an answer; `woken` is done when its row should be read again."""

    interaction: Interaction
    woken: "asyncio.Future[None]"

    def wake(self) -> None:
        """Let the handler look."""
        if not self.woken.done():
            self.woken.set_result(None)


@dataclass
class Host:
    """The surroundings of hosted runs."""

    agent: "A2AAgent[Any, Any]"
    store: RunStore
    settings: GateSettings
    redactor: Redactor
    event_signals: Signals = field(default_factory=Signals)
    state_signals: Signals = field(default_factory=Signals)
    queued: set[str] = field(default_factory=set[str])
    """Runs that have not started yet."""
    waiters: dict[str, Waiter] = field(default_factory=dict[str, Waiter])
    unrecorded: int = 0
    """How many writes failed without ending a run."""

    def notify(self, run_id: str) -> None:
        """The run has news: events, and perhaps another state."""
        self.event_signals.notify(run_id)
        self.state_signals.notify(run_id)

    def not_recorded(self, what: str, run_id: str, problem: Exception) -> None:
        """Log and count a write that failed but must not change the outcome of a run."""
        self.unrecorded += 1
        log.error("run %s: %s was not recorded: %s", run_id, what, self.redactor.text(str(problem)))
