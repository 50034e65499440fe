"""Bindings: how a result, an event or an error is framed, as JSON-RPC or as HTTP+JSON."""

from molecule_wire import JSON, JSONObject, jsontext
from molecule_wire.a2a import envelopes, operations, sse
from molecule_wire.a2a.errors import GATEWAY_DOMAIN, INVALID_AGENT_RESPONSE, A2AError
from molecule_wire.a2a.operations import Dialect, Operation
from molecule_wire.a2a.rest import JSON_MEDIA
from molecule_wire.values import value

EVENT_STREAM = "text/event-stream"
STREAM_HEADERS = (("cache-control", "no-store"), ("x-accel-buffering", "no"))


@value
class Response:
    """A whole HTTP response, but for the headers that its transport adds."""

    status: int
    body: bytes
    media: str = JSON_MEDIA
    headers: tuple[tuple[str, str], ...] = ()


def refusal(
    status: int, sentence: str, code: str = "", headers: tuple[tuple[str, str], ...] = (), **more: JSON
) -> Response:
    """An error in the platform's form, for what no binding frames."""
    body: JSONObject = {"error": sentence, **({"code": code} if code else {}), **more}
    return Response(status, jsontext.encode(body), headers=headers)


class AgentBusy(Exception):
    """A message cannot be taken now; whoever brings it may come again after so many seconds.

    `redeliver` asks for that: the message was worked on in vain. A caller who would rather be refused than
    wait is told of an agent that is busy, and not of this.
    """

    def __init__(
        self, sentence: str, code: str = "agent-busy", retry_after: int = 1, *, redeliver: bool = False
    ) -> None:
        super().__init__(sentence)
        later = (("retry-after", str(retry_after)),)
        more: JSONObject = {"redeliver": True} if redeliver else {}
        self.response = refusal(503, sentence, code, later, retry_after=retry_after, **more)


class JsonRpcBinding:
    """JSON-RPC: the id of the request stands on everything, and an error of the protocol is a 200 of HTTP."""

    __slots__ = ("_head", "dialect", "rpc_id")

    def __init__(self, rpc_id: JSON, dialect: Dialect) -> None:
        self.rpc_id = rpc_id
        self.dialect: Dialect = dialect
        if type(rpc_id) is int:
            named = b"%d" % rpc_id
        elif type(rpc_id) is str and rpc_id.isascii() and rpc_id.replace("-", "").isalnum():
            named = b'"%b"' % rpc_id.encode()
        else:
            named = jsontext.encode(rpc_id)
        self._head = b'{"jsonrpc":"2.0","id":' + named + b',"result":'

    def result(self, result: bytes) -> Response:
        """A whole answer around a JSON text."""
        return Response(200, self._head + result + b"}")

    def event(self, number: int, result: bytes) -> bytes:
        """One event of a stream around a JSON text."""
        return b"id: %d\ndata: %b}\n\n" % (number, sse.one_line(self._head + result))

    def error(self, problem: A2AError, operation: Operation | None = None) -> Response:
        """An error instead of an answer; only what the platform itself could not do shows in the status.

        The 0.3 clients read an answer to `tasks/resubscribe` as a stream whatever its status says.
        """
        if operation is operations.SUBSCRIBE and self.dialect == "0.3":
            return Response(200, self.error_event(problem), EVENT_STREAM)
        body = envelopes.error_envelope(self.rpc_id, problem, self.dialect)
        return Response(_status(problem) if _is_platforms(problem) else 200, jsontext.encode(body))

    def error_event(self, problem: A2AError) -> bytes:
        """An error after a stream has begun; nothing follows it."""
        return sse.frame(None, envelopes.error_envelope(self.rpc_id, problem, self.dialect))


@value
class RestBinding:
    """HTTP+JSON: results stand bare, and an error has the status of its row."""

    media: str = JSON_MEDIA

    def result(self, result: bytes) -> Response:
        """A whole answer around a JSON text."""
        return Response(200, result, self.media)

    def event(self, number: int, result: bytes) -> bytes:
        """One event of a stream around a JSON text."""
        return sse.frame_of(number, result)

    def error(self, problem: A2AError, operation: Operation | None = None) -> Response:
        """An error instead of an answer."""
        status, body = _status(problem), problem.to_rest()
        if isinstance(body["error"], dict):
            body["error"]["code"] = status
        return Response(status, jsontext.encode(body), self.media)

    def error_event(self, problem: A2AError) -> bytes:
        """An error after a stream has begun; nothing follows it."""
        return sse.frame(None, problem.to_rest())


Binding = JsonRpcBinding | RestBinding


def _is_platforms(problem: A2AError) -> bool:
    """Whether the platform itself failed; an agent that breaks the protocol is the protocol's own error."""
    is_own = problem.domain == GATEWAY_DOMAIN and not problem.of_peer
    return is_own and problem.code != INVALID_AGENT_RESPONSE.code


def _status(problem: A2AError) -> int:
    unreadable = problem.code == INVALID_AGENT_RESPONSE.code
    return INVALID_AGENT_RESPONSE.http_status if unreadable else problem.http_status
