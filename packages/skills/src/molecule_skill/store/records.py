"""Rows of a run store: runs, events, interactions, journal entries, artifacts."""

from dataclasses import dataclass, field
from enum import StrEnum

from molecule_wire import JSON, JSONObject
from molecule_wire.values import value


class RunState(StrEnum):
    """State of a run; the last four are final."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def is_final(self) -> bool:
        """Whether nothing can come after it."""
        return self in FINAL


FINAL = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.EXPIRED})


class RequestState(StrEnum):
    """State of an interaction: one transition away from pending, decided by a conditional update."""

    PENDING = "pending"
    ANSWERED = "answered"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class RunFailure:
    """Why a run did not succeed; `status` is the HTTP status, `extras` are members of the error body."""

    code: str
    error: str
    status: int = 500
    extras: JSONObject = field(default_factory=dict[str, JSON])


@value
class NewRun:
    """What is known of a run before it has a row. Times are seconds since the epoch."""

    run_id: str
    agent: str
    skill: str
    principal: str
    arguments: JSONObject
    created_at: float
    org_id: str | None = None
    session_id: str | None = None
    idempotency_key: str | None = None
    body_hash: str = ""
    deadline: float | None = None
    auth: JSONObject = field(default_factory=dict[str, JSON])
    """The caller's model as JSON: what the context shows again after a restart. No credential is in it."""
    origin: JSONObject | None = None
    """What the transport wants to know again after a restart."""


@value
class RunRecord:
    """A run as its row says. `last_seq` is the number of its newest event; `fence` grows with each owner."""

    new: NewRun
    state: RunState
    attempt: int
    fence: int
    last_seq: int
    updated_at: float
    result: JSON = None
    failure: RunFailure | None = None

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.new.run_id


@value
class NewEvent:
    """An event to append; `ordinal` counts the author's emissions in one attempt, None for the engine's."""

    kind: str
    payload: JSONObject
    at: float
    attempt: int = 1
    ordinal: int | None = None


@value
class StoredEvent:
    """An event of a run; `seq` is counted from 1 without a gap."""

    seq: int
    kind: str
    payload: JSONObject
    at: float


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A row of `requests`: something that waits for a person. The rows of a run are its interactions."""

    id: str
    kind: str
    requester: str
    run_id: str
    prompt: JSONObject
    """What is shown, and the `schema` of the answer of a form."""
    created_at: float
    expires_at: float
    key: str | None = None
    ordinal: int = 0
    fingerprint: str = ""
    attempt: int = 1
    workspace_id: str = ""
    state: RequestState = RequestState.PENDING
    answer: JSON = None
    """The answer, or the reason of a denial."""
    answered_by: str | None = None
    answered_at: float | None = None


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A recorded effect of a run: a step, a call or an artifact.

    `state` is `started` while it runs, `done` with its value, `failed` when it raised. `runs` counts how
    often it was started: more than one says that a process ended in the middle of it.
    """

    ordinal: int
    kind: str
    key: str | None
    fingerprint: str
    state: str
    attempt: int
    runs: int = 1
    value: JSON = None


@dataclass(frozen=True, slots=True)
class StateChange:
    """A state to be saved over `version`, which is 0 where there is none yet."""

    scope: str
    value: JSONObject
    version: int


@dataclass(frozen=True, slots=True)
class ArtifactRecord:
    """The newest version of a file that a run wrote in its current attempt."""

    name: str
    mime_type: str
    size_bytes: int
    sha256: str
    attempt: int
