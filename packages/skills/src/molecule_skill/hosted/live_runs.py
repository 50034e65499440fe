"""Live runs: what the store has of a run that this process runs, so that nobody needs to ask the store."""

from collections import deque
from collections.abc import Sequence

from molecule_skill.store.records import RunFailure, RunRecord, RunState, StoredEvent
from molecule_wire import JSON

KEPT_EVENTS = 256
"""How many events are in memory; who reads more slowly reads them from the store."""


class LiveRun:
    """A run as its callers see it: only what was committed, from its first event on.

    Nobody else writes to a run but for its interactions, so one that asks somebody is not current any more.
    """

    __slots__ = (
        "_events",
        "attempt",
        "failure",
        "fence",
        "has_artifacts",
        "is_current",
        "last_seq",
        "new",
        "result",
        "state",
        "updated_at",
    )

    def __init__(self, record: RunRecord) -> None:
        self.new, self.fence = record.new, record.fence
        self.state, self.attempt = record.state, record.attempt
        self.last_seq, self.updated_at = record.last_seq, record.updated_at
        self.result: JSON = None
        self.failure: RunFailure | None = None
        self.has_artifacts = False
        self.is_current = record.last_seq == 0
        """Whether this is what the store has; once it is not, it never is again."""
        self._events: deque[StoredEvent] = deque(maxlen=KEPT_EVENTS)

    @property
    def record(self) -> RunRecord:
        """The run as its row says."""
        return RunRecord(
            self.new,
            self.state,
            self.attempt,
            self.fence,
            self.last_seq,
            self.updated_at,
            self.result,
            self.failure,
        )

    def tell(self, events: Sequence[StoredEvent]) -> None:
        """Events were committed."""
        for event in events:
            if event.seq != self.last_seq + 1:
                self.leave()
            self.last_seq, self.updated_at = event.seq, event.at
            self._events.append(event)

    def finish(self, state: RunState, result: JSON, failure: RunFailure | None, at: float) -> None:
        """The outcome was committed."""
        self.state, self.result, self.failure, self.updated_at = state, result, failure, at

    def leave(self) -> None:
        """Somebody else may write to the run from now on."""
        self.is_current = False
        self._events.clear()

    def events(self, after: int, limit: int) -> list[StoredEvent] | None:
        """The events after a number; None when they are not in memory any more."""
        kept, missed = self._events, after - (self.last_seq - len(self._events))
        if missed < 0:
            return None
        if not missed and len(kept) <= limit:
            return list(kept)
        return [event for event in kept if event.seq > after][:limit]
