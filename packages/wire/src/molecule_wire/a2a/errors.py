"""The errors of A2A: one table for JSON-RPC, REST and gRPC, and the exception that carries one of them."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeGuard

from molecule_wire import JSON, JSONObject
from molecule_wire import errors as platform_errors

PROTOCOL_DOMAIN = "a2a-protocol.org"
GATEWAY_DOMAIN = "molecule.ai"
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
ANY_VALUE = "type.googleapis.com/google.protobuf.Value"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"


class ErrorKind(NamedTuple):
    """One row of the error table, with the values of A2A 1.0.1."""

    name: str
    code: int
    reason: str
    grpc_status: str
    http_status: int
    sentence: str


class Violation(NamedTuple):
    """One field of a request that is missing or wrong."""

    field: str
    description: str


def _kind(code: int, reason: str, grpc_status: str, http_status: int, sentence: str) -> ErrorKind:
    return ErrorKind(reason.title().replace("_", ""), code, reason, grpc_status, http_status, sentence)


_REFUSED = "FAILED_PRECONDITION"
_INVALID = "INVALID_ARGUMENT"

TASK_NOT_FOUND = _kind(-32001, "TASK_NOT_FOUND", "NOT_FOUND", 404, "Task not found")
TASK_NOT_CANCELABLE = _kind(-32002, "TASK_NOT_CANCELABLE", _REFUSED, 400, "Task not cancelable: it has ended")
PUSH_NOTIFICATION_NOT_SUPPORTED = _kind(
    -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", _REFUSED, 400, "Push notifications are not supported here"
)
UNSUPPORTED_OPERATION = _kind(
    -32004, "UNSUPPORTED_OPERATION", _REFUSED, 400, "This operation is not supported here"
)
CONTENT_TYPE_NOT_SUPPORTED = _kind(
    -32005, "CONTENT_TYPE_NOT_SUPPORTED", _INVALID, 400, "Content type not supported: send application/json"
)
INVALID_AGENT_RESPONSE = _kind(
    -32006, "INVALID_AGENT_RESPONSE", "INTERNAL", 500, "The agent's answer does not follow the protocol"
)
EXTENDED_AGENT_CARD_NOT_CONFIGURED = _kind(
    -32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", _REFUSED, 400, "The agent has no extended card"
)
EXTENSION_SUPPORT_REQUIRED = _kind(
    -32008, "EXTENSION_SUPPORT_REQUIRED", _REFUSED, 400, "The agent requires an extension: ask for it"
)
VERSION_NOT_SUPPORTED = _kind(
    -32009, "VERSION_NOT_SUPPORTED", _REFUSED, 400, "Version not supported: send A2A-Version 1.0 or 0.3"
)
PARSE_ERROR = _kind(-32700, "PARSE_ERROR", _INVALID, 400, "The body is not JSON")
INVALID_REQUEST = _kind(-32600, "INVALID_REQUEST", _INVALID, 400, "Not a JSON-RPC 2.0 request")
METHOD_NOT_FOUND = _kind(-32601, "METHOD_NOT_FOUND", "NOT_FOUND", 404, "Method not found")
INVALID_PARAMS = _kind(-32602, "INVALID_PARAMS", _INVALID, 400, "Invalid parameters")
INTERNAL_ERROR = _kind(-32603, "INTERNAL_ERROR", "INTERNAL", 500, "Internal error")

KINDS: tuple[ErrorKind, ...] = (
    TASK_NOT_FOUND,
    TASK_NOT_CANCELABLE,
    PUSH_NOTIFICATION_NOT_SUPPORTED,
    UNSUPPORTED_OPERATION,
    CONTENT_TYPE_NOT_SUPPORTED,
    INVALID_AGENT_RESPONSE,
    EXTENDED_AGENT_CARD_NOT_CONFIGURED,
    EXTENSION_SUPPORT_REQUIRED,
    VERSION_NOT_SUPPORTED,
    PARSE_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    INVALID_PARAMS,
    INTERNAL_ERROR,
)
BY_CODE: Mapping[int, ErrorKind] = MappingProxyType({kind.code: kind for kind in KINDS})
BY_REASON: Mapping[str, ErrorKind] = MappingProxyType({kind.reason: kind for kind in KINDS})

_GATEWAY_KINDS: Mapping[str, ErrorKind] = MappingProxyType(
    {"invalid-agent-response": INVALID_AGENT_RESPONSE, "invalid-json": PARSE_ERROR}
)
_NOT_THE_CALLERS_FAULT = frozenset({402, 429})
_GRPC_BY_HTTP: Mapping[int, str] = MappingProxyType(
    {
        400: "INVALID_ARGUMENT",
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        409: "ABORTED",
        410: "NOT_FOUND",
        413: "INVALID_ARGUMENT",
        429: "RESOURCE_EXHAUSTED",
        501: "UNIMPLEMENTED",
        503: "UNAVAILABLE",
        504: "DEADLINE_EXCEEDED",
    }
)
_KIND_BY_HTTP: Mapping[int, ErrorKind] = MappingProxyType(
    {
        404: TASK_NOT_FOUND,
        409: TASK_NOT_CANCELABLE,
        415: CONTENT_TYPE_NOT_SUPPORTED,
        502: INVALID_AGENT_RESPONSE,
    }
)


class A2AError(Exception):
    """An error as A2A says it; `rpc_id` is the id of the request that caused it, once known.

    `of_peer` marks an error that was read, not made here: what it says of itself decides no HTTP status.
    """

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str = "",
        domain: str = PROTOCOL_DOMAIN,
        metadata: Mapping[str, JSON] | None = None,
        violations: Sequence[Violation] = (),
        data: JSON = None,
        of_peer: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.domain = domain
        self.metadata = dict(metadata or {})
        self.violations = tuple(violations)
        self.data = data
        self.of_peer = of_peer
        self.rpc_id: JSON = None

    @property
    def http_status(self) -> int:
        """The HTTP status: the platform's for an error the gateway made, else that of the code's row."""
        code = self.metadata.get("code")
        ours = self.domain == GATEWAY_DOMAIN and not self.of_peer
        if ours and isinstance(code, str) and platform_errors.is_known(code):
            return platform_errors.status_of(code)
        return BY_CODE[self.code].http_status if self.code in BY_CODE else 500

    @property
    def grpc_status(self) -> str:
        """The gRPC status name, which REST bodies carry too."""
        if self.domain == PROTOCOL_DOMAIN and self.code in BY_CODE:
            return BY_CODE[self.code].grpc_status
        return _GRPC_BY_HTTP.get(self.http_status, _REFUSED if self.http_status < 500 else "INTERNAL")

    def details(self) -> JSON:
        """The typed details: `data` in JSON-RPC, `details` in REST; those of a peer stay as they came."""
        if self.data is not None or not self.reason:
            return self.data
        info: JSONObject = {"@type": ERROR_INFO, "reason": self.reason, "domain": self.domain}
        if self.metadata:
            info["metadata"] = dict(self.metadata)
        return [info, *self._bad_request()]

    def to_object(self, dialect: str = "1.0") -> JSONObject:
        """The JSON-RPC error object; 0.3 does not know the code of a missing extension."""
        unknown = dialect == "0.3" and self.code == EXTENSION_SUPPORT_REQUIRED.code
        shape: JSONObject = {
            "code": INTERNAL_ERROR.code if unknown else self.code,
            "message": self.message,
        }
        details = self.details()
        return shape if details is None else {**shape, "data": details}

    def to_rest(self) -> JSONObject:
        """The body of an HTTP+JSON error."""
        shape: JSONObject = {
            "code": self.http_status,
            "status": self.grpc_status,
            "message": self.message,
            "details": self._listed_details(),
        }
        return {"error": shape}

    def _listed_details(self) -> list[JSON]:
        """The details as REST has them, a list of typed objects, whatever a peer gave."""
        details = self.details()
        if isinstance(details, list):
            return details
        return [] if details is None else [{"@type": ANY_VALUE, "value": details}]

    def _bad_request(self) -> list[JSON]:
        if not self.violations:
            return []
        fields: list[JSON] = [{"field": v.field, "description": v.description} for v in self.violations]
        return [{"@type": BAD_REQUEST, "fieldViolations": fields}]


def protocol_error(kind: ErrorKind, sentence: str = "", **metadata: JSON) -> A2AError:
    """Make an error of the protocol; without a sentence it says what the table says."""
    return A2AError(kind.code, sentence or kind.sentence, reason=kind.reason, metadata=metadata)


def invalid_params(*violations: Violation) -> A2AError:
    """Make the -32602 that names every missing or wrong field."""
    listed = "; ".join(f"{violation.field}: {violation.description}" for violation in violations)
    kind = INVALID_PARAMS
    return A2AError(kind.code, f"{kind.sentence}: {listed}", reason=kind.reason, violations=violations)


def gateway_error(code: str, sentence: str, /, **metadata: JSON) -> A2AError:
    """Make an error of the platform itself; `code` is one of `molecule_wire.errors`."""
    status = platform_errors.status_of(code)
    ours = status >= 500 or status in _NOT_THE_CALLERS_FAULT
    kind = _GATEWAY_KINDS.get(code, INTERNAL_ERROR if ours else INVALID_REQUEST)
    return A2AError(
        kind.code,
        sentence,
        reason=code.upper().replace("-", "_"),
        domain=GATEWAY_DOMAIN,
        metadata={"code": code, **metadata},
    )


def from_object(shape: JSON) -> A2AError:
    """Read a peer's error, JSON-RPC or REST, of A2A 1.0.0, 1.0.1 or 0.3; its details stay as they came."""
    if not isinstance(shape, dict):
        return protocol_error(INVALID_AGENT_RESPONSE, "The peer answered with an error that is no object")
    details = shape.get("data", shape.get("details"))
    info = _error_info(details)
    reason, domain, metadata = info.get("reason"), info.get("domain"), info.get("metadata")
    kind = _kind_of(shape.get("code"), reason)
    message, code = shape.get("message"), shape.get("code")
    return A2AError(
        code if _is_rpc_code(code) else kind.code,
        message if isinstance(message, str) and message else kind.sentence,
        reason=reason if isinstance(reason, str) else "",
        domain=domain if isinstance(domain, str) else "",
        metadata=metadata if isinstance(metadata, dict) else None,
        data=details,
        of_peer=True,
    )


def _error_info(details: JSON) -> JSONObject:
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and detail.get("@type") == ERROR_INFO:
            return detail
    return {}


def _kind_of(code: JSON, reason: JSON) -> ErrorKind:
    if _is_rpc_code(code):
        return BY_CODE.get(code, INTERNAL_ERROR)
    if isinstance(reason, str) and reason in BY_REASON:
        return BY_REASON[reason]
    if not isinstance(code, int):
        return INTERNAL_ERROR
    return _KIND_BY_HTTP.get(code, INVALID_REQUEST if code in range(400, 500) else INTERNAL_ERROR)


def _is_rpc_code(code: JSON) -> TypeGuard[int]:
    return isinstance(code, int) and code < 0
