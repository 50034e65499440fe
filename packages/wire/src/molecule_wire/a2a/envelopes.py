"""JSON-RPC envelopes of both dialects: reading a request, framing an answer.

A strict door (the standard one, an agent's own) refuses what is missing. The lenient platform path fills in
`jsonrpc`, `id`, `messageId` and `role`, by inserting just these bytes; every other byte stays as it came.
"""

from dataclasses import replace
from typing import Any, TypeAlias, cast

from molecule_wire import JSON, JSONObject, ids, jsontext
from molecule_wire.a2a import checks, convert, errors, operations, proto_names, versions
from molecule_wire.values import value

_Filled: TypeAlias = dict[jsontext.Path, JSONObject]
"""What a lenient door adds to a request: members, by the object they belong to."""

_SENDS = (operations.SEND, operations.STREAM)
_MESSAGE: jsontext.Path = ("params", "message")
_FILLED_IN_MESSAGE = frozenset({"messageId", "role"})
_NO_IDS = (bool, dict, list)
_SMALL = 16_384
"""Bytes up to which reading twice, when something is missing, costs less than noting places every time."""


@value
class A2ARequest:
    """One JSON-RPC request. `operation` is None for a method that A2A does not know.

    `message`, `params` and `body` are in the dialect of the caller; `body` holds the bytes as they came,
    plus what a lenient door filled in, with the params under their JSON names. `task_id` is the task that a
    message continues or the one asked about. `given_message_id` is False when the door made the message id.
    `tenant` is a word of 1.0 alone.
    """

    id: JSON
    method: str
    operation: operations.Operation | None
    dialect: operations.Dialect
    params: JSONObject
    body: bytes
    message: JSONObject | None = None
    message_id: str | None = None
    given_message_id: bool = True
    context_id: str | None = None
    task_id: str | None = None
    role: checks.Role = "user"
    reference_task_ids: tuple[str, ...] = ()
    blocking: bool = True
    tenant: str = ""


def parse_request(body: bytes, *, version: str | None, lenient: bool) -> A2ARequest:
    """Read a request; `version` is what `A2A-Version` said. Raises A2AError that knows the request's id."""
    envelope, located = _read(body, lenient)
    if not isinstance(envelope, dict):
        raise _no_envelope(envelope)
    try:
        request, filled = _request(envelope, body, version, lenient)
    except errors.A2AError as problem:
        problem.rpc_id = envelope.get("id") if _is_id(envelope.get("id")) else None
        raise
    if not filled:
        return request
    if located is None or request.body is not body:
        located = _located(request.body)
    return replace(request, body=jsontext.with_members(located, filled))


def checked(request: A2ARequest, operation: operations.Operation, *, lenient: bool = False) -> A2ARequest:
    """The request with what its params name; raises -32602 when they are not as they must be."""
    found = checks.violations(operation, request.dialect, request.params, lenient=lenient)
    if found:
        raise errors.invalid_params(*found)
    tenant = (_text(request.params, "tenant") or "") if request.dialect == "1.0" else ""
    if operation in _SENDS:
        return _with_message(request, tenant)
    return replace(request, task_id=_task_named(request), tenant=tenant)


def inline_push(request: A2ARequest) -> tuple[A2ARequest, JSONObject | None]:
    """Take the push config out of a send: the request without it, and the config as it came."""
    configuration = request.params.get("configuration")
    if not isinstance(configuration, dict):
        return request, None
    name = checks.INLINE_PUSH[request.dialect]
    config = configuration.get(name)
    if not isinstance(config, dict):
        return request, None
    body = jsontext.without_member(request.body, ("params", "configuration"), name)
    return replace(request, body=body), config


def in_context(request: A2ARequest) -> A2ARequest:
    """The same send in a context; one that names neither context nor task gets a new one.

    What makes it the same as another request does not change by that.
    """
    if request.context_id or request.task_id:
        return request
    context_id = ids.uuid7()
    body = jsontext.set_members(request.body, _MESSAGE, {"contextId": context_id})
    return replace(request, body=body, context_id=context_id)


def history_length(request: A2ARequest) -> int | None:
    """How many messages of a task's history the caller wants; None for all."""
    configuration = request.params.get("configuration")
    holder = configuration if isinstance(configuration, dict) else request.params
    length = holder.get("historyLength")
    return length if isinstance(length, int) else None


def result_envelope(request_id: JSON, result: JSON) -> JSONObject:
    """Frame a result."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error_envelope(
    request_id: JSON, error: errors.A2AError, dialect: operations.Dialect = "1.0"
) -> JSONObject:
    """Frame an error; `request_id` is null where the request's own could not be read."""
    return {"jsonrpc": "2.0", "id": request_id, "error": error.to_object(dialect)}


def body_in(request: A2ARequest, dialect: operations.Dialect) -> bytes:
    """The request for an agent that speaks `dialect`: its own bytes, or with method and params converted."""
    converter = convert.between(request.dialect, dialect)
    if converter is None or request.operation is None:
        return request.body
    method = request.operation.method(dialect)
    if method is None:
        raise errors.protocol_error(errors.METHOD_NOT_FOUND, f"A2A {dialect} has no {request.method}")
    params = converter.params(request.operation, request.params)
    return jsontext.set_members(request.body, (), {"method": method, "params": params})


def _read(body: bytes, lenient: bool) -> tuple[JSON, jsontext.Located | None]:
    try:
        located = _located(body) if lenient and len(body) > _SMALL else None
        return located.value if located else jsontext.decode(body), located
    except jsontext.NotJSON as problem:
        raise errors.protocol_error(errors.PARSE_ERROR, f"The body is not JSON: {problem}") from problem


def _located(body: bytes) -> jsontext.Located:
    return jsontext.locate(body, _MESSAGE, _FILLED_IN_MESSAGE)


def _no_envelope(value: JSON) -> errors.A2AError:
    if isinstance(value, list):
        return _invalid_request("JSON-RPC batches are not supported: send one request at a time")
    return _invalid_request("A JSON-RPC request is an object with jsonrpc, id, method and params")


def _request(
    envelope: JSONObject, body: bytes, version: str | None, lenient: bool
) -> tuple[A2ARequest, _Filled]:
    """The request as if it had come whole, and what was filled in to make it so."""
    filled: _Filled = {}
    if lenient and (absent := _absent_from_envelope(envelope)):
        filled[()] = absent
        envelope = {**envelope, **absent}
    request = _head(envelope, body, version, lenient)
    operation = request.operation
    if operation is None:
        return request, filled
    if request.dialect == "1.0" and proto_names.may_stand_in(body):
        params = proto_names.as_json(request.params, proto_names.PARAMS[operation])
        if params is not request.params:
            # An agent is sent the JSON names alone: not every reader of A2A knows the others.
            body = jsontext.set_members(body, (), {"params": params})
            request = replace(request, params=params, body=body)
    if lenient and operation in _SENDS:
        request = _with_filled_message(request, filled)
    request = checked(request, operation, lenient=lenient)
    if "id" not in envelope:
        # After method and params: what is wrong with them helps more than that nobody could be told.
        raise _invalid_request("Notifications are not supported: give the request an id")
    return request, filled


def _head(envelope: JSONObject, body: bytes, version: str | None, lenient: bool) -> A2ARequest:
    method = _checked_method(envelope)
    operation, belongs_to = operations.BY_METHOD.get(method, (None, None))
    dialect = versions.negotiate(version, belongs_to, lenient=lenient)
    params = envelope.get("params")
    if operation is None:
        params = params if isinstance(params, dict) else None
    return A2ARequest(envelope.get("id"), method, operation, dialect, _checked_params(params), body)


def _absent_from_envelope(envelope: JSONObject) -> JSONObject:
    absent: JSONObject = {}
    if "jsonrpc" not in envelope:
        absent["jsonrpc"] = "2.0"
    if "id" not in envelope:
        absent["id"] = ids.uuid7()
    return absent


def _checked_method(envelope: JSONObject) -> str:
    if envelope.get("jsonrpc") != "2.0":
        raise _invalid_request('The member jsonrpc must be "2.0"')
    if not _is_id(envelope.get("id")):
        raise _invalid_request("The id of a request must be a string, a number or null")
    method = envelope.get("method")
    if not isinstance(method, str) or not method:
        raise _invalid_request("A request needs a method")
    return method


def _checked_params(params: JSON) -> JSONObject:
    if params is None:
        return {}
    if not isinstance(params, dict):
        raise errors.invalid_params(errors.Violation("params", "must be an object"))
    return params


def _with_filled_message(request: A2ARequest, filled: _Filled) -> A2ARequest:
    message = request.params.get("message")
    if not isinstance(message, dict):
        return request
    absent: JSONObject = {}
    if message.get("messageId") in (None, ""):
        absent["messageId"] = ids.uuid7()
    if message.get("role") in (None, ""):
        absent["role"] = "ROLE_USER" if request.dialect == "1.0" else "user"
    if not absent:
        return request
    filled[_MESSAGE] = absent
    params: JSONObject = {**request.params, "message": {**message, **absent}}
    return replace(request, params=params, given_message_id="messageId" not in absent)


def _with_message(request: A2ARequest, tenant: str) -> A2ARequest:
    """Lift out of a checked message what routing and recording need."""
    message = cast("dict[str, Any]", request.params["message"])
    return A2ARequest(
        request.id,
        request.method,
        request.operation,
        request.dialect,
        request.params,
        request.body,
        message,
        message["messageId"],
        request.given_message_id,
        message.get("contextId") or None,
        message.get("taskId") or None,
        checks.ROLES[message["role"]],
        tuple(message.get("referenceTaskIds") or ()),
        "configuration" not in request.params or _is_blocking(request),
        tenant,
    )


def _is_blocking(request: A2ARequest) -> bool:
    configuration = request.params.get("configuration")
    if not isinstance(configuration, dict):
        return True
    if request.dialect == "1.0":
        return configuration.get("returnImmediately") is not True
    return configuration.get("blocking") is not False


def _task_named(request: A2ARequest) -> str | None:
    return _text(request.params, "taskId") or _text(request.params, "id")


def _text(holder: JSONObject, name: str) -> str | None:
    value = holder.get(name)
    return value if isinstance(value, str) and value else None


def _is_id(value: JSON) -> bool:
    return not isinstance(value, _NO_IDS)


def _invalid_request(sentence: str) -> errors.A2AError:
    return errors.protocol_error(errors.INVALID_REQUEST, sentence)
