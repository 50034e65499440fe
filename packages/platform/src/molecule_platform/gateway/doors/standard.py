"""The standard A2A base of every workspace: strict, JSON-RPC and HTTP+JSON, 1.0 and 0.3 on the same URLs."""

from molecule_platform.api.calls import Call, Handler, Reply
from molecule_platform.api.nouns.a2a import BINDINGS
from molecule_platform.domain.refusals import Refusal
from molecule_platform.gateway.doors import asks
from molecule_platform.gateway.doors.asks import Ask
from molecule_platform.gateway.doors.framing import RestFraming, RpcFraming
from molecule_platform.gateway.doors.sending import REPLAYED, Sending
from molecule_platform.gateway.doors.task_operations import TaskOperations
from molecule_platform.services.authority import Authority
from molecule_wire.a2a import operations
from molecule_wire.a2a.errors import A2AError

_UNREAD = RpcFraming(None, "1.0")


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
        framing = _UNREAD
        try:
            request = await asks.rpc_request(self._authority, call, lenient=False)
            framing = RpcFraming(request.id, request.dialect)
            ask = await asks.ask_of(self._authority, call, request, framing, request.dialect)
            return await self._serve(ask)
        except A2AError as problem:
            framing = RpcFraming(problem.rpc_id, framing.dialect) if framing.rpc_id is None else framing
            return framing.problem(problem, call.request_id)
        except Refusal as refusal:
            return framing.refusal(refusal, call.request_id)

    async def rest(self, call: Call) -> Reply:
        """One request of the HTTP+JSON binding."""
        framing = RestFraming(asks.rest_media(call))
        binding = BINDINGS[call.route.method, call.route.path]
        try:
            request = await asks.rest_request(self._authority, call, binding)
            spelling = "1.0" if binding.dialect == "1.0" else "0.3 REST"
            ask = await asks.ask_of(self._authority, call, request, framing, spelling)
            return await self._serve(ask)
        except A2AError as problem:
            return framing.problem(problem, call.request_id)
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
        return ask.framing.reply(ask.speech.task_result(task), headers)
