"""What agents say over the inbox, in either dialect of A2A, as answers and reports."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from molecule_platform.domain import results
from molecule_platform.domain.workspaces import invalid
from molecule_platform.services.messaging.delegations.delegation_service import EvidenceItem
from molecule_platform.services.messaging.inbox.inbox_answers import InboxAnswer
from molecule_platform.services.messaging.inbox.inbox_progress import ProgressReport
from molecule_platform.web.pipeline import request_limits
from molecule_platform.web.routes import inbox_schemas as shapes
from molecule_wire.a2a import convert
from molecule_wire.jsonlimits import JSONLimits

NUMBER_MAX = 2**31 - 1
# An answer is told under the names that its sender knows, whatever the agent calls its task and its message.
_OF_TASK = frozenset({"id", "contextId", "status", "artifacts", "kind"})
_OF_MESSAGE = frozenset({"parts", "role", "taskId", "contextId", "kind"})


def check_parts(body: shapes.ReportProgress | shapes.AnswerMessage, limits: JSONLimits) -> None:
    """Refuse more parts than one message or artifact may have, before anything is made of them."""
    if isinstance(body, shapes.ReportProgress):
        holders: list[Any] = [body.artifact]
    else:
        task = _object(body.task)
        status = _object(task.get("status"))
        holders = [{"parts": body.parts}, body.message, status.get("message"), *body.artifacts]
        for name in ("artifacts", "history"):
            holders += task[name] if isinstance(task.get(name), list) else ()
    for holder in holders:
        request_limits.check_parts(_object(holder).get("parts"), limits)


def report_of(body: shapes.ReportProgress) -> ProgressReport:
    """How far the work is."""
    parts = None if body.text is None else [{"text": body.text}]
    number = body.number
    if number is not None and not 1 <= number <= NUMBER_MAX:
        raise invalid("number", f"number counts the reports of one lease: 1 to {NUMBER_MAX}")
    if body.artifact is None:
        return ProgressReport(body.state, parts, metadata=body.metadata, number=number)
    artifact = dict(body.artifact)
    append, last = (artifact.pop(flag, None) is True for flag in ("append", "lastChunk"))
    if not isinstance(artifact.get("artifactId"), str) or not artifact["artifactId"]:
        raise invalid("artifact", "an artifact has an artifactId, the same for each piece of it")
    return ProgressReport(body.state, parts, _artifact(artifact), append, last, body.metadata, number)


def answer_of(body: shapes.AnswerMessage) -> InboxAnswer:
    """What the agent says at the end."""
    given = [name for name in ("text", "parts", "message", "task") if getattr(body, name) is not None]
    if len(given) != 1:
        raise invalid("text", "an answer has exactly one of text, parts, message and task")
    evidence = tuple(EvidenceItem(**msgspec.structs.asdict(one)) for one in body.evidence)
    artifacts = tuple(_artifact(one) for one in body.artifacts)
    usage = {"usage": body.usage} if body.usage else {}
    if body.task is not None:
        return _with_task(body.task, body.state, artifacts, usage, evidence)
    said = body.message
    if said is None:
        said = {"parts": [{"text": body.text}] if body.parts is None else body.parts}
    task = {"metadata": usage} if usage else {}
    state, bare = body.state or "completed", body.message is not None
    return InboxAnswer(_parts(said), state, artifacts, _rest(said), task, evidence, is_message=bare)


def _with_task(
    given: dict[str, Any],
    state: str | None,
    artifacts: tuple[dict[str, Any], ...],
    usage: dict[str, Any],
    evidence: tuple[EvidenceItem, ...],
) -> InboxAnswer:
    task = cast("dict[str, Any]", convert.FROM_0_3.task(given))
    status = _object(task.get("status"))
    said: Any = status.get("message")
    more = {name: value for name, value in task.items() if name not in _OF_TASK}
    if usage:
        more["metadata"] = {**_object(more.get("metadata")), **usage}
    return InboxAnswer(
        None if said is None else _parts(_object(said)),
        state or results.state_0_3(str(status.get("state", ""))),
        (*(_artifact(_object(one)) for one in task.get("artifacts") or ()), *artifacts),
        _rest(_object(said)),
        more,
        evidence,
        is_task=True,
    )


def _parts(said: Mapping[str, Any]) -> list[Any]:
    parts: Any = said.get("parts")
    if not isinstance(parts, list):
        raise invalid("message", "a message has a list of parts")
    return [convert.FROM_0_3.part(_object(part)) for part in cast("list[Any]", parts)]


def _rest(said: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a message beside those that an answer sets itself."""
    rest = {name: value for name, value in said.items() if name not in _OF_MESSAGE}
    if not isinstance(rest.get("messageId"), str) or not rest["messageId"]:
        rest.pop("messageId", None)
    if not isinstance(rest.get("metadata"), dict | None):
        raise invalid("message", "the metadata of a message is an object")
    return rest


def _artifact(given: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(given.get("parts"), list):
        raise invalid("artifact", "an artifact has a list of parts")
    return cast("dict[str, Any]", convert.FROM_0_3.artifact(given))


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
