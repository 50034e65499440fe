"""Run store in memory, for tests and for agents that may forget."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from molecule_skill.errors import StateConflict
from molecule_skill.ids import new_id
from molecule_skill.store.protocol import StoreUnavailable
from molecule_skill.store.records import (
    FINAL,
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
from molecule_skill.store.rules import closing, lease_lost, same_body
from molecule_wire import JSON, JSONObject


@dataclass(slots=True)
class _Run:
    new: NewRun
    owner: str
    state: RunState = RunState.QUEUED
    attempt: int = 1
    fence: int = 1
    updated_at: float = 0.0
    result: JSON = None
    failure: RunFailure | None = None
    events: list[StoredEvent] = field(default_factory=list[StoredEvent])
    # Nothing is made for what few runs have: every object that is kept costs the garbage collector time.
    requests: tuple[str, ...] = ()
    artifacts: tuple[ArtifactRecord, ...] = ()

    @property
    def record(self) -> RunRecord:
        return RunRecord(
            self.new,
            self.state,
            self.attempt,
            self.fence,
            len(self.events),
            self.updated_at,
            self.result,
            self.failure,
        )


@dataclass
class _Data:
    """What outlives an owner."""

    runs: dict[str, _Run] = field(default_factory=dict[str, _Run])
    keys: dict[tuple[str, str, str], str] = field(default_factory=dict[tuple[str, str, str], str])
    requests: dict[str, RequestRecord] = field(default_factory=dict[str, RequestRecord])
    emitted: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    """The ordinal of the newest event of the author, by run and attempt."""
    journals: dict[str, dict[int, JournalEntry]] = field(default_factory=dict[str, dict[int, JournalEntry]])
    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    states: dict[str, tuple[JSONObject, int]] = field(default_factory=dict[str, tuple[JSONObject, int]])
    owners: set[str] = field(default_factory=set[str])
    cancel_asked: set[str] = field(default_factory=set[str])


class MemoryRunStore:
    """See `RunStore`. `successor` is the store of a process that starts after this one was killed."""

    def __init__(self) -> None:
        self._data = _Data()
        self._owner = new_id("o_")
        self._data.owners.add(self._owner)

    def successor(self) -> "MemoryRunStore":
        """A store with the same runs and another owner; this one is taken for dead."""
        following = MemoryRunStore()
        following._data = self._data
        self._data.owners.discard(self._owner)
        self._data.owners.add(following._owner)
        return following

    # Runs

    async def open_run(self, new: NewRun, started: NewEvent | None = None) -> tuple[RunRecord, bool]:
        """See `RunStore`."""
        if new.idempotency_key is not None:
            key = (new.agent, new.principal, new.idempotency_key)
            if key in self._data.keys:
                return same_body(self._data.runs[self._data.keys[key]].record, new), False
            self._data.keys[key] = new.run_id
        run = self._data.runs[new.run_id] = _Run(new, self._owner, updated_at=new.created_at)
        if started is not None:
            run.state = RunState.RUNNING
            self._append(run, (started,))
        return run.record, True

    async def run(self, run_id: str) -> RunRecord | None:
        """See `RunStore`."""
        found = self._data.runs.get(run_id)
        return None if found is None else found.record

    async def run_of_key(self, agent: str, principal: str, key: str) -> RunRecord | None:
        """See `RunStore`."""
        run_id = self._data.keys.get((agent, principal, key))
        return None if run_id is None else self._data.runs[run_id].record

    async def runs_of(
        self, agent: str, principal: str | None, *, limit: int = 50, before: str | None = None
    ) -> list[RunRecord]:
        """See `RunStore`."""
        ids = list(self._data.runs)
        ids = ids[: ids.index(before)] if before is not None else ids
        records = (self._data.runs[run_id].record for run_id in reversed(ids))
        matching = [
            one for one in records if one.new.agent == agent and principal in (None, one.new.principal)
        ]
        return matching[:limit]

    async def claim_abandoned(self, agent: str) -> list[RunRecord]:
        """See `RunStore`."""
        taken: list[RunRecord] = []
        for run in self._data.runs.values():
            is_open = run.state not in FINAL and run.new.agent == agent
            if is_open and run.owner not in self._data.owners:
                run.owner = self._owner
                run.fence += 1
                taken.append(run.record)
        return taken

    async def set_state(
        self,
        run_id: str,
        fence: int,
        state: RunState,
        *,
        attempt: int | None = None,
        events: Sequence[NewEvent] = (),
    ) -> list[StoredEvent]:
        """See `RunStore`."""
        run = self._owned(run_id, fence)
        run.state, run.attempt = state, attempt or run.attempt
        return self._append(run, events)

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
        """See `RunStore`."""
        assert state in FINAL
        run = self._owned(run_id, fence)
        pending = [id for id in run.requests if self._data.requests[id].state is RequestState.PENDING]
        for id in pending:
            row = self._data.requests[id]
            self._data.requests[id] = replace(row, state=RequestState.CANCELLED, answered_at=at)
        stored = self._append(run, [*(closing(id, "cancelled", None, at) for id in pending), *events])
        run.state, run.result, run.failure, run.updated_at = state, result, failure, at
        return stored

    async def ask_cancel(self, run_id: str) -> None:
        """See `RunStore`."""
        if run_id in self._data.runs:
            self._data.cancel_asked.add(run_id)

    async def cancellations(self, agent: str) -> list[str]:
        """See `RunStore`."""
        cancelled = [self._data.runs[run_id] for run_id in self._data.cancel_asked]
        own = [run for run in cancelled if run.owner == self._owner and run.new.agent == agent]
        return [run.new.run_id for run in own if run.state not in FINAL]

    # Events

    async def append_events(self, run_id: str, fence: int, events: Sequence[NewEvent]) -> list[StoredEvent]:
        """See `RunStore`."""
        return self._append(self._owned(run_id, fence), events)

    async def events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[StoredEvent]:
        """See `RunStore`."""
        run = self._data.runs.get(run_id)
        return [] if run is None else run.events[after : after + limit]

    async def emitted(self, run_id: str, attempt: int) -> int:
        """See `RunStore`."""
        return self._data.emitted.get((run_id, attempt), 0)

    # Interactions

    async def open_request(self, request: RequestRecord, fence: int, event: NewEvent) -> list[StoredEvent]:
        """See `RunStore`."""
        run = self._owned(request.run_id, fence)
        run.state = RunState.WAITING
        self._data.requests[request.id] = request
        run.requests += (request.id,)
        return self._append(run, [event])

    async def close_request(
        self, request_id: str, state: RequestState, *, answer: JSON, answered_by: str | None, at: float
    ) -> RequestRecord | None:
        """See `RunStore`."""
        row = self._data.requests.get(request_id)
        if row is not None and row.state is RequestState.PENDING:
            row = replace(row, state=state, answer=answer, answered_by=answered_by, answered_at=at)
            self._data.requests[request_id] = row
            self._append(self._data.runs[row.run_id], [closing(request_id, state.value, answered_by, at)])
        return row

    async def request(self, request_id: str) -> RequestRecord | None:
        """See `RunStore`."""
        return self._data.requests.get(request_id)

    async def requests(self, run_id: str) -> list[RequestRecord]:
        """See `RunStore`."""
        run = self._data.runs.get(run_id)
        return [] if run is None else [self._data.requests[id] for id in run.requests]

    async def pending_requests(self, agent: str) -> list[str]:
        """See `RunStore`."""
        rows = self._data.requests.values()
        pending = (row for row in rows if row.state is RequestState.PENDING)
        return [row.id for row in pending if self._data.runs[row.run_id].new.agent == agent]

    # Journal

    async def journal(self, run_id: str) -> list[JournalEntry]:
        """See `RunStore`."""
        journal = self._data.journals.get(run_id, {})
        return [journal[ordinal] for ordinal in sorted(journal)]

    async def put_journal(
        self,
        run_id: str,
        fence: int,
        entry: JournalEntry,
        events: Sequence[NewEvent] = (),
        state: StateChange | None = None,
    ) -> list[StoredEvent]:
        """See `RunStore`."""
        run = self._owned(run_id, fence)
        if state is not None:
            await self.save_state(state)
        self._data.journals.setdefault(run_id, {})[entry.ordinal] = entry
        return self._append(run, events)

    # Artifacts

    async def put_artifact(
        self, run_id: str, fence: int, name: str, data: bytes, mime_type: str, attempt: int
    ) -> ArtifactRecord:
        """See `RunStore`."""
        run = self._owned(run_id, fence)
        digest = hashlib.sha256(data).hexdigest()
        self._data.blobs[digest] = bytes(data)
        record = ArtifactRecord(name, mime_type, len(data), digest, attempt)
        run.artifacts += (record,)
        return record

    async def artifacts(self, run_id: str, attempt: int) -> list[ArtifactRecord]:
        """See `RunStore`."""
        latest = {one.name: one for one in self._data.runs[run_id].artifacts if one.attempt == attempt}
        return [latest[name] for name in sorted(latest)]

    async def artifact(self, run_id: str, name: str) -> ArtifactRecord | None:
        """See `RunStore`."""
        found = [one for one in self._data.runs[run_id].artifacts if one.name == name]
        return found[-1] if found else None

    async def read_artifact(self, sha256: str, *, start: int = 0, length: int | None = None) -> bytes:
        """See `RunStore`."""
        if sha256 not in self._data.blobs:
            raise StoreUnavailable("the artifact cannot be read: it is gone")
        return self._data.blobs[sha256][start : None if length is None else start + length]

    # State

    async def load_state(self, scope: str) -> tuple[JSONObject, int] | None:
        """See `RunStore`."""
        return self._data.states.get(scope)

    async def save_state(self, change: StateChange) -> None:
        """See `RunStore`."""
        if self._data.states.get(change.scope, ({}, 0))[1] != change.version:
            raise StateConflict("the state was saved by another run since it was loaded; load it again")
        self._data.states[change.scope] = change.value, change.version + 1

    # Upkeep

    async def prune(self, before: float) -> int:
        """See `RunStore`."""
        old = [run for run in self._data.runs.values() if run.state in FINAL and run.updated_at < before]
        for run in old:
            new = run.new
            del self._data.runs[new.run_id]
            if new.idempotency_key is not None:
                del self._data.keys[new.agent, new.principal, new.idempotency_key]
            for id in run.requests:
                del self._data.requests[id]
            self._data.journals.pop(new.run_id, None)
            self._data.cancel_asked.discard(new.run_id)
            for attempt in range(1, run.attempt + 1):
                self._data.emitted.pop((new.run_id, attempt), None)
        used = {one.sha256 for run in self._data.runs.values() for one in run.artifacts}
        self._data.blobs = {digest: data for digest, data in self._data.blobs.items() if digest in used}
        return len(old)

    async def close(self) -> None:
        """See `RunStore`."""
        self._data.owners.discard(self._owner)

    def _owned(self, run_id: str, fence: int) -> _Run:
        run = self._data.runs.get(run_id)
        if run is None or run.fence != fence or run.state in FINAL:
            raise lease_lost()
        return run

    def _append(self, run: _Run, events: Sequence[NewEvent]) -> list[StoredEvent]:
        if not events:
            return []
        first = len(run.events) + 1
        stored = [StoredEvent(first + i, one.kind, one.payload, one.at) for i, one in enumerate(events)]
        run.events += stored
        for one in events:
            if one.ordinal is not None:
                place = run.new.run_id, one.attempt
                self._data.emitted[place] = max(one.ordinal, self._data.emitted.get(place, 0))
        run.updated_at = events[-1].at
        return stored
