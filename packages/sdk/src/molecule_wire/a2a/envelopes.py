"""JSON-RPC envelopes of both dialects: reading a request, framing an answer.

A strict door (the standard one, an agent's own) refuses what is missing. The lenient platform path fills in
`jsonrpc`, `id`, `messageId` and `role`, by inserting just these bytes; every other byte stays as it came.
"""

from dataclasses import dataclass, replace

from molecule_wire import JSON, JSONObject, ids, jsontext
from molecule_wire.a2a import checks, convert, errors, operations, versions

_SENDS = (operations.SEND, operations.STREAM)


@dataclass(frozen=True, slots=True)
class Request:
    """One JSON-RPC request. `operation` is None for a method that A2A does not know.

    `message`, `params` and `body` are in the dialect of the caller; `body` holds the bytes as they came,
    plus what a lenient door filled in. `task_id` is the task a message continues or the one asked about.
    `given_message_id` is False when the door made the message id.
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


def parse_request(body: bytes, *, version: str | None, lenient: bool) -> Request:
    """Read a request; `version` is what `A2A-Version` said. Raises A2AError that knows the request's id."""
    envelope = _read(body)
    try:
        return _request(envelope, body, version, lenient)
    except errors.A2AError as problem:
        problem.rpc_id = envelope.get("id") if _is_id(envelope.get("id")) else None
        raise


def result_envelope(request_id: JSON, result: JSON) -> JSONObject:
    """Frame a result."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error_envelope(
    request_id: JSON, error: errors.A2AError, dialect: operations.Dialect = "1.0"
) -> JSONObject:
    """Frame an error; `request_id` is null where the request's own could not be read."""
    return {"jsonrpc": "2.0", "id": request_id, "error": error.to_object(dialect)}


def body_in(request: Request, dialect: operations.Dialect) -> bytes:
    """The request for an agent that speaks `dialect`: its own bytes, or with method and params converted."""
    converter = convert.between(request.dialect, dialect)
    if converter is None or request.operation is None:
        return request.body
    method = request.operation.method(dialect)
    if method is None:
        raise errors.protocol_error(errors.METHOD_NOT_FOUND, f"A2A {dialect} has no {request.method}")
    params = converter.params(request.operation, request.params)
    return jsontext.set_members(request.body, (), {"method": method, "params": params})


def _read(body: bytes) -> JSONObject:
    try:
        envelope = jsontext.decode(body)
    except jsontext.NotJSON as problem:
        raise errors.protocol_error(errors.PARSE_ERROR, f"The body is not JSON: {problem}") from problem
    if isinstance(envelope, list):
        raise _invalid_request("JSON-RPC batches are not supported: send one request at a time")
    if not isinstance(envelope, dict):
        raise _invalid_request("A JSON-RPC request is an object with jsonrpc, id, method and params")
    return envelope


def _request(envelope: JSONObject, body: bytes, version: str | None, lenient: bool) -> Request:
    filled = _filled_envelope(envelope) if lenient else {}
    envelope = {**envelope, **filled}
    method = _checked_method(envelope)
    operation, belongs_to = operations.BY_METHOD.get(method, (None, None))
    dialect = versions.negotiate(version, belongs_to, lenient=lenient)
    if filled:
        body = jsontext.set_members(body, (), filled)
    params = envelope.get("params")
    if operation is None:
        known = params if isinstance(params, dict) else {}
        return Request(envelope["id"], method, None, dialect, known, body)
    request = Request(envelope["id"], method, operation, dialect, _checked_params(params), body)
    if lenient and operation in _SENDS:
        request = _with_filled_message(request)
    _refuse_violations(operation, request)
    return _with_message(request) if operation in _SENDS else replace(request, task_id=_task_named(request))


def _filled_envelope(envelope: JSONObject) -> JSONObject:
    filled: JSONObject = {}
    if "jsonrpc" not in envelope:
        filled["jsonrpc"] = "2.0"
    if "id" not in envelope:
        filled["id"] = ids.uuid7()
    return filled


def _checked_method(envelope: JSONObject) -> str:
    if envelope.get("jsonrpc") != "2.0":
        raise _invalid_request('The member jsonrpc must be "2.0"')
    if "id" not in envelope:
        raise _invalid_request("Notifications are not supported: give the request an id")
    if not _is_id(envelope["id"]):
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


def _refuse_violations(operation: operations.Operation, request: Request) -> None:
    found = checks.violations(operation, request.dialect, request.params)
    if found:
        raise errors.invalid_params(*found)


def _with_filled_message(request: Request) -> Request:
    message = request.params.get("message")
    if not isinstance(message, dict):
        return request
    filled: JSONObject = {}
    if message.get("messageId") in (None, ""):
        filled["messageId"] = ids.uuid7()
    if message.get("role") in (None, ""):
        filled["role"] = "ROLE_USER" if request.dialect == "1.0" else "user"
    if not filled:
        return request
    params: JSONObject = {**request.params, "message": {**message, **filled}}
    body = jsontext.set_members(request.body, ("params", "message"), filled)
    return replace(request, params=params, body=body, given_message_id="messageId" not in filled)


def _with_message(request: Request) -> Request:
    """Lift out of a checked message what routing and recording need."""
    message = request.params["message"]
    assert isinstance(message, dict)
    references = message.get("referenceTaskIds")
    listed = references if isinstance(references, list) else []
    return replace(
        request,
        message=message,
        message_id=_text(message, "messageId"),
        context_id=_text(message, "contextId"),
        task_id=_text(message, "taskId"),
        role=checks.ROLES[str(message["role"])],
        reference_task_ids=tuple(str(task_id) for task_id in listed),
        blocking=_is_blocking(request),
    )


def _is_blocking(request: Request) -> bool:
    configuration = request.params.get("configuration")
    if not isinstance(configuration, dict):
        return True
    if request.dialect == "1.0":
        return configuration.get("returnImmediately") is not True
    return configuration.get("blocking") is not False


def _task_named(request: Request) -> str | None:
    return _text(request.params, "taskId") or _text(request.params, "id")


def _text(holder: JSONObject, name: str) -> str | None:
    value = holder.get(name)
    return value if isinstance(value, str) and value else None


def _is_id(value: JSON) -> bool:
    return not isinstance(value, bool | dict | list)


def _invalid_request(sentence: str) -> errors.A2AError:
    return errors.protocol_error(errors.INVALID_REQUEST, sentence)
