"""Records of a run store to and from rows of SQLite."""

from typing import Any, cast

from molecule_skill.store.records import (
    JournalEntry,
    NewEvent,
    NewRun,
    RequestRecord,
    RequestState,
    RunFailure,
    RunRecord,
    RunState,
)
from molecule_wire import JSON, JSONObject, jsontext

RUN_COLUMNS = (
    "run_id, agent, skill, principal, arguments, created_at, org_id, session_id, idempotency_key, body_hash,"
    " deadline, auth, origin, state, attempt, fence, last_seq, updated_at, result, failure"
)
REQUEST_COLUMNS = (
    "id, kind, requester, run_id, prompt_json, created_at, expires_at, key, ordinal, fingerprint, attempt,"
    " workspace_id, state, answer_json, answered_by, answered_at"
)
JOURNAL_COLUMNS = "ordinal, kind, key, fingerprint, state, attempt, runs, value"


def text_of(value: JSON) -> str:
    """JSON as text."""
    return jsontext.encode(value).decode()


def optional_text(value: JSON) -> str | None:
    """JSON as text, nothing for null."""
    return None if value is None else text_of(value)


def value_of(text: str | None) -> JSON:
    """The JSON of a text."""
    return None if text is None else jsontext.decode(text.encode())


def run_of(row: tuple[Any, ...]) -> RunRecord:
    """A run from its columns."""
    (run_id, agent, skill, principal, arguments, created_at, org_id, session_id, key, body_hash, deadline,
     auth, origin, state, attempt, fence, last_seq, updated_at, result, failure) = row  # fmt: skip
    new = NewRun(
        run_id,
        agent,
        skill,
        principal,
        object_of(arguments),
        created_at,
        org_id,
        session_id,
        key,
        body_hash,
        deadline,
        object_of(auth),
        None if origin is None else object_of(origin),
    )
    run_failure = None if failure is None else RunFailure(**cast("dict[str, Any]", value_of(failure)))
    return RunRecord(
        new, RunState(state), attempt, fence, last_seq, updated_at, value_of(result), run_failure
    )


def run_values(new: NewRun, owner: str) -> tuple[Any, ...]:
    """The values of a new run's row, in the order of `INSERT_RUN`, but for its state and newest event."""
    return (
        new.run_id,
        new.agent,
        new.skill,
        new.principal,
        text_of(new.arguments),
        new.created_at,
        new.org_id,
        new.session_id,
        new.idempotency_key,
        new.body_hash,
        new.deadline,
        text_of(new.auth) if new.auth else "{}",
        optional_text(new.origin),
        owner,
        new.created_at,
    )


INSERT_RUN = (
    "INSERT INTO runs (run_id, agent, skill, principal, arguments, created_at, org_id, session_id,"
    " idempotency_key, body_hash, deadline, auth, origin, owner, updated_at, state, last_seq, attempt, fence)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 1)"
)


def request_of(row: tuple[Any, ...]) -> RequestRecord:
    """An interaction from its columns."""
    (id, kind, requester, run_id, prompt, created_at, expires_at, key, ordinal, fingerprint, attempt,
     workspace_id, state, answer, answered_by, answered_at) = row  # fmt: skip
    return RequestRecord(
        id,
        kind,
        requester,
        run_id,
        object_of(prompt),
        created_at,
        expires_at,
        key,
        ordinal,
        fingerprint,
        attempt,
        workspace_id,
        RequestState(state),
        value_of(answer),
        answered_by,
        answered_at,
    )


def request_values(request: RequestRecord) -> tuple[Any, ...]:
    """The values of an interaction's row, in the order of `REQUEST_COLUMNS`."""
    return (
        request.id,
        request.kind,
        request.requester,
        request.run_id,
        text_of(request.prompt),
        request.created_at,
        request.expires_at,
        request.key,
        request.ordinal,
        request.fingerprint,
        request.attempt,
        request.workspace_id,
        request.state.value,
        optional_text(request.answer),
        request.answered_by,
        request.answered_at,
    )


def entry_of(row: tuple[Any, ...]) -> JournalEntry:
    """A journal entry from its columns."""
    ordinal, kind, key, fingerprint, state, attempt, runs, value = row
    return JournalEntry(ordinal, kind, key, fingerprint, state, attempt, runs, value_of(value))


def event_values(run: int, seq: int, event: NewEvent) -> tuple[Any, ...]:
    """The values of an event's row; `run` is the number of the run's row."""
    return run, seq, event.kind, text_of(event.payload), event.at, event.attempt, event.ordinal


def object_of(text: str) -> JSONObject:
    """The JSON object of a text."""
    return cast("JSONObject", value_of(text))
