"""Reading a request of either version and binding into one value."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from molecule_wire.a2a import envelopes, errors, operations, rest, tenants, versions
from molecule_wire.a2a.envelopes import Request
from molecule_wire.a2a.operations import Dialect, Operation
from molecule_wire.a2a.push_configs import Spelling
from molecule_wire.a2a.server.bindings import Binding, JsonRpcBinding, Response, RestBinding
from molecule_wire.a2a.server.renderer import Renderer
from molecule_wire.values import value

Headers = Mapping[str, str]
"""The headers of a request by their lower-case names."""

SENDS = (operations.SEND, operations.STREAM)
_JSON = ("application/json", "")


@value
class Invocation:
    """One operation that a caller asks for, in which tenant, and how it is answered."""

    request: Request
    binding: Binding
    renderer: Renderer
    tenant: str = ""


class RestPath(NamedTuple):
    """What a path of the HTTP+JSON binding stands for, and the names in it."""

    operation: Operation
    dialect: Dialect
    names: Mapping[str, str]


def read(
    path: RestPath | None, body: bytes, headers: Headers, query: Mapping[str, str]
) -> Invocation | Response:
    """Read a request, of JSON-RPC without a path; or the response that says what is wrong with it."""
    if path is None:
        try:
            return json_rpc(read_json_rpc(body, headers, query))
        except errors.A2AError as problem:
            return JsonRpcBinding(problem.rpc_id, "1.0").error(problem)
    binding = rest_binding(headers)
    try:
        return of_rest(read_rest(path, body, headers, query), path, binding)
    except errors.A2AError as problem:
        return binding.error(problem)


def read_json_rpc(
    body: bytes, headers: Headers, query: Mapping[str, str] | None = None, *, lenient: bool = False
) -> Request:
    """Read a JSON-RPC request. Raises A2AError that knows the request's id."""
    check_content_type(headers)
    return envelopes.parse_request(body, version=_version(headers, query), lenient=lenient)


def read_rest(path: RestPath, body: bytes, headers: Headers, query: Mapping[str, str]) -> Request:
    """Read a request of the HTTP+JSON binding. Raises A2AError."""
    versions.negotiate(_version(headers, query), path.dialect, lenient=False)
    if body:
        check_content_type(headers)
    return rest.parse_request(rest.Asked(path.operation, path.dialect, path.names, query, body))


def json_rpc(request: Request) -> Invocation:
    """The invocation that a JSON-RPC request stands for."""
    binding = JsonRpcBinding(request.id, request.dialect)
    renderer = Renderer(request.dialect, envelopes.history_length(request))
    return Invocation(request, binding, renderer, request.tenant)


def of_rest(request: Request, path: RestPath, binding: RestBinding) -> Invocation:
    """The invocation that a request of the HTTP+JSON binding stands for.

    Path and body may both name the tenant, but not differently.
    """
    in_path = path.names.get("tenant", "")
    if in_path and request.tenant not in ("", in_path):
        raise errors.invalid_params(errors.Violation("tenant", "is not the one that the path names"))
    spelling: Spelling = "1.0" if path.dialect == "1.0" else "0.3 REST"
    renderer = Renderer(spelling, envelopes.history_length(request))
    return Invocation(request, binding, renderer, in_path or request.tenant)


def rest_binding(headers: Headers) -> RestBinding:
    """The binding of a caller of HTTP+JSON, in the type that it accepts."""
    return RestBinding(rest.media(headers.get("accept", "")))


def check_content_type(headers: Headers) -> None:
    """Refuse a body that says it is no JSON, before anybody reads it."""
    given = headers.get("content-type", "")
    if given in _JSON:
        return
    media = given.partition(";")[0].strip().lower()
    if media not in _JSON and not media.endswith("+json"):
        raise errors.protocol_error(errors.CONTENT_TYPE_NOT_SUPPORTED)


def _version(headers: Headers, query: Mapping[str, str] | None) -> str:
    return versions.named(headers.get("a2a-version"), query.get("A2A-Version") if query else None)


# The paths of the HTTP+JSON binding, for servers without a route table of their own


def rest_paths(path: str) -> Iterator[RestPath]:
    """Every operation that a path may stand for; which one, the method of HTTP tells."""
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
