"""A delegation as others see it: a row of a list, the whole, an event, and the work as its agent gets it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from molecule_platform.domain.delegations import Delegation, Evidence
from molecule_platform.domain.log_limits import loggable_error
from molecule_wire import redaction, times
from molecule_wire.a2a import text

_ON_THE_WAY = ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
SUMMARY_LONGEST = 200
MAX_PREVIEW_LENGTH = 300
MAX_PROGRESS_LENGTH = 1000


def list_view(delegation: Delegation) -> dict[str, Any]:
    """One row of a list."""
    row: dict[str, Any] = {
        "id": delegation.id,
        "type": "delegate",
        "delegation_id": delegation.id,
        "source_id": delegation.source_id,
        "target_id": delegation.target_id,
        "summary": summary(delegation),
        "status": delegation.status,
        "outcome": delegation.outcome,
        "created_at": times.format_time(delegation.created_at),
        "updated_at": times.format_time(delegation.updated_at),
        "deadline_at": times.format_time(delegation.deadline_at),
        "message_id": delegation.message_id,
    }
    if delegation.error is not None:
        row["error"] = str(delegation.error["message"])
    if delegation.result is not None:
        row["response_preview"] = str(delegation.result["text"])[:MAX_PREVIEW_LENGTH]
    return row


def summary(delegation: Delegation) -> str:
    """The first words of the task, on one line."""
    return " ".join(delegation.task[: SUMMARY_LONGEST * 2].split())[:SUMMARY_LONGEST]


def progress(event: dict[str, Any]) -> dict[str, Any] | None:
    """What a 1.0 event of its task tells of the work: words on the way, or something new that was made.

    None for all else: how it stands and how it ends is told of the delegation itself.
    """
    made: dict[str, Any] | None = event.get("artifactUpdate")
    if made is not None:
        artifact: dict[str, Any] = made.get("artifact", {})
        named = {"artifact_id": artifact.get("artifactId"), "name": artifact.get("name")}
        return None if made.get("append") else {"artifact": named}
    status: dict[str, Any] = event.get("statusUpdate", {}).get("status", {})
    words = text.text_of_message(status.get("message"))
    if status.get("state") not in _ON_THE_WAY or not words:
        return None
    return {"text": redaction.redact_start(words, MAX_PROGRESS_LENGTH, redaction.LOG)}


def full_view(delegation: Delegation, evidence: Sequence[Evidence]) -> dict[str, Any]:
    """Everything, with the full result."""
    return {
        "delegation_id": delegation.id,
        "source": delegation.source,
        "source_id": delegation.source_id,
        "target_id": delegation.target_id,
        "task": delegation.task,
        "status": delegation.status,
        "outcome": delegation.outcome,
        "message_id": delegation.message_id,
        "parent_delegation_id": delegation.parent_id,
        "retry_of": delegation.retry_of,
        "recorded": delegation.recorded,
        "depth": delegation.depth,
        "chain": delegation.chain,
        "deadline_at": times.format_time(delegation.deadline_at),
        "deliverables": [_deliverable(one, evidence) for one in delegation.deliverables],
        "evidence": [_shown(one) for one in evidence],
        "incomplete": bool(delegation.missing),
        "missing": delegation.missing or [],
        "result": delegation.result,
        "error": delegation.error,
        "attempts": delegation.attempts,
        "created_at": times.format_time(delegation.created_at),
        "updated_at": times.format_time(delegation.updated_at),
        "dispatched_at": _time(delegation.dispatched_at),
        "finished_at": _time(delegation.finished_at),
        "reported_at": _time(delegation.reported_at),
    }


def _deliverable(one: Any, evidence: Sequence[Evidence]) -> dict[str, Any]:
    shown = [each.id for each in evidence if each.deliverable == one["name"]]
    return {**one, "satisfied": bool(shown), "evidence_ids": shown}


def _shown(evidence: Evidence) -> dict[str, Any]:
    return {
        "evidence_id": evidence.id,
        "deliverable": evidence.deliverable,
        "kind": evidence.kind,
        "uri": evidence.uri,
        "text": evidence.text,
        "sha256": evidence.sha256,
        "media_type": evidence.media_type,
        "note": evidence.note,
        "by": evidence.by,
        "created_at": times.format_time(evidence.created_at),
    }


def outcome_view(delegation: Delegation, **more: Any) -> dict[str, Any]:
    """What its events say: how it stands, and never what was answered."""
    payload: dict[str, Any] = {
        "delegation_id": delegation.id,
        "source_id": delegation.source_id,
        "target_id": delegation.target_id,
        "message_id": delegation.message_id,
        "status": delegation.status,
        "outcome": delegation.outcome,
    }
    if delegation.missing:
        payload |= {"incomplete": True, "missing": delegation.missing}
    if delegation.error is not None:
        sentence = loggable_error(str(delegation.error["message"]))
        payload["error"] = {"code": delegation.error["code"], "message": sentence}
    return payload | more


def metadata(delegation: Delegation) -> dict[str, Any]:
    """What its agent is told of it beside the words of the task."""
    told_too: dict[str, Any] = {
        "delegation_id": delegation.id,
        "deadline_at": times.format_time(delegation.deadline_at),
    }
    if delegation.deliverables:
        told_too["deliverables"] = list(delegation.deliverables)
    if delegation.context is not None:
        told_too["context"] = delegation.context
    return told_too


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else times.format_time(moment)
