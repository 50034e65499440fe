"""Port of the run store: what the gate needs from whatever keeps runs. The docstrings are the contract."""

from collections.abc import Sequence
from typing import Protocol

from molecule_skill.store.records import (
    ArtifactRecord,
    JournalEntry,
    NewEvent,
    NewRun,
    RequestRecord,
    RequestState,
    RunFailure,
    RunRecord,
    RunState,
    StateChange,
    StoredEvent,
)
from molecule_wire import JSON, JSONObject


class StoreUnavailable(RuntimeError):
    """The store cannot be written or read now: full, locked or gone. What was committed before stays."""


class StoreIncompatible(RuntimeError):
    """The file belongs to another program or to a newer version; it was not changed."""


class RunStore(Protocol):
    """Repository of runs, safe against `kill -9`: what a method returned from is committed.

    A write of a run carries its `fence`. If the run has another owner by now, the write changes nothing and
    raises `RunRefused` with the code `lease-lost`; so it does after the run's final state. Methods raise
    `StoreUnavailable` when the medium fails.
    """

    # Runs

    async def open_run(self, new: NewRun, started: NewEvent | None = None) -> tuple[RunRecord, bool]:
        """Insert a queued run owned by this store, or find the run of its idempotency key.

        With `started` it is inserted as running, with that as its first event. The flag says whether it was
        inserted. A key is one of (agent, principal); with another `body_hash` it raises `RunRefused` with
        `idempotency-conflict`. Two concurrent calls give one run.
        """
        ...

    async def run(self, run_id: str) -> RunRecord | None:
        """The run, or None."""
        ...

    async def run_of_key(self, agent: str, principal: str, key: str) -> RunRecord | None:
        """The run that was opened with an idempotency key, or None."""
        ...

    async def runs_of(
        self, agent: str, principal: str | None, *, limit: int = 50, before: str | None = None
    ) -> list[RunRecord]:
        """Runs, newest first, of one principal or of all; `before` is the run id that ended the last page."""
        ...

    async def claim_abandoned(self, agent: str) -> list[RunRecord]:
        """Take over the unfinished runs of owners that are gone, oldest first; each gets a new fence."""
        ...

    async def set_state(
        self,
        run_id: str,
        fence: int,
        state: RunState,
        *,
        attempt: int | None = None,
        events: Sequence[NewEvent] = (),
    ) -> list[StoredEvent]:
        """Move a run to a state that is not final, and append events, in one transaction."""
        ...

    async def finish(
        self,
        run_id: str,
        fence: int,
        state: RunState,
        *,
        result: JSON = None,
        failure: RunFailure | None = None,
        events: Sequence[NewEvent] = (),
        at: float,
    ) -> list[StoredEvent]:
        """Move a run to a final state, append events, cancel pending interactions, in one transaction."""
        ...

    async def ask_cancel(self, run_id: str) -> None:
        """Ask whoever owns an unfinished run to cancel it; `cancellations` tells."""
        ...

    async def cancellations(self, agent: str) -> list[str]:
        """The unfinished runs of this owner that somebody asked to cancel."""
        ...

    # Events

    async def append_events(self, run_id: str, fence: int, events: Sequence[NewEvent]) -> list[StoredEvent]:
        """Append; numbers follow the newest one without a gap."""
        ...

    async def events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[StoredEvent]:
        """Events with a number greater than `after`, in order."""
        ...

    async def emitted(self, run_id: str, attempt: int) -> int:
        """How many events of the author are recorded for an attempt: the ordinal of the last."""
        ...

    # Interactions

    async def open_request(self, request: RequestRecord, fence: int, event: NewEvent) -> list[StoredEvent]:
        """Insert a pending interaction, append its event and move the run to waiting, in one transaction."""
        ...

    async def close_request(
        self, request_id: str, state: RequestState, *, answer: JSON, answered_by: str | None, at: float
    ) -> RequestRecord | None:
        """Decide a pending interaction and append `interaction_closed`, in one transaction.

        Needs no fence: only the first decision counts. Returns the row as it is now, decided by whomever;
        None for an unknown id.
        """
        ...

    async def request(self, request_id: str) -> RequestRecord | None:
        """The interaction, or None."""
        ...

    async def requests(self, run_id: str) -> list[RequestRecord]:
        """The interactions of a run, oldest first."""
        ...

    async def pending_requests(self, agent: str) -> list[str]:
        """The ids of all interactions of an agent's runs that wait for an answer."""
        ...

    # Journal

    async def journal(self, run_id: str) -> list[JournalEntry]:
        """The recorded effects of a run by ordinal."""
        ...

    async def put_journal(
        self,
        run_id: str,
        fence: int,
        entry: JournalEntry,
        events: Sequence[NewEvent] = (),
        state: StateChange | None = None,
    ) -> list[StoredEvent]:
        """Record an effect at its ordinal, in place of what was there, with its events and its state.

        All of it or nothing is kept. Raises `StateConflict`.
        """
        ...

    # Artifacts

    async def put_artifact(
        self, run_id: str, fence: int, name: str, data: bytes, mime_type: str, attempt: int
    ) -> ArtifactRecord:
        """Keep a file by its digest; the same name again is a new version, and the latest wins."""
        ...

    async def artifacts(self, run_id: str, attempt: int) -> list[ArtifactRecord]:
        """The files of an attempt by name."""
        ...

    async def artifact(self, run_id: str, name: str) -> ArtifactRecord | None:
        """The newest version of a file, of whichever attempt."""
        ...

    async def read_artifact(self, sha256: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Bytes of a kept file; read large ones in pieces."""
        ...

    # State

    async def load_state(self, scope: str) -> tuple[JSONObject, int] | None:
        """A saved state with its version, or None."""
        ...

    async def save_state(self, change: StateChange) -> None:
        """Save a state; its version is one higher then. Raises `StateConflict`."""
        ...

    # Upkeep

    async def prune(self, before: float) -> int:
        """Delete runs that ended before a time, with all that belongs to them; how many there were."""
        ...

    async def close(self) -> None:
        """Let go of the medium; unfinished runs of this owner are abandoned from now on."""
        ...
