"""What an agent says to a message, and the result that its sender gets of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from molecule_platform.domain import principals, results
from molecule_platform.domain.messages import Message
from molecule_platform.domain.workspaces import invalid
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.messaging.delegations import delegation_service
from molecule_platform.services.messaging.delegations.delegation_service import EvidenceItem
from molecule_platform.services.messaging.tasks import task_log
from molecule_wire import ids, times

STATES = ("completed", "rejected", "input-required", "auth-required")
# An agent that keeps tasks of its own may hand over one that ended badly.
TASK_STATES = (*STATES, "failed", "canceled")


@dataclass(frozen=True)
class InboxAnswer:
    """What an agent says: 1.0 parts, and the state its task is left in.

    `said` are the other members of its message, `task` those of its task; no parts at all is no message.
    `is_message` asks that the sender gets a bare message, `is_task` that it gets the agent's task.
    """

    parts: list[Any] | None
    state: str = "completed"
    artifacts: tuple[dict[str, Any], ...] = ()
    said: Mapping[str, Any] = field(default_factory=dict[str, Any])
    task: Mapping[str, Any] = field(default_factory=dict[str, Any])
    evidence: tuple[EvidenceItem, ...] = ()
    is_task: bool = False
    is_message: bool = False


def check_state(answer: InboxAnswer) -> None:
    """Refuse a state in which nothing has been answered."""
    allowed = TASK_STATES if answer.is_task else STATES
    if answer.state not in allowed:
        raise invalid("state", f"state is one of {', '.join(allowed)}; what goes on is progress")


def result_of(tx: Transaction, message: Message, answer: InboxAnswer, now: datetime) -> bytes:
    """The answer in the sender's dialect: a bare message, or the task with all artifacts told so far.

    What only a task can say makes it one: artifacts, a state other than completed, a task that goes on.
    Whoever was told of the task before reads a bare message there, as its last status.
    """
    content = None
    if answer.parts is not None:
        named = {"messageId": ids.uuid7(), **answer.said}
        content = {**named, "role": "ROLE_AGENT", "parts": answer.parts}
    artifacts = _all_artifacts(_known_artifacts(tx, message), answer.artifacts)
    is_first = message.task_id == message.id
    if (
        content is not None
        and answer.is_message
        and is_first
        and not artifacts
        and answer.state == "completed"
    ):
        return results.answer_message(message, content, answer.task.get("metadata", {}))
    at = times.format_time(now)
    return results.answer_task(message, answer.state, content, artifacts, at, dict(answer.task))


def is_same(message: Message, result: bytes) -> bool:
    """Whether the message was answered with this very content."""
    if message.status != "answered" or message.result is None:
        return False
    again = replace(message, result=result)
    return _content(message.result_json()) == _content(again.result_json())


def show_evidence(tx: Transaction, message: Message, evidence: Sequence[EvidenceItem], now: datetime) -> None:
    """Keep what the agent shows for the deliverables of the delegation that the message carries."""
    if not evidence:
        return
    delegation = None if message.delegation_id is None else tx.delegations.get(message.delegation_id)
    if delegation is None:
        raise invalid(
            "evidence", "this message carries no delegation, so there is nothing to show evidence for"
        )
    by = principals.workspace_principal(message.target_id)
    for one in evidence:
        delegation_service.attach(tx, delegation, by, one, now)


def _known_artifacts(tx: Transaction, message: Message) -> list[dict[str, Any]]:
    task = task_log.task_of(tx, message)
    return [] if task is None else task_log.folded(tx, task).get("artifacts", [])


def _all_artifacts(known: list[dict[str, Any]], told: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The known ones in their order, replaced where the answer tells one anew, then the new ones."""
    named = {str(artifact.get("artifactId")): artifact for artifact in known}
    for number, artifact in enumerate(told, start=1):
        name = artifact.get("artifactId") or f"artifact-{number}"
        named[name] = {**artifact, "artifactId": name}
    return list(named.values())


def _content(result: Any) -> tuple[Any, Any, Any]:
    """What an answer says, without the ids and times that each telling of it has of its own."""
    bare: Any = result.get("message", result)
    if "parts" in bare:
        return None, bare["parts"], None
    task: Any = result.get("task", result)
    status: Any = task.get("status", {})
    said: Any = status.get("message") or {}
    return status.get("state"), said.get("parts"), task.get("artifacts")
