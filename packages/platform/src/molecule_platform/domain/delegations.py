"""Delegations: work that one asks of another, with a deadline, and an outcome that is always told.

pending --lease--> dispatched <--> queued        completed | failed, with the exact outcome beside it

A delegation follows the message that carries it. One that was only recorded is carried by nobody here: its
agents say how it ended, or its deadline does.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.messages import Message
from molecule_platform.domain.workspaces import invalid
from molecule_wire.a2a import convert, text

STATUSES = ("pending", "dispatched", "queued", "completed", "failed")
OUTCOMES = ("completed", "failed", "expired", "cancelled", "rejected")
OPEN = frozenset({"pending", "dispatched", "queued"})
ROLES = ("source", "target", "any")
REPORTS = ("events", "inbox")
EVIDENCE_KINDS = ("file", "url", "text", "test", "commit")

DEADLINE_SECONDS = 1800
MAX_DEADLINE_SECONDS = 604_800
ATTEMPTS, MAX_ATTEMPTS = 3, 20
MAX_DELIVERABLES = 50
MAX_EVIDENCE = 500
MAX_NAME_LENGTH = 200
# How long after its end something may still be handed in.
EVIDENCE_AFTER_END = timedelta(hours=1)
KEY_KEPT = timedelta(days=7)

_INTERRUPTED = ("auth-required", "input-required")
_OUTCOME_OF_STATE = {"failed": "failed", "rejected": "rejected", "canceled": "cancelled"}


@dataclass(frozen=True)
class Delegation:
    """One row of `delegations`.

    `source` is the principal that asked, `source_id` the workspace in whose name it did. `seq` is where the
    log stood when the delegation was made: its events come later, and lists are in this order.
    """

    id: str
    org_id: str
    source: str
    source_id: str
    target_id: str
    task: str
    body_hash: str
    root_id: str
    depth: int
    chain: list[str]
    deadline_at: datetime
    created_at: datetime
    updated_at: datetime
    seq: int = 0
    idempotency_key: str | None = None
    message_id: str | None = None
    parent_id: str | None = None
    calls: int = 1
    deliverables: Sequence[Mapping[str, Any]] = ()
    context: dict[str, Any] | None = None
    report: str = "events"
    status: str = "pending"
    outcome: str | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    missing: list[str] | None = None
    recorded: bool = False
    retry_of: str | None = None
    attempts: int = 0
    dispatched_at: datetime | None = None
    finished_at: datetime | None = None
    reported_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether its outcome is still to come."""
        return self.status in OPEN


@dataclass(frozen=True)
class Evidence:
    """One row of `delegation_evidence`: what somebody shows for a deliverable."""

    id: str
    org_id: str
    delegation_id: str
    deliverable: str
    kind: str
    by: str
    created_at: datetime
    uri: str | None = None
    text: str | None = None
    sha256: str | None = None
    media_type: str | None = None
    note: str | None = None


def followed(delegation: Delegation, message: Message) -> tuple[str, str | None]:
    """The status that a message of the delegation's task gives it, and the outcome if that is its end.

    An answer that asks for more input ends the message and not the task: the delegation stays dispatched. A
    later message of the task can end it only by an answer; if it fails, another one may follow.
    """
    if message.status == "leased":
        return "dispatched", None
    if message.status == "answered":
        return _answered(message.task_state or "completed")
    if message.id != delegation.message_id:
        return delegation.status, None
    if message.status == "accepted":
        waits_for_the_first_try = delegation.status == "pending" and message.attempts == 0
        return ("pending" if waits_for_the_first_try else "queued"), None
    return "failed", message.status


def _answered(state: str) -> tuple[str, str | None]:
    if state in _INTERRUPTED:
        return "dispatched", None
    outcome = _OUTCOME_OF_STATE.get(state, "completed")
    return status_of(outcome), outcome


def status_of(outcome: str) -> str:
    """The status of a delegation that ended like this."""
    return "completed" if outcome == "completed" else "failed"


def result_of(message: Message) -> dict[str, Any] | None:
    """All that an answer holds: its text, its parts and its artifacts, in the words of 1.0."""
    if message.status != "answered" or message.result is None:
        return None
    stored = message.result_json()
    modern = _object(convert.FROM_0_3.event(_object(stored)) if message.dialect == "0.3" else stored)
    task = _object(modern.get("task"))
    content = _object(_object(task.get("status")).get("message") or modern.get("message"))
    return {
        "text": text.text_of(stored),
        "parts": content.get("parts") or [],
        "artifacts": task.get("artifacts") or [],
    }


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def result_text(words: str) -> dict[str, Any]:
    """A result that is nothing but words."""
    return {"text": words, "parts": [{"text": words}] if words else [], "artifacts": []}


def missing(deliverables: Iterable[Mapping[str, Any]], evidence: Iterable[Evidence]) -> list[str]:
    """The required deliverables for which nobody has shown anything."""
    shown = {one.deliverable for one in evidence}
    return [str(one["name"]) for one in deliverables if one["required"] and one["name"] not in shown]


def check_deliverables(deliverables: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a list that is too long, or in which a name is missing or stands twice."""
    if len(deliverables) > MAX_DELIVERABLES:
        raise invalid("deliverables", f"a delegation has at most {MAX_DELIVERABLES} deliverables")
    names = [str(one["name"]) for one in deliverables]
    if not all(0 < len(name) <= MAX_NAME_LENGTH for name in names):
        raise invalid("deliverables", f"the name of a deliverable has 1 to {MAX_NAME_LENGTH} characters")
    if len(set(names)) < len(names):
        raise invalid("deliverables", "each deliverable has a name of its own")


def not_found(delegation_id: str) -> ApiError:
    """The one answer for an unknown delegation and for somebody else's."""
    return ApiError("delegation-not-found", f"there is no delegation {delegation_id[:64]} here")
