"""JSON shapes of runs, events, interactions and artifacts, as the routes of a served agent show them."""

from collections.abc import Iterable
from datetime import UTC, datetime

from molecule_skill.events import ArtifactRef
from molecule_skill.store.records import ArtifactRecord, RequestRecord, RequestState, RunRecord, StoredEvent
from molecule_wire import JSON, JSONObject, times


def moment(seconds: float) -> str:
    """A time for the wire."""
    return times.format_time(datetime.fromtimestamp(seconds, UTC))


def event(stored: StoredEvent) -> JSONObject:
    """An event in the reply of an invocation."""
    return {"seq": stored.seq, "kind": stored.kind, "payload": stored.payload}


def dated_event(stored: StoredEvent) -> JSONObject:
    """An event in a list of events."""
    return {**event(stored), "at": moment(stored.at)}


def artifact_uri(run_id: str, name: str) -> str:
    """The name of an artifact that is the same wherever it is served."""
    return f"molecule://runs/{run_id}/artifacts/{name}"


def artifact(run_id: str, record: ArtifactRecord) -> JSONObject:
    """A reference to an artifact."""
    return {
        "name": record.name,
        "uri": artifact_uri(run_id, record.name),
        "mime_type": record.mime_type,
        "size_bytes": record.size_bytes,
    }


def artifacts(run_id: str, records: Iterable[ArtifactRecord]) -> list[JSON]:
    """References to artifacts."""
    return [artifact(run_id, record) for record in records]


def interaction(request: RequestRecord) -> JSONObject:
    """An interaction: what is asked, of which kind, until when, and what became of it."""
    return {
        "id": request.id,
        "kind": request.kind,
        **{name: value for name, value in request.prompt.items() if name not in ("id", "kind", "state")},
        "expires_at": moment(request.expires_at),
        "state": request.state.value,
    }


def open_interaction(requests: Iterable[RequestRecord]) -> JSONObject | None:
    """The interaction that a run waits for."""
    pending = [request for request in requests if request.state is RequestState.PENDING]
    return interaction(pending[-1]) if pending else None


def failure(record: RunRecord) -> JSONObject | None:
    """Why a run did not succeed."""
    failed = record.failure
    return None if failed is None else {"code": failed.code, "error": failed.error}


def run(record: RunRecord, waits_for: JSONObject | None, written: Iterable[ArtifactRecord]) -> JSONObject:
    """A run as it is now."""
    view: JSONObject = {
        "run_id": record.run_id,
        "skill": record.new.skill,
        "state": record.state.value,
        "attempt": record.attempt,
    }
    if record.state == "succeeded":
        view["result"] = record.result
    if (why := failure(record)) is not None:
        view["error"] = why
    if waits_for is not None:
        view["interaction"] = waits_for
    return {
        **view,
        "artifacts": artifacts(record.run_id, written),
        "changes": {"pending": []},
        "created_at": moment(record.new.created_at),
        "updated_at": moment(record.updated_at),
    }


def reference(view: JSONObject) -> ArtifactRef:
    """The reference that a shown artifact stands for."""
    return ArtifactRef(
        str(view["name"]), str(view["uri"]), str(view["mime_type"]), int(str(view["size_bytes"]))
    )
