"""What a caller asks for: a request of either binding and dialect, read and checked."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from molecule_agent.a2a_server import framing, web
from molecule_agent.a2a_server.task_log import Owner
from molecule_wire import JSON
from molecule_wire.a2a import envelopes, errors, operations, rest, tenants, versions
from molecule_wire.calls import values


@dataclass(frozen=True)
class Ask:
    """One operation, whose it is, and how it is answered."""

    incoming: web.Incoming
    request: envelopes.Request
    speech: framing.Speech
    framing: framing.Framing
    owner: Owner


class Place(NamedTuple):
    """What a path of the HTTP+JSON binding stands for, and the names in it."""

    operation: operations.Operation
    dialect: operations.Dialect
    names: dict[str, str]


class _Row(NamedTuple):
    pattern: re.Pattern[str]
    operation: operations.Operation
    dialect: operations.Dialect


def verbs_of(path: str) -> tuple[str, ...]:
    """The methods of HTTP that a path of the HTTP+JSON binding takes; none for any other path."""
    return tuple(dict.fromkeys(verb for place in _places(path) for verb in place.operation.verbs))


def of_rpc(incoming: web.Incoming) -> Ask:
    """Read a JSON-RPC request. Raises A2AError that knows the request's id."""
    if not is_json(incoming.header("Content-Type")):
        raise errors.protocol_error(errors.CONTENT_TYPE_NOT_SUPPORTED)
    request = envelopes.parse_request(incoming.body, version=_version(incoming), lenient=False)
    wrapping = framing.RpcFraming(request.id, request.dialect)
    speech = framing.Speech(request.dialect, envelopes.history_length(request))
    return Ask(incoming, request, speech, wrapping, _owner(incoming, request.tenant))


def of_rest(incoming: web.Incoming, wrapping: framing.RestFraming) -> Ask:
    """Read a request of the HTTP+JSON binding. Raises A2AError."""
    place = _place_for(incoming)
    versions.negotiate(_version(incoming), place.dialect, lenient=False)
    if incoming.body and not is_json(incoming.header("Content-Type")):
        raise errors.protocol_error(errors.CONTENT_TYPE_NOT_SUPPORTED)
    request = rest.parse_request(
        rest.Asked(place.operation, place.dialect, place.names, incoming.query, incoming.body)
    )
    in_path = place.names.get("tenant", "")
    if in_path and request.tenant not in ("", in_path):
        raise errors.invalid_params(errors.Violation("tenant", "is not the one that the path names"))
    spelling = "1.0" if place.dialect == "1.0" else "0.3 REST"
    speech = framing.Speech(spelling, envelopes.history_length(request))
    return Ask(incoming, request, speech, wrapping, _owner(incoming, in_path or request.tenant))


def rest_framing(incoming: web.Incoming) -> framing.RestFraming:
    """The type in which a caller of the HTTP+JSON binding is answered."""
    return framing.RestFraming(rest.media(incoming.header("Accept")))


def is_json(content_type: str) -> bool:
    """Whether a content type is JSON; none at all is taken for it."""
    media_type = content_type.partition(";")[0].strip().lower()
    return not media_type or media_type == "application/json" or media_type.endswith("+json")


def _place_for(incoming: web.Incoming) -> Place:
    """Of the operations that share a path, the one of the request's method."""
    return next(place for place in _places(incoming.path) if incoming.method in place.operation.verbs)


def _places(path: str) -> Iterator[Place]:
    for row in _ROWS:
        found = row.pattern.fullmatch(path)
        names = {} if found is None else found.groupdict()
        if found is not None and (names.get("tenant") is None or tenants.may_be(names["tenant"])):
            given = {name: value for name, value in names.items() if value is not None}
            yield Place(row.operation, row.dialect, given)


def _version(incoming: web.Incoming) -> str:
    return versions.named(incoming.header("A2A-Version"), incoming.query.get("A2A-Version"))


def _owner(incoming: web.Incoming, tenant: str) -> Owner:
    principal: JSON = (incoming.caller or {}).get("principal")
    return Owner(values.text_of(principal), tenant)


def _rows() -> Iterator[_Row]:
    for operation in operations.OPERATIONS:
        for dialect in versions.SUPPORTED:
            path = operation.path(dialect)
            if path is None:
                continue
            pattern = re.escape(path).replace(r"\{id\}", "(?P<task_id>[^/:]+)")
            pattern = pattern.replace(r"\{cid\}", "(?P<config_id>[^/:]+)")
            prefix = "(?:/(?P<tenant>[^/:]+))?" if dialect == "1.0" else ""
            yield _Row(re.compile(prefix + pattern), operation, dialect)


_ROWS = tuple(_rows())
