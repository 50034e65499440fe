"""Reading a request of either version and binding into one value."""

import re
from collections.abc import Container, Iterator, Mapping
from typing import NamedTuple

from molecule_wire import JSONObject
from molecule_wire.a2a import envelopes, errors, operations, rest, tenants, versions
from molecule_wire.a2a.envelopes import A2ARequest
from molecule_wire.a2a.operations import Dialect, Operation
from molecule_wire.a2a.push_configs import Spelling
from molecule_wire.a2a.server.bindings import Binding, JsonRpcBinding, Response, RestBinding, refusal
from molecule_wire.a2a.server.renderer import Renderer
from molecule_wire.values import value

Headers = Mapping[str, str]
"""The headers of a request by their lower-case names."""

SENDS = (operations.SEND, operations.STREAM)
HEALTH_PATH = "/healthz"
_JSON = ("application/json", "")


@value
class Invocation:
    """One operation that a caller asks for, in which tenant, and how it is answered."""

    request: A2ARequest
    binding: Binding
    renderer: Renderer
    tenant: str = ""

    def event(self, number: int, event: JSONObject) -> bytes:
        """The frame of a 1.0 event."""
        return self.binding.event(number, self.renderer.event(event))


class RestPath(NamedTuple):
    """What a path of the HTTP+JSON binding stands for, and the names in it."""

    operation: Operation
    dialect: Dialect
    names: Mapping[str, str]


def read(
    path: RestPath | None, body: bytes, headers: Headers, query: Mapping[str, str]
) -> Invocation | Response:
    """Read a request, of JSON-RPC without a path; or the response that says what is wrong with it."""
    try:
        return json_rpc(body, headers, query) if path is None else of_rest(path, body, headers, query)
    except errors.A2AError as problem:
        binding = JsonRpcBinding(problem.rpc_id, "1.0") if path is None else rest_binding(headers)
        return binding.error(problem)


def json_rpc(
    body: bytes, headers: Headers, query: Mapping[str, str] | None = None, *, lenient: bool = False
) -> Invocation:
    """What a JSON-RPC request asks for. Raises A2AError that knows the request's id."""
    _check_content_type(headers)
    request = envelopes.parse_request(body, version=_version(headers, query), lenient=lenient)
    binding = JsonRpcBinding(request.id, request.dialect)
    renderer = Renderer(request.dialect, envelopes.history_length(request))
    return Invocation(request, binding, renderer, request.tenant)


def of_rest(path: RestPath, body: bytes, headers: Headers, query: Mapping[str, str]) -> Invocation:
    """What a request of the HTTP+JSON binding asks for. Raises A2AError.

    Path and body may both name the tenant, but not differently.
    """
    versions.negotiate(_version(headers, query), path.dialect, lenient=False)
    if body:
        _check_content_type(headers)
    request = rest.parse_request(rest.RestRequest(path.operation, path.dialect, path.names, query, body))
    in_path = path.names.get("tenant", "")
    if in_path and request.tenant not in ("", in_path):
        raise errors.invalid_params(errors.Violation("tenant", "is not the one that the path names"))
    spelling: Spelling = "1.0" if path.dialect == "1.0" else "0.3 REST"
    renderer = Renderer(spelling, envelopes.history_length(request))
    return Invocation(request, rest_binding(headers), renderer, in_path or request.tenant)


def rest_binding(headers: Headers) -> RestBinding:
    """The binding of a caller of HTTP+JSON, in the type that it accepts."""
    return RestBinding(rest.media(headers.get("accept", "")))


def _check_content_type(headers: Headers) -> None:
    """Refuse a body that says it is no JSON, before anybody reads it."""
    given = headers.get("content-type", "")
    if given in _JSON:
        return
    media = given.partition(";")[0].strip().lower()
    if media not in _JSON and not media.endswith("+json"):
        raise errors.protocol_error(errors.CONTENT_TYPE_NOT_SUPPORTED)


def _version(headers: Headers, query: Mapping[str, str] | None) -> str:
    return versions.named(headers.get("a2a-version"), query.get("A2A-Version") if query else None)


# Routes, for servers without a table of their own


def route(method: str, path: str, rpc_paths: Container[str]) -> RestPath | str | Response:
    """Where a request goes: an operation of HTTP+JSON, else its path; or the response to a wrong one."""
    found: list[RestPath] = []
    if path in rpc_paths:
        allowed = ("POST",)
    elif path in (*operations.CARD_PATHS, HEALTH_PATH):
        allowed = ("GET", "HEAD")
    else:
        found = list(_rest_paths(path))
        allowed = tuple(dict.fromkeys(verb for known in found for verb in known.operation.verbs))
    if not allowed:
        return refusal(404, "not found")
    if method not in allowed:
        return refusal(405, "method not allowed", headers=(("allow", ", ".join(allowed)),))
    return next((known for known in found if method in known.operation.verbs), path)


def _rest_paths(path: str) -> Iterator[RestPath]:
    for pattern, operation, dialect in _PATTERNS:
        found = pattern.fullmatch(path)
        if found is None:
            continue
        names = {name: given for name, given in found.groupdict().items() if given is not None}
        if "tenant" not in names or tenants.may_be(names["tenant"]):
            yield RestPath(operation, dialect, names)


def _patterns() -> Iterator[tuple[re.Pattern[str], Operation, Dialect]]:
    for operation in operations.OPERATIONS:
        for dialect in versions.SUPPORTED:
            path = operation.path(dialect)
            if path is None:
                continue
            pattern = re.escape(path).replace(r"\{id\}", "(?P<task_id>[^/:]+)")
            pattern = pattern.replace(r"\{cid\}", "(?P<config_id>[^/:]+)")
            prefix = "(?:/(?P<tenant>[^/:]+))?" if dialect == "1.0" else ""
            yield re.compile(prefix + pattern), operation, dialect


_PATTERNS = tuple(_patterns())
