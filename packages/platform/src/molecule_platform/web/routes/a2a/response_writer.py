"""Replies of the gateway to callers of A2A: framed by the caller's binding, with the platform's refusals."""

from molecule_platform.domain.errors import ApiError
from molecule_platform.web.pipeline import error_responses
from molecule_platform.web.pipeline.calls import Response
from molecule_wire.a2a.errors import GATEWAY_DOMAIN, A2AError
from molecule_wire.a2a.operations import Operation
from molecule_wire.a2a.server.bindings import Binding, JsonRpcBinding

Headers = tuple[tuple[str, str], ...]


class A2AResponseWriter:
    """The standard's own framing."""

    __slots__ = ("binding",)

    def __init__(self, binding: Binding) -> None:
        self.binding = binding

    def reply(self, result: bytes, headers: Headers = ()) -> Response:
        """A whole answer around a JSON text."""
        framed = self.binding.result(result)
        return Response(framed.body, framed.status, headers, framed.media)

    def problem(self, problem: A2AError, request_id: str, operation: Operation | None = None) -> Response:
        """An error instead of an answer."""
        framed = self.binding.error(traced(problem, request_id), operation)
        return Response(framed.body, framed.status, content_type=framed.media)

    def refusal(self, refusal: ApiError, request_id: str) -> Response:
        """A refusal of the platform, with its status."""
        if isinstance(self.binding, JsonRpcBinding):
            return error_responses.a2a_rpc(refusal, request_id, self.binding.rpc_id)
        return error_responses.a2a(refusal, request_id)


def traced(problem: A2AError, request_id: str) -> A2AError:
    """An error that names the request it answers, if it is the platform's own; a peer's stays as it came."""
    if problem.domain == GATEWAY_DOMAIN and not problem.of_peer:
        problem.metadata["request_id"] = request_id
    return problem
