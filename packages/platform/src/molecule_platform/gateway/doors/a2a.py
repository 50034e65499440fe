"""The platform's A2A path: lenient, both dialects. A message is accepted, perhaps held for, and answered."""

import asyncio
import re
from dataclasses import dataclass

from molecule_platform.api import errors
from molecule_platform.api.calls import Call, Reply
from molecule_platform.domain import authorisation
from molecule_platform.domain.lifecycle import ALIVE
from molecule_platform.domain.messages import Message
from molecule_platform.domain.refusals import Refusal
from molecule_platform.domain.workspaces import Workspace, invalid
from molecule_platform.gateway.doors import outcomes
from molecule_platform.services import replies
from molecule_platform.services.authority import Authority
from molecule_platform.services.delivery import Delivery, Receipt, Submission
from molecule_platform.services.replies import Replies
from molecule_platform.services.tasks import Tasks
from molecule_wire import JSON
from molecule_wire.a2a import envelopes, operations, versions
from molecule_wire.a2a import errors as a2a_errors
from molecule_wire.a2a.envelopes import Request

HOLD_MOST_SECONDS = 1800.0
TIMEOUT_MOST_SECONDS = 86_400
READ_ON_LOOP_BYTES = 256 * 1024
_PRINTABLE = re.compile(r"[\x20-\x7e]{1,255}")


@dataclass(frozen=True)
class Wishes:
    """What the headers of a send ask for."""

    hold_seconds: float
    timeout_seconds: int | None
    idempotency_key: str | None
    never_queue: bool


class A2aDoor:
    """Serves POST /workspaces/{id}/a2a."""

    def __init__(self, authority: Authority, delivery: Delivery, replies: Replies, tasks: Tasks) -> None:
        self._authority = authority
        self._delivery = delivery
        self._replies = replies
        self._tasks = tasks

    async def handle(self, call: Call) -> Reply:
        """Answer one JSON-RPC request; whatever goes wrong comes back as an error object with its id."""
        rpc_id: JSON = None
        try:
            version = versions.named(call.headers.get("a2a-version"), _first(call.query.get("A2A-Version")))
            await self._authority.same_org(call.principal, call.path["id"])
            request = await _parsed(call.raw, version)
            rpc_id = request.id
            return await self._serve(call, request)
        except a2a_errors.A2AError as problem:
            return outcomes.protocol_error(
                problem, call.request_id, problem.rpc_id if rpc_id is None else rpc_id
            )
        except Refusal as refusal:
            return errors.jsonrpc(refusal, call.request_id, rpc_id)

    async def _serve(self, call: Call, request: Request) -> Reply:
        if request.operation is operations.SEND and replies.is_reply(call.principal, request.role):
            return await self._reply(call, request)
        if request.operation is operations.GET:
            return await self._get_task(call, request)
        call.admission = await self._authority.admit(call.principal, call.route.who, call.path["id"])
        if request.operation is operations.SEND:
            return await self._send(call, request)
        if request.operation is None:
            raise a2a_errors.protocol_error(
                a2a_errors.METHOD_NOT_FOUND, f"{request.method[:64]} is not known here"
            )
        sentence = f"{request.method} is not served yet: use {operations.SEND.method(request.dialect)}"
        raise a2a_errors.protocol_error(a2a_errors.UNSUPPORTED_OPERATION, sentence)

    async def _get_task(self, call: Call, request: Request) -> Reply:
        """Who may see a task is decided by the task: its parties and the organisation's readers."""
        workspace = await self._authority.same_org(call.principal, call.path["id"])
        task = await self._tasks.get(call.principal, workspace, request)
        return Reply(envelopes.result_envelope(request.id, task))

    async def _reply(self, call: Call, request: Request) -> Reply:
        authorisation.permit(call.principal, (authorisation.workspace_with("ws.send"),), None, None)
        target = await self._authority.same_org(call.principal, call.path["id"])
        submission = Submission(call.principal, target, request)
        names = replies.names_of(request, call.headers.get("x-molecule-in-reply-to"))
        replied = await self._replies.reply(submission, names)
        result: JSON = {"settled": replied.settled, "message_id": replied.message_id}
        return Reply(envelopes.result_envelope(request.id, result))

    async def _send(self, call: Call, request: Request) -> Reply:
        target = call.workspace
        wishes = self._wishes(call, request, target)
        submission = Submission(
            call.principal,
            target,
            request,
            wishes.idempotency_key,
            wishes.timeout_seconds,
            wishes.hold_seconds,
            wishes.never_queue,
            call.arrival.traceparent,
        )
        receipt = await self._delivery.accept(submission)
        message = await self._held(call, receipt, submission)
        return await self._answer(call, request, receipt, message)

    async def _held(self, call: Call, receipt: Receipt, submission: Submission) -> Message:
        """Wait with the caller for the outcome; its going away never cancels the message."""
        message, seconds = receipt.message, submission.hold_seconds
        if not message.is_open or seconds <= 0:
            return message
        waiting = asyncio.ensure_future(self._delivery.outcome(message.id, seconds))
        leaving = asyncio.ensure_future(call.disconnected())
        try:
            await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
            current = waiting.result() if waiting.done() else message
        finally:
            waiting.cancel()
            leaving.cancel()
        return await self._delivery.let_go(message.id, submission) if current.is_open else current

    async def _answer(self, call: Call, request: Request, receipt: Receipt, message: Message) -> Reply:
        replayed = (("idempotency-replayed", "true"),) if receipt.replayed else ()
        if not message.is_open:
            return outcomes.ended(message, request, call.request_id, replayed)
        depth = await self._delivery.queue_depth(message.target_id)
        return outcomes.queued(message, request, call.workspace, call.base_url, depth, replayed)

    def _wishes(self, call: Call, request: Request, target: Workspace) -> Wishes:
        timeout = _timeout(call.headers.get("x-timeout"))
        hold = self._hold(call.headers.get("prefer", ""), request, target)
        return Wishes(
            hold_seconds=min(hold, timeout or hold),
            timeout_seconds=timeout,
            idempotency_key=_key(call.headers.get("idempotency-key")),
            never_queue=call.headers.get("x-molecule-queue", "").lower() == "never",
        )

    def _hold(self, prefer: str, request: Request, target: Workspace) -> float:
        if "respond-async" in prefer or not request.blocking or target.status not in ALIVE:
            return 0.0
        asked = re.search(r"wait=(\d{1,5})", prefer)
        return min(float(asked[1]), HOLD_MOST_SECONDS) if asked else self._delivery.limits.hold_seconds


def _first(values: list[str] | None) -> str | None:
    return values[0] if values else None


async def _parsed(body: bytes, version: str) -> Request:
    """The request; a large body is read beside the event loop."""
    if len(body) <= READ_ON_LOOP_BYTES:
        return envelopes.parse_request(body, version=version, lenient=True)
    return await asyncio.to_thread(envelopes.parse_request, body, version=version, lenient=True)


def _timeout(given: str | None) -> int | None:
    if given is None:
        return None
    if not given.isdecimal() or not 1 <= int(given) <= TIMEOUT_MOST_SECONDS:
        raise invalid("X-Timeout", f"X-Timeout is a whole number of seconds from 1 to {TIMEOUT_MOST_SECONDS}")
    return int(given)


def _key(given: str | None) -> str | None:
    if given is not None and not _PRINTABLE.fullmatch(given):
        raise invalid("Idempotency-Key", "Idempotency-Key has 1 to 255 printable characters")
    return given
