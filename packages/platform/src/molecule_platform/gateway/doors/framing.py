"""How an answer is wrapped: JSON-RPC or HTTP+JSON, whole or event by event, and what an error looks like."""

from dataclasses import dataclass
from typing import Protocol

from molecule_platform.api import errors
from molecule_platform.api.calls import Reply
from molecule_platform.api.route import EVENT_STREAM
from molecule_platform.domain.refusals import Refusal
from molecule_wire import JSON, jsontext
from molecule_wire.a2a import envelopes, sse
from molecule_wire.a2a.errors import GATEWAY_DOMAIN, INVALID_AGENT_RESPONSE, A2AError
from molecule_wire.a2a.operations import Dialect
from molecule_wire.a2a.rest import JSON_MEDIA

Headers = tuple[tuple[str, str], ...]

STREAM_HEADERS: Headers = (("cache-control", "no-store"), ("x-accel-buffering", "no"))


class Framing(Protocol):
    """The wrapping that one caller expects."""

    def reply(self, result: bytes, headers: Headers = ()) -> Reply:
        """A whole answer around a JSON text."""
        ...

    def frame(self, number: int, result: bytes) -> bytes:
        """One event of a stream around a JSON text."""
        ...

    def problem(self, problem: A2AError, request_id: str) -> Reply:
        """An error instead of an answer."""
        ...

    def refusal(self, refusal: Refusal, request_id: str) -> Reply:
        """A refusal of the platform."""
        ...

    def problem_frame(self, problem: A2AError) -> bytes:
        """An error after a stream has begun; nothing follows it."""
        ...


class RpcFrames:
    """JSON-RPC around results and events; the id of the request stands on each."""

    __slots__ = ("_head", "dialect", "rpc_id")

    def __init__(self, rpc_id: JSON, dialect: Dialect) -> None:
        self.rpc_id = rpc_id
        self.dialect: Dialect = dialect
        named = b"%d" % rpc_id if type(rpc_id) is int else jsontext.encode(rpc_id)
        self._head = b'{"jsonrpc":"2.0","id":' + named + b',"result":'

    def envelope(self, result: bytes) -> bytes:
        """A whole response."""
        return self._head + result + b"}"

    def frame(self, number: int, result: bytes) -> bytes:
        """One event of a stream."""
        return b"id: %d\ndata: %b}\n\n" % (number, sse.one_line(self._head + result))

    def problem_frame(self, problem: A2AError) -> bytes:
        """An error after a stream has begun."""
        return sse.frame(None, envelopes.error_envelope(self.rpc_id, problem, self.dialect))


class RpcFraming(RpcFrames):
    """JSON-RPC as the standard has it: an error of the protocol is a success of HTTP."""

    __slots__ = ()

    def reply(self, result: bytes, headers: Headers = ()) -> Reply:
        """A whole response."""
        return Reply(self.envelope(result), 200, headers)

    def problem(self, problem: A2AError, request_id: str) -> Reply:
        """An error object; only what the gateway itself could not do shows in the status."""
        body = envelopes.error_envelope(self.rpc_id, traced(problem, request_id), self.dialect)
        return Reply(body, _standard_status(problem) if _is_gateways(problem) else 200)

    def refusal(self, refusal: Refusal, request_id: str) -> Reply:
        """A refusal of the platform, with its status."""
        return errors.a2a_rpc(refusal, request_id, self.rpc_id)


@dataclass(frozen=True)
class RestFraming:
    """HTTP+JSON: results stand bare."""

    media: str = JSON_MEDIA

    def reply(self, result: bytes, headers: Headers = ()) -> Reply:
        """A whole response."""
        return Reply(result, 200, headers, self.media)

    def frame(self, number: int, result: bytes) -> bytes:
        """One event of a stream."""
        return sse.frame_of(number, result)

    def problem(self, problem: A2AError, request_id: str) -> Reply:
        """An error body with the status of its row."""
        status = _standard_status(problem)
        body = traced(problem, request_id).to_rest()
        if isinstance(body["error"], dict):
            body["error"]["code"] = status
        return Reply(body, status, content_type=self.media)

    def refusal(self, refusal: Refusal, request_id: str) -> Reply:
        """A refusal of the platform."""
        return errors.a2a(refusal, request_id)

    def problem_frame(self, problem: A2AError) -> bytes:
        """An error after a stream has begun."""
        return sse.frame(None, problem.to_rest())


def traced(problem: A2AError, request_id: str) -> A2AError:
    """An error that names the request it answers, if it is the platform's own; a peer's stays as it came."""
    if problem.domain == GATEWAY_DOMAIN and not problem.of_peer:
        problem.metadata["request_id"] = request_id
    return problem


def streaming(headers: Headers) -> tuple[Headers, str]:
    """The headers and the type of a stream."""
    return (*STREAM_HEADERS, *headers), EVENT_STREAM


def _is_gateways(problem: A2AError) -> bool:
    """Whether the gateway itself failed; an agent that breaks the protocol is the protocol's own error."""
    return (
        problem.domain == GATEWAY_DOMAIN
        and not problem.of_peer
        and problem.code != INVALID_AGENT_RESPONSE.code
    )


def _standard_status(problem: A2AError) -> int:
    unreadable = problem.code == INVALID_AGENT_RESPONSE.code
    return INVALID_AGENT_RESPONSE.http_status if unreadable else problem.http_status
