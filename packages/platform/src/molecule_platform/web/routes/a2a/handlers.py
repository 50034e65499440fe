"""A2A to an agent, both versions: strict below /agents/{id}, lenient at the platform's own path.

A message is accepted, perhaps waited for, and answered.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from molecule_platform.domain import authorisation
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.lifecycle import ALIVE
from molecule_platform.domain.message_access import ANSWERERS
from molecule_platform.domain.messages import Message
from molecule_platform.services.identity.authorizer import Authorizer
from molecule_platform.services.messaging.messages import replies
from molecule_platform.services.messaging.messages.new_message import NewMessage
from molecule_platform.services.messaging.messages.passthrough import PassthroughService
from molecule_platform.services.messaging.messages.replies import Replies
from molecule_platform.web.pipeline import request_limits
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.routes.a2a import a2a_call, platform_responses
from molecule_platform.web.routes.a2a.a2a_call import A2ACall
from molecule_platform.web.routes.a2a.platform_responses import PlatformResponseWriter
from molecule_platform.web.routes.a2a.response_writer import A2AResponseWriter, Headers
from molecule_platform.web.routes.a2a.schemas import BINDINGS, SENDERS
from molecule_platform.web.routes.a2a.send_handler import REPLAYED, SendHandler
from molecule_platform.web.routes.a2a.task_handlers import A2ATaskHandlers
from molecule_wire import JSON, jsontext
from molecule_wire.a2a import operations
from molecule_wire.a2a.envelopes import A2ARequest
from molecule_wire.a2a.errors import A2AError
from molecule_wire.a2a.server import requests
from molecule_wire.a2a.server.bindings import JsonRpcBinding, RestBinding
from molecule_wire.a2a.server.requests import SENDS, Invocation, RestPath
from molecule_wire.jsonlimits import JSONLimits


@dataclass(frozen=True)
class A2AHandlers:
    """Serves POST /workspaces/{id}/a2a, and /agents/{id} with everything of A2A below it."""

    authority: Authorizer
    sending: SendHandler
    operations: A2ATaskHandlers
    replies: Replies
    relaying: PassthroughService
    blocking_seconds: float
    json_limits: JSONLimits

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {"a2a": self.platform, "agent.rpc": self.rpc, "agent.rest": self.rest}

    async def platform(self, call: Call) -> Response:
        """One JSON-RPC request at the platform's path."""
        read = partial(requests.json_rpc, call.raw, call.headers, a2a_call.query(call), lenient=True)
        return await self._answer(call, read, lenient=True)

    async def rpc(self, call: Call) -> Response:
        """One JSON-RPC request."""
        read = partial(requests.json_rpc, call.raw, call.headers, a2a_call.query(call))
        return await self._answer(call, read)

    async def rest(self, call: Call) -> Response:
        """One request of the HTTP+JSON binding."""
        bound = BINDINGS[call.route.method, call.route.path]
        path = RestPath(bound.operation, bound.dialect, call.path)
        read = partial(requests.of_rest, path, call.raw, call.headers, a2a_call.query(call))
        return await self._answer(call, read, requests.rest_binding(call.headers))

    async def _answer(
        self,
        call: Call,
        read: Callable[[], Invocation],
        binding: RestBinding | None = None,
        *,
        lenient: bool = False,
    ) -> Response:
        """Read a request and do what it asks; whatever goes wrong comes back as the caller reads it."""
        framed = PlatformResponseWriter if lenient else A2AResponseWriter
        framing, operation = None if binding is None else framed(binding), None
        try:
            invocation = await a2a_call.read(self.authority, call, read)
            framing, operation = framed(invocation.binding), invocation.request.operation
            return await self._perform(call, invocation, framing, lenient)
        except A2AError as problem:
            framing = framing or framed(JsonRpcBinding(problem.rpc_id, "1.0"))
            return framing.problem(problem, call.request_id, operation)
        except ApiError as refusal:
            framing = framing or framed(JsonRpcBinding(None, "1.0"))
            return framing.refusal(refusal, call.request_id)

    async def _perform(
        self, call: Call, invocation: Invocation, framing: A2AResponseWriter, lenient: bool
    ) -> Response:
        request = invocation.request
        if request.message is not None:
            request_limits.check_parts(request.message.get("parts"), self.json_limits)
        if lenient and request.operation in SENDS and replies.is_reply(call.principal, request.role):
            return await self._reply(call, request, framing)
        if lenient and request.operation is None:
            return await self._relay(call, request, framing)
        ask = await a2a_call.read_call(self.authority, call, invocation, framing)
        if request.operation in SENDS:
            return await self._send(ask, lenient)
        return await self.operations.serve(ask)

    async def _send(self, ask: A2ACall, lenient: bool) -> Response:
        hold = self.blocking_seconds
        if lenient:
            hold = self.sending.delivery.limits.hold_seconds if ask.workspace.status in ALIVE else None
        # A client that does not want to be held follows /messages/{id}/events; its agent streams anyway.
        is_async = lenient and a2a_call.responds_async(ask.call)
        streams = ask.request.operation is operations.STREAM
        if streams and not is_async:
            # Before the message is accepted: a refused request must leave no message behind.
            ask.call.open_stream(ask.workspace.id)
        wishes = a2a_call.send_options(ask.call, ask.request, None if streams else hold)
        submission = await self.sending.submission(ask, wishes, by_reference=lenient)
        if streams and not is_async:
            return await self.sending.stream(ask, submission)
        receipt, message = await self.sending.unary(ask, submission)
        headers = (*ask.echoed, *(REPLAYED if receipt.replayed else ()))
        return await (self._tell_leniently if lenient else self._tell)(ask, message, headers)

    async def _tell(self, ask: A2ACall, message: Message, headers: Headers) -> Response:
        if not message.is_open:
            return ask.framing.reply(await self.sending.ended_task(ask, message), headers)
        _, task = await self.sending.delivery.show(message.id)
        return ask.framing.reply(ask.renderer.event({"task": task}), headers)

    # At the platform's path

    async def _reply(self, call: Call, request: A2ARequest, framing: A2AResponseWriter) -> Response:
        authorisation.permit(call.principal, ANSWERERS, None, None)
        target = await self.authority.same_org(call.principal, call.path["id"])
        submission = NewMessage(
            call.principal,
            target,
            request,
            traceparent=call.request.traceparent,
            begins_trace=call.request.begins_trace,
        )
        names = replies.names_of(request, call.headers.get("x-molecule-in-reply-to"))
        replied = await self.replies.reply(submission, names)
        result: JSON = {"settled": replied.settled, "message_id": replied.message_id}
        return framing.reply(jsontext.encode(result), REPLAYED if replied.replayed else ())

    async def _relay(self, call: Call, request: A2ARequest, framing: A2AResponseWriter) -> Response:
        """A method that A2A does not know is for the agent to know, if the caller may send to it."""
        admission = await self.authority.authorize(call.principal, SENDERS, call.path["id"], to_send=True)
        assert admission.workspace is not None
        delivery = self.sending.delivery
        hold = delivery.limits.hold_seconds
        submission = NewMessage(
            call.principal,
            admission.workspace,
            request,
            timeout_seconds=a2a_call.send_options(call, request, hold).timeout_seconds or max(1, int(hold)),
            traceparent=call.request.traceparent,
            request_id=call.request_id,
            repeat_by_reference=False,
        )
        asked, target = await delivery.preview(submission)
        return framing.reply(await self.relaying.relay(asked, target))

    async def _tell_leniently(self, ask: A2ACall, message: Message, headers: Headers) -> Response:
        headers = (*headers, ("x-molecule-message-id", message.id))
        if not message.is_open:
            return platform_responses.ended(ask, message, headers)
        message, task = await self.sending.delivery.show(message.id)
        if not message.is_open:
            return platform_responses.ended(ask, message, headers)
        depth = await self.sending.delivery.queue_depth(message.target_id)
        return platform_responses.queued(ask, message, task, depth, headers)
