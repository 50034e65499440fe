"""The inbox doors: an agent behind any NAT takes its mail and answers it."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from molecule_platform.domain import messages, principals, results
from molecule_platform.domain.messages import Message
from molecule_platform.domain.workspaces import invalid
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.mailbox import InboxFilter
from molecule_platform.ports.metrics import DeliveryMetrics
from molecule_platform.services.messaging.delegations.delegation_service import EvidenceItem
from molecule_platform.services.messaging.inbox.inbox_answers import InboxAnswer
from molecule_platform.services.messaging.inbox.inbox_progress import InboxProgress, ProgressReport
from molecule_platform.services.messaging.inbox.inbox_service import InboxService, LeaseRequest
from molecule_platform.services.messaging.messages.message_queries import MessageQueries
from molecule_platform.web.pipeline import request_limits
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.routes import inbox_schemas as shapes
from molecule_wire import errors, times
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


MAX_WAIT_SECONDS = 60.0
LEASE_SHORTEST, LEASE_LONGEST = 10.0, 3600.0
LIMIT_MOST = 100
DELAY_MOST = 3600.0
ERROR_LONGEST = 4000


class InboxHandlers:
    """Serves /workspaces/{id}/inbox and what is below it."""

    def __init__(
        self,
        inbox: InboxService,
        progress: InboxProgress,
        mail: MessageQueries,
        measures: DeliveryMetrics,
        clock: Clock,
        limits: JSONLimits,
    ) -> None:
        self._inbox = inbox
        self._progress = progress
        self._mail = mail
        self._measures = measures
        self._clock = clock
        self._limits = limits

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {
            "inbox.peek": self.peek,
            "inbox.lease": self.lease,
            "inbox.extend": self.extend,
            "inbox.progress": self.progress,
            "inbox.answer": self.answer,
            "inbox.ack": self.ack,
            "inbox.fail": self.fail,
            "inbox.release": self.release,
            "inbox.redeliver": self.redeliver,
        }

    async def peek(self, call: Call) -> Response:
        """What is open, or dead, without any effect."""
        asked: shapes.PeekInbox = call.query_params
        caller = None if asked.peer_id is None else principals.workspace_principal(asked.peer_id.lower())
        wanted = InboxFilter(asked.status, asked.kind, caller, asked.context_id)
        return Response(
            await self._inbox.peek(call.workspace, call.base_url, asked.limit, asked.wait, wanted)
        )

    async def lease(self, call: Call) -> Response:
        """Claim the next messages."""
        body: shapes.LeaseInbox = call.body
        _check_bounds("limit", body.limit, 1, LIMIT_MOST)
        _check_bounds("lease", body.lease, LEASE_SHORTEST, LEASE_LONGEST)
        wish = LeaseRequest(
            limit=body.limit,
            lease_seconds=body.lease,
            kinds=tuple(body.kinds),
            peer_id=body.peer_id,
            context_id=body.context_id,
            worker=body.worker,
            parallel_contexts=body.parallel_contexts,
        )
        wait = min(max(body.wait, 0.0), MAX_WAIT_SECONDS)
        mail = await self._inbox.lease(call.workspace, call.base_url, wish, wait, call.watch_caller())
        self._count_taken(mail["messages"])
        return Response(mail)

    def _count_taken(self, items: list[dict[str, Any]]) -> None:
        for item in items:
            if item["attempt"] == 1:
                waited = self._clock.now() - times.parse_time(item["created_at"])
                self._measures.taken(max(waited.total_seconds(), 0.0))

    async def extend(self, call: Call) -> Response:
        """Keep a lease longer."""
        body: shapes.ExtendLease = call.body
        _check_bounds("seconds", body.seconds, 1, LEASE_LONGEST)
        message = await self._inbox.extend(call.workspace, _name(call), body.lease_token, body.seconds)
        assert message.lease_expires_at is not None
        until = times.format_time(message.lease_expires_at)
        return Response({"expires_at": until, "cancel_requested": message.cancel_requested})

    async def progress(self, call: Call) -> Response:
        """Tell whoever follows how the work goes on."""
        body: shapes.ReportProgress = call.body
        check_parts(body, self._limits)
        report = report_of(body)
        reported = await self._progress.report(call.workspace, _name(call), body.lease_token, report)
        return Response({"seq": reported.seq, "cancel_requested": reported.cancel_requested})

    async def answer(self, call: Call) -> Response:
        """Settle with what the agent said."""
        body: shapes.AnswerMessage = call.body
        check_parts(body, self._limits)
        answer = answer_of(body)
        message = await self._inbox.answer(call.workspace, _name(call), body.lease_token, answer)
        self._measures.attempt("answered")
        return Response({"status": "answered", "message_id": message.id})

    async def ack(self, call: Call) -> Response:
        """Settle without words."""
        body: shapes.AckMessage = call.body
        message = await self._inbox.ack(call.workspace, _name(call), body.lease_token)
        self._measures.attempt("answered")
        return Response({"status": "answered", "message_id": message.id})

    async def fail(self, call: Call) -> Response:
        """Give up on this attempt."""
        body: shapes.FailMessage = call.body
        sentence = (body.error or body.reason or "the agent could not handle the message")[:ERROR_LONGEST]
        failure = messages.failure(errors.of_agent(body.code), sentence, retryable=body.retryable)
        delay = None if body.delay_seconds is None else min(max(body.delay_seconds, 0.0), DELAY_MOST)
        message = await self._inbox.fail(call.workspace, _name(call), body.lease_token, failure, delay)
        self._measures.attempt("retry" if message.is_open else "failed")
        return Response({**_standing(message), "attempts": message.attempts})

    async def release(self, call: Call) -> Response:
        """Give a message back unstarted."""
        body: shapes.ReleaseMessage = call.body
        message = await self._inbox.release(call.workspace, _name(call), body.lease_token)
        return Response({**_standing(message), "releases": message.releases})

    async def redeliver(self, call: Call) -> Response:
        """Give a dead letter all its attempts again."""
        message = await self._mail.redeliver(call.workspace, _name(call))
        return Response(results.message_row(message, call.workspace.delivery_mode), 202)


def _name(call: Call) -> str:
    return call.path["message_id"]


def _standing(message: Message) -> dict[str, Any]:
    """Whether the message waits again, and until when."""
    again = message.not_before if message.is_open else None
    return {"status": message.status, "next_attempt_at": None if again is None else times.format_time(again)}


def _check_bounds(field: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise invalid(field, f"{field} is between {least:g} and {most:g}")
