"""The HTTP+JSON binding: paths, queries and bodies, read as the JSON-RPC request they stand for."""

from collections.abc import Mapping
from typing import NamedTuple

from molecule_wire import JSON, JSONObject, ids, jsontext
from molecule_wire.a2a import convert, envelopes, errors, operations, proto_names, push_configs
from molecule_wire.a2a.envelopes import A2ARequest
from molecule_wire.a2a.errors import Violation
from molecule_wire.a2a.operations import Dialect, Operation

JSON_MEDIA, A2A_MEDIA = "application/json", "application/a2a+json"

_SENDS = (operations.SEND, operations.STREAM)
_NUMBERS = frozenset({"historyLength", "pageSize"})
_FLAGS: Mapping[str, bool] = {"true": True, "false": False}
_FLAG_NAMES = frozenset({"includeArtifacts"})
_NOT_PARAMS = frozenset({"A2A-Version"})


class RestRequest(NamedTuple):
    """What an HTTP request of the binding says; `path` holds `task_id`, `config_id` and `tenant` if given."""

    operation: Operation
    dialect: Dialect
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes


def media(accept: str) -> str:
    """The type of an answer to a caller who says what it accepts; names of types have no case."""
    return A2A_MEDIA if A2A_MEDIA in accept.lower() else JSON_MEDIA


def parse_request(asked: RestRequest) -> A2ARequest:
    """Read a request. A send is in 1.0 whatever the path speaks; its body holds the caller's own bytes.

    Raises A2AError.
    """
    if asked.operation in _SENDS:
        return _send(asked)
    params = _params(asked)
    request = A2ARequest(
        None, _method(asked.operation, asked.dialect), asked.operation, asked.dialect, params, b""
    )
    return envelopes.checked(request, asked.operation)


def _send(asked: RestRequest) -> A2ARequest:
    operation, method = asked.operation, asked.operation.method_1_0
    given, raw = _body(asked.body), asked.body
    if asked.dialect == "0.3":
        params = convert.FROM_0_3_REST.params(operation, proto_names.as_json(given, proto_names.SEND_0_3))
    else:
        shape = proto_names.PARAMS[operation]
        params = proto_names.as_json(given, shape) if proto_names.may_stand_in(raw) else given
    if params is not given:
        raw = jsontext.encode(params)
    tenant = asked.path.get("tenant")
    if tenant and params.get("tenant") in (None, ""):
        # The agent is told what the path says: in its binding the tenant is a param.
        params = {**params, "tenant": tenant}
        raw = jsontext.set_members(raw, (), {"tenant": tenant})
    rpc_id = ids.uuid7()
    body = b'{"jsonrpc":"2.0","id":"%b","method":"%b","params":%b}' % (rpc_id.encode(), method.encode(), raw)
    return envelopes.checked(A2ARequest(rpc_id, method, operation, "1.0", params, body), operation)


def _params(asked: RestRequest) -> JSONObject:
    body = _body(asked.body) if asked.body.strip() else {}
    task_id, config_id = asked.path.get("task_id"), asked.path.get("config_id")
    if asked.operation is operations.PUSH_CREATE and asked.dialect == "0.3":
        return push_configs.of_rest_0_3(task_id or "", proto_names.as_json(body, proto_names.PUSH_CREATE_0_3))
    shape = proto_names.PARAMS[asked.operation]
    query = proto_names.as_json(_asked_for(asked.query), shape)
    named = proto_names.as_json(body, shape)
    params = {**{name: _value(name, text) for name, text in query.items()}, **named}
    for name, value in _names(asked.operation, asked.dialect, task_id, config_id).items():
        if params.get(name, value) not in (value, ""):
            raise errors.invalid_params(Violation(name, "is not the one that the path names"))
        params[name] = value
    return params


def _names(
    operation: Operation, dialect: Dialect, task_id: str | None, config_id: str | None
) -> dict[str, str]:
    """The ids of a path under the names they have in params."""
    of_configs = operation in push_configs.OPERATIONS
    task_name = "taskId" if of_configs and dialect == "1.0" else "id"
    config_name = "id" if dialect == "1.0" else "pushNotificationConfigId"
    named = {task_name: task_id, config_name: config_id} if config_id else {task_name: task_id}
    return {name: value for name, value in named.items() if value is not None}


def _asked_for(query: Mapping[str, str]) -> JSONObject:
    return {name: text for name, text in query.items() if text and name not in _NOT_PARAMS}


def _value(name: str, text: JSON) -> JSON:
    """A word of a query as JSON says it; one that does not fit stays a text, which the checks then refuse."""
    if not isinstance(text, str):
        return text
    if name in _NUMBERS and text.removeprefix("-").isdecimal() and len(text) <= 9:
        return int(text)
    return _FLAGS.get(text.lower(), text) if name in _FLAG_NAMES else text


def _body(raw: bytes) -> JSONObject:
    try:
        body = jsontext.decode(raw)
    except jsontext.NotJSON as problem:
        raise errors.protocol_error(errors.PARSE_ERROR, f"The body is not JSON: {problem}") from problem
    if not isinstance(body, dict):
        raise errors.protocol_error(errors.INVALID_REQUEST, "The body of a request is a JSON object")
    return body


def _method(operation: Operation, dialect: Dialect) -> str:
    return operation.method(dialect) or operation.method_1_0
