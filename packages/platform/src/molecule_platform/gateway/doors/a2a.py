"""The platform's A2A path: lenient, both dialects. A message is accepted, perhaps held for, and answered."""

from molecule_platform.api.calls import Call, Reply
from molecule_platform.api.nouns.a2a import SENDERS
from molecule_platform.domain import authorisation
from molecule_platform.domain.correspondence import ANSWERERS
from molecule_platform.domain.lifecycle import ALIVE
from molecule_platform.domain.refusals import Refusal
from molecule_platform.gateway.doors import asks, outcomes
from molecule_platform.gateway.doors.asks import Ask
from molecule_platform.gateway.doors.outcomes import PlatformFraming
from molecule_platform.gateway.doors.sending import REPLAYED, Sending
from molecule_platform.gateway.doors.task_operations import TaskOperations
from molecule_platform.services import replies
from molecule_platform.services.authority import Authority
from molecule_platform.services.delivery import Submission
from molecule_platform.services.relaying import Relaying
from molecule_platform.services.replies import Replies
from molecule_wire import JSON, jsontext
from molecule_wire.a2a import operations
from molecule_wire.a2a.envelopes import Request
from molecule_wire.a2a.errors import A2AError
from molecule_wire.a2a.server.bindings import JsonRpcBinding
from molecule_wire.a2a.server.requests import Invocation


class A2aDoor:
    """Serves POST /workspaces/{id}/a2a."""

    def __init__(
        self,
        authority: Authority,
        sending: Sending,
        served: TaskOperations,
        replies: Replies,
        relaying: Relaying,
    ) -> None:
        self._authority = authority
        self._sending = sending
        self._served = served
        self._replies = replies
        self._relaying = relaying

    async def handle(self, call: Call) -> Reply:
        """Answer one JSON-RPC request; whatever goes wrong comes back as an error object with its id."""
        try:
            invocation = await asks.json_rpc(self._authority, call, lenient=True)
        except A2AError as problem:
            return PlatformFraming(JsonRpcBinding(problem.rpc_id, "1.0")).problem(problem, call.request_id)
        except Refusal as refusal:
            return PlatformFraming(JsonRpcBinding(None, "1.0")).refusal(refusal, call.request_id)
        framing = PlatformFraming(invocation.binding)
        try:
            return await self._perform(call, invocation, framing)
        except A2AError as problem:
            return framing.problem(problem, call.request_id, invocation.request.operation)
        except Refusal as refusal:
            return framing.refusal(refusal, call.request_id)

    async def _perform(self, call: Call, invocation: Invocation, framing: PlatformFraming) -> Reply:
        request = invocation.request
        if request.operation in asks.SENDS and replies.is_reply(call.principal, request.role):
            return await self._reply(call, request, framing)
        if request.operation is None:
            return await self._relay(call, request, framing)
        return await self._serve(await asks.ask_of(self._authority, call, invocation, framing))

    async def _reply(self, call: Call, request: Request, framing: PlatformFraming) -> Reply:
        authorisation.permit(call.principal, ANSWERERS, None, None)
        target = await self._authority.same_org(call.principal, call.path["id"])
        submission = Submission(call.principal, target, request)
        names = replies.names_of(request, call.headers.get("x-molecule-in-reply-to"))
        replied = await self._replies.reply(submission, names)
        result: JSON = {"settled": replied.settled, "message_id": replied.message_id}
        return framing.reply(jsontext.encode(result), REPLAYED if replied.replayed else ())

    async def _relay(self, call: Call, request: Request, framing: PlatformFraming) -> Reply:
        """A method that A2A does not know is for the agent to know, if the caller may send to it."""
        admission = await self._authority.admit(call.principal, SENDERS, call.path["id"], to_send=True)
        assert admission.workspace is not None
        delivery = self._sending.delivery
        hold = delivery.limits.hold_seconds
        submission = Submission(
            call.principal,
            admission.workspace,
            request,
            timeout_seconds=asks.wishes(call, request, hold).timeout_seconds or max(1, int(hold)),
            traceparent=call.arrival.traceparent,
            request_id=call.request_id,
            repeat_by_reference=False,
        )
        asked, target = await delivery.draft(submission)
        return framing.reply(await self._relaying.relay(asked, target))

    async def _serve(self, ask: Ask) -> Reply:
        if ask.request.operation not in asks.SENDS:
            return await self._served.serve(ask)
        streams = ask.request.operation is operations.STREAM
        is_waited_for = ask.workspace.status in ALIVE and not streams
        hold = self._sending.delivery.limits.hold_seconds if is_waited_for else None
        wishes = asks.wishes(ask.call, ask.request, hold)
        submission = await self._sending.submission(ask, wishes, by_reference=True)
        return await (self._sending.stream if streams else self._send)(ask, submission)

    async def _send(self, ask: Ask, submission: Submission) -> Reply:
        receipt, message = await self._sending.unary(ask, submission)
        named = (("x-molecule-message-id", message.id),)
        headers = (*ask.echoed, *named, *(REPLAYED if receipt.replayed else ()))
        if not message.is_open:
            return outcomes.ended(ask, message, headers)
        message, task = await self._sending.delivery.show(message.id)
        if not message.is_open:
            return outcomes.ended(ask, message, headers)
        depth = await self._sending.delivery.queue_depth(message.target_id)
        return outcomes.queued(ask, message, task, depth, headers)
