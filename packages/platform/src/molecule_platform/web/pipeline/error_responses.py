"""Refusals on the wire: one table, four shapes."""

from typing import Any

from molecule_platform.domain.errors import ApiError
from molecule_platform.web.pipeline.calls import Response
from molecule_wire import JSON, errors, jsontext
from molecule_wire.a2a import envelopes
from molecule_wire.a2a import errors as a2a_errors

_SIDE_KEYS = ("busy", "retry_after", "waking", "restarting", "status", "native_session", "delivery_confirmed")


def rest(refusal: ApiError, request_id: str) -> Response:
    """A refusal as the REST routes answer it."""
    body = errors.body(refusal.code, refusal.sentence, request_id, **refusal.extras)
    return Response(body, refusal.status, headers_of(refusal))


def jsonrpc(refusal: ApiError, request_id: str, rpc_id: JSON = None) -> Response:
    """A refusal as the platform's A2A path answers it: an error object, its facts repeated at the top."""
    metadata = {"request_id": request_id, **refusal.extras}
    error = a2a_errors.gateway_error(refusal.code, refusal.sentence, **metadata)
    side = {key: refusal.extras[key] for key in _SIDE_KEYS if key in refusal.extras}
    body = envelopes.error_envelope(rpc_id, error) | {"code": refusal.code, "request_id": request_id} | side
    return Response(body, refusal.status, headers_of(refusal))


def a2a(refusal: ApiError, request_id: str) -> Response:
    """A refusal as A2A answers it over HTTP+JSON."""
    return Response(_standard(refusal, request_id).to_rest(), refusal.status, headers_of(refusal))


def a2a_rpc(refusal: ApiError, request_id: str, rpc_id: JSON = None) -> Response:
    """A refusal as A2A answers it over JSON-RPC, with nothing beside the error."""
    error = _standard(refusal, request_id)
    return Response(envelopes.error_envelope(rpc_id, error), refusal.status, headers_of(refusal))


def _standard(refusal: ApiError, request_id: str) -> a2a_errors.A2AError:
    """The protocol's details hold texts only."""
    facts = {"request_id": request_id, **refusal.extras}
    return a2a_errors.gateway_error(
        refusal.code, refusal.sentence, **{name: _as_text(value) for name, value in facts.items()}
    )


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else jsontext.encode(value).decode()


def headers_of(refusal: ApiError) -> tuple[tuple[str, str], ...]:
    """The headers that go with a refusal."""
    headers: list[tuple[str, str]] = []
    if refusal.status == 401:
        headers.append(("www-authenticate", 'Bearer realm="molecule", error="invalid_token"'))
    allowed = refusal.extras.get("allow")
    if isinstance(allowed, str):
        headers.append(("allow", allowed))
    retry_after = refusal.extras.get("retry_after")
    if isinstance(retry_after, int):
        headers.append(("retry-after", str(retry_after)))
    return tuple(headers)


def unavailable() -> ApiError:
    """The database does not answer."""
    return ApiError(
        "platform-unavailable", "the platform cannot reach its database: try again soon", retry_after=2
    )


def internal() -> ApiError:
    """A fault of ours; the log has the rest under the same request id."""
    return ApiError("internal", "something went wrong here: the log has it under this request id")
