"""The standard A2A base of every workspace: strict, JSON-RPC and HTTP+JSON, 1.0 and 0.3 on the same URLs."""

from molecule_platform.api.calls import Call, Handler, Reply
from molecule_platform.api.nouns.a2a import BINDINGS
from molecule_platform.domain.refusals import Refusal
from molecule_platform.gateway.doors import asks
from molecule_platform.gateway.doors.asks import Ask
from molecule_platform.gateway.doors.framing import Framing
from molecule_platform.gateway.doors.sending import REPLAYED, Sending
from molecule_platform.gateway.doors.task_operations import TaskOperations
from molecule_platform.services.authority import Authority
from molecule_wire.a2a import operations
from molecule_wire.a2a.errors import A2AError
from molecule_wire.a2a.server import requests
from molecule_wire.a2a.server.bindings import JsonRpcBinding
from molecule_wire.a2a.server.requests import Invocation


class StandardDoor:
    """Serves /agents/{id} and everything of A2A below it."""

    def __init__(
        self, authority: Authority, sending: Sending, served: TaskOperations, blocking_seconds: float
    ) -> None:
        self._authority = authority
        self._sending = sending
        self._served = served
        self._blocking_seconds = blocking_seconds

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {"agent.rpc": self.rpc, "agent.rest": self.rest}

    async def rpc(self, call: Call) -> Reply:
        """One JSON-RPC request."""
        try:
            invocation = await asks.json_rpc(self._authority, call, lenient=False)
        except A2AError as problem:
            return Framing(JsonRpcBinding(problem.rpc_id, "1.0")).problem(problem, call.request_id)
        except Refusal as refusal:
            return Framing(JsonRpcBinding(None, "1.0")).refusal(refusal, call.request_id)
        return await self._perform(call, invocation)

    async def rest(self, call: Call) -> Reply:
        """One request of the HTTP+JSON binding."""
        binding = requests.rest_binding(call.headers)
        bound = BINDINGS[call.route.method, call.route.path]
        try:
            invocation = await asks.rest(self._authority, call, bound, binding)
        except A2AError as problem:
            return Framing(binding).problem(problem, call.request_id)
        except Refusal as refusal:
            return Framing(binding).refusal(refusal, call.request_id)
        return await self._perform(call, invocation)

    async def _perform(self, call: Call, invocation: Invocation) -> Reply:
        framing = Framing(invocation.binding)
        try:
            return await self._serve(await asks.ask_of(self._authority, call, invocation, framing))
        except A2AError as problem:
            return framing.problem(problem, call.request_id, invocation.request.operation)
        except Refusal as refusal:
            return framing.refusal(refusal, call.request_id)

    async def _serve(self, ask: Ask) -> Reply:
        if ask.request.operation not in asks.SENDS:
            return await self._served.serve(ask)
        streams = ask.request.operation is operations.STREAM
        wishes = asks.wishes(ask.call, ask.request, None if streams else self._blocking_seconds)
        submission = await self._sending.submission(ask, wishes, by_reference=False)
        if streams:
            return await self._sending.stream(ask, submission)
        receipt, message = await self._sending.unary(ask, submission)
        headers = (*ask.echoed, *(REPLAYED if receipt.replayed else ()))
        if not message.is_open:
            return ask.framing.reply(await self._sending.ended_task(ask, message), headers)
        _, task = await self._sending.delivery.show(message.id)
        return ask.framing.reply(ask.renderer.event({"task": task}), headers)
