"""Reading and framing JSON-RPC requests."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_wire import JSON, JSONObject, ids
from molecule_wire.a2a import checks, envelopes, errors, operations
from tests.rows import each_row


def _send(**changes: Any) -> dict[str, Any]:
    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}], **changes}
    return {"jsonrpc": "2.0", "id": "1", "method": "SendMessage", "params": {"message": message}}


def _parsed(envelope: JSON, *, version: str | None = "1.0", lenient: bool = False) -> envelopes.A2ARequest:
    return envelopes.parse_request(json.dumps(envelope).encode(), version=version, lenient=lenient)


def _refused(body: bytes | JSON, *, version: str | None = "1.0", lenient: bool = False) -> errors.A2AError:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(errors.A2AError) as caught:
        envelopes.parse_request(raw, version=version, lenient=lenient)
    return caught.value


def _fields(error: errors.A2AError) -> list[str]:
    assert error.code == -32602
    return [violation.field for violation in error.violations]


def test_a_1_0_request_is_read_without_touching_its_bytes() -> None:
    body = (
        b'{ "jsonrpc":"2.0","id":9007199254740993,"method":"SendMessage","x-new":1.50,"params":{"message":'
        b'{"messageId":"m1","role":"ROLE_AGENT","contextId":"c1","taskId":"t1","referenceTaskIds":["t0"],'
        b'"parts":[{"text":"hi"}],"x":9007199254740995}, "configuration":{"returnImmediately":true}}}'
    )
    for lenient in (False, True):
        request = envelopes.parse_request(body, version="1.0.1", lenient=lenient)
        assert request.body is body
        assert (request.id, request.method, request.dialect) == (9007199254740993, "SendMessage", "1.0")
        assert request.operation is operations.SEND
        assert (request.message_id, request.context_id, request.task_id) == ("m1", "c1", "t1")
        assert (request.role, request.reference_task_ids) == ("agent", ("t0",))
        assert request.given_message_id
        assert not request.blocking
        assert request.message is not None
        assert request.message["x"] == 9007199254740995


def test_a_0_3_request_is_read_in_its_own_dialect() -> None:
    envelope = _send(role="user", parts=[{"kind": "text", "text": "hi"}], contextId="", taskId=None)
    envelope["method"] = "message/stream"
    request = _parsed(envelope, version=None)
    assert (request.operation, request.dialect) == (operations.STREAM, "0.3")
    assert (request.role, request.context_id, request.task_id) == ("user", None, None)
    assert request.blocking


@pytest.mark.parametrize(
    ("version", "method", "configuration", "blocking"),
    [
        ("1.0", "SendMessage", {}, True),
        ("1.0", "SendMessage", {"returnImmediately": False}, True),
        ("1.0", "SendMessage", {"blocking": False}, True),
        ("0.3", "message/send", {"blocking": False}, False),
        ("0.3", "message/send", {"blocking": True}, True),
        ("0.3", "message/send", {"returnImmediately": True}, True),
    ],
)
def test_a_send_waits_unless_its_own_dialect_says_otherwise(
    version: str, method: str, configuration: JSONObject, blocking: bool
) -> None:
    envelope = _send()
    envelope["method"] = method
    envelope["params"]["configuration"] = configuration
    assert _parsed(envelope, version=version).blocking is blocking


def test_the_lenient_door_fills_in_what_a_bare_request_lacks() -> None:
    body = b'{"method":"message/send", "params":{"message":{"parts":[{"type":"text","text":"hi"}],"n":1e2}}}'
    request = envelopes.parse_request(body, version=None, lenient=True)
    assert ids.is_uuid(str(request.id))
    assert request.message_id is not None
    assert ids.is_uuid(request.message_id)
    assert not request.given_message_id
    assert request.role == "user"
    assert request.body == (
        b'{"jsonrpc":"2.0","id":"%b","method":"message/send", "params":{"message":'
        b'{"messageId":"%b","role":"user","parts":[{"type":"text","text":"hi"}],"n":1e2}}}'
        % (str(request.id).encode(), request.message_id.encode())
    )
    assert request.params == json.loads(request.body)["params"]


def test_a_large_request_is_filled_like_a_small_one() -> None:
    for padding in (b"x" * 9, b"x" * 30_000):
        body = (
            b'{"params":{"message":1},"method":"message/send",'
            b'"params":{"message":{"role" : "", "messageId":\tnull,'
            b'"parts":[{"text":"%b"}],"metadata":{"message":{"role":null}}} } ,"params2":{"message":{}}}\n'
            % padding
        )
        request = envelopes.parse_request(body, version=None, lenient=True)
        filled = body[1:].replace(b'"role" : ""', b'"role" : "user"')
        filled = filled.replace(b"\tnull", b'\t"%b"' % str(request.message_id).encode())
        assert request.body == b'{"jsonrpc":"2.0","id":"%b",' % str(request.id).encode() + filled
        assert request.params == json.loads(request.body)["params"]
        assert not request.given_message_id


def test_a_large_complete_request_keeps_its_bytes() -> None:
    body = json.dumps(_send(parts=[{"text": "x" * 30_000}])).encode()
    assert envelopes.parse_request(body, version="1.0", lenient=True).body is body
    assert _refused(b"[" + body + b"]", lenient=True).code == -32600
    assert _refused(body[:-1], lenient=True).code == -32700


def test_a_refusal_names_a_bounded_number_of_fields() -> None:
    error = _refused(_send(messageId=7, parts=[0] * 100_000))
    assert len(_fields(error)) == checks.MAX_VIOLATIONS
    assert _fields(error)[:2] == ["message.messageId", "message.parts[0]"]


def test_the_lenient_door_keeps_what_is_given() -> None:
    envelope: JSON = {
        "id": None,
        "method": "SendMessage",
        "params": {"message": {"messageId": "m1", "role": None, "parts": [{"text": "hi"}]}},
    }
    request = _parsed(envelope, version=None, lenient=True)
    assert (request.id, request.dialect, request.message_id) == (None, "1.0", "m1")
    assert request.given_message_id
    assert json.loads(request.body)["params"]["message"]["role"] == "ROLE_USER"


@pytest.mark.parametrize("role", ["user", "agent", "ROLE_USER", "ROLE_AGENT"])
def test_every_door_reads_every_spelling_of_a_role(role: str) -> None:
    for lenient in (False, True):
        assert _parsed(_send(role=role), lenient=lenient).role == role.removeprefix("ROLE_").lower()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[]", -32600),
        (b"[{}]", -32600),
        (b'"SendMessage"', -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"SendMessage"}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":""}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"SendMessage"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"SendMessage"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":[]}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"SendMessage"}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":"hi"}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"message/send","params":7}', -32601),
    ],
)
def test_a_bad_envelope_is_refused_on_every_door(body: bytes, code: int) -> None:
    for lenient in (False, True):
        assert _refused(body, lenient=lenient).code == code


def test_a_notification_is_refused_by_strict_doors() -> None:
    error = _refused({name: value for name, value in _send().items() if name != "id"})
    assert (error.code, error.rpc_id) == (-32600, None)
    assert "id" in error.message


def test_an_error_knows_the_id_of_its_request() -> None:
    assert _refused({**_send(), "id": 7}, version="1.7").rpc_id == 7
    assert _refused({**_send(parts=[]), "id": "x"}).rpc_id == "x"
    assert _refused({**_send(), "id": [1]}).rpc_id is None


def test_strict_doors_name_every_missing_field() -> None:
    message: JSON = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {}}}
    assert _fields(_refused(message)) == ["message.messageId", "message.role", "message.parts"]
    assert _fields(_refused(message, lenient=True)) == ["message.parts"]


@each_row(
    ("changes", "field"),
    [
        ({"messageId": 7}, "message.messageId"),
        ({"messageId": "x" * 1025}, "message.messageId"),
        ({"messageId": "a\0b"}, "message.messageId"),
        ({"contextId": 7}, "message.contextId"),
        ({"taskId": {}}, "message.taskId"),
        ({"role": "boss"}, "message.role"),
        ({"role": 7}, "message.role"),
        ({"parts": []}, "message.parts"),
        ({"parts": {"text": "hi"}}, "message.parts"),
        ({"parts": ["hi"]}, "message.parts[0]"),
        ({"parts": [{"text": "hi"}, {"hologram": 1}]}, "message.parts[1]"),
        ({"parts": [{"text": 7}]}, "message.parts[0]"),
        ({"parts": [{"text": "hi", "url": "u"}]}, "message.parts[0]"),
        ({"parts": [{"kind": "file", "file": {"name": "n"}}]}, "message.parts[0]"),
        ({"referenceTaskIds": "t0"}, "message.referenceTaskIds"),
        ({"referenceTaskIds": [7]}, "message.referenceTaskIds"),
        ({"metadata": []}, "message.metadata"),
    ],
)
def test_a_wrong_field_of_a_message_is_named(changes: dict[str, Any], field: str) -> None:
    for lenient in (False, True):
        assert _fields(_refused(_send(**changes), lenient=lenient)) == [field]


@pytest.mark.parametrize(
    "part",
    [
        {"text": ""},
        {"data": None},
        {"data": {"a": 1}},
        {"raw": "aGk=", "text": None},
        {"type": "text", "text": "a"},
    ],
)
def test_parts_of_every_kind_are_let_in(part: JSONObject) -> None:
    assert _parsed(_send(parts=[part])).message_id == "m1"


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"configuration": []}, "configuration"),
        ({"configuration": {"returnImmediately": "yes"}}, "configuration.returnImmediately"),
        ({"configuration": {"blocking": None}}, "configuration.blocking"),
        ({"configuration": {"historyLength": -1}}, "configuration.historyLength"),
        ({"configuration": {"historyLength": True}}, "configuration.historyLength"),
        ({"metadata": "x"}, "metadata"),
    ],
)
def test_a_wrong_field_beside_the_message_is_named(params: dict[str, Any], field: str) -> None:
    envelope = _send()
    envelope["params"].update(params)
    assert _fields(_refused(envelope)) == [field]


@pytest.mark.parametrize(
    ("version", "method", "params", "task_id"),
    [
        ("1.0", "GetTask", {"id": "t1", "historyLength": 0}, "t1"),
        ("0.3", "tasks/cancel", {"id": "t1"}, "t1"),
        ("1.0", "GetTaskPushNotificationConfig", {"taskId": "t1", "id": "c1"}, "t1"),
        ("0.3", "tasks/pushNotificationConfig/set", {"taskId": "t1", "pushNotificationConfig": {}}, "t1"),
        ("1.0", "ListTasks", {}, None),
    ],
)
def test_other_operations_name_their_task(
    version: str, method: str, params: JSONObject, task_id: str | None
) -> None:
    request = _parsed({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, version=version)
    assert (request.task_id, request.message) == (task_id, None)


@pytest.mark.parametrize(
    ("method", "params", "fields"),
    [
        ("GetTask", None, ["id"]),
        ("GetTask", {"id": "t1", "historyLength": -1}, ["historyLength"]),
        ("CreateTaskPushNotificationConfig", {"taskId": ""}, ["taskId", "url"]),
    ],
)
def test_other_operations_need_their_fields(method: str, params: JSON, fields: list[str]) -> None:
    envelope: JSON = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    assert _fields(_refused(envelope)) == fields


def test_a_0_3_push_config_must_be_an_object() -> None:
    method = "tasks/pushNotificationConfig/set"
    envelope: JSON = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"taskId": "t1"}}
    assert _fields(_refused(envelope, version="0.3")) == ["pushNotificationConfig"]


@pytest.mark.parametrize("params", [{"a": 1}, [1, 2], None])
def test_a_method_nobody_knows_is_read_as_it_is(params: JSON) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "company/dance", "params": params}).encode()
    request = envelopes.parse_request(body, version=None, lenient=True)
    assert (request.operation, request.dialect, request.body) == (None, "0.3", body)
    assert request.params == (params if isinstance(params, dict) else {})
    assert envelopes.body_in(request, "1.0") == body


def test_a_request_is_converted_for_an_agent_of_the_other_dialect() -> None:
    envelope = {**_send(), "task_id": 9007199254740993}
    request = _parsed(envelope)
    assert envelopes.body_in(request, "1.0") is request.body
    assert json.loads(envelopes.body_in(request, "0.3")) == {
        "jsonrpc": "2.0",
        "id": "1",
        "method": "message/send",
        "task_id": 9007199254740993,
        "params": {
            "message": {
                "kind": "message",
                "messageId": "m1",
                "role": "user",
                "parts": [{"kind": "text", "text": "hi"}],
            }
        },
    }


def test_what_the_other_dialect_lacks_is_not_converted() -> None:
    request = _parsed({"jsonrpc": "2.0", "id": 1, "method": "ListTasks"})
    with pytest.raises(errors.A2AError) as caught:
        envelopes.body_in(request, "0.3")
    assert caught.value.code == -32601


def test_answers_are_framed_with_the_id_of_the_request() -> None:
    assert envelopes.result_envelope(7, {"task": {}}) == {"jsonrpc": "2.0", "id": 7, "result": {"task": {}}}
    error = errors.protocol_error(errors.TASK_NOT_FOUND)
    assert envelopes.error_envelope(7, error) == {"jsonrpc": "2.0", "id": 7, "error": error.to_object()}
    extension = errors.protocol_error(errors.EXTENSION_SUPPORT_REQUIRED)
    framed = envelopes.error_envelope(None, extension, "0.3")
    assert framed["error"] == extension.to_object("0.3")


@given(st.binary(), st.booleans())
def test_any_bytes_are_a_request_or_an_a2a_error(body: bytes, lenient: bool) -> None:
    with pytest.raises(errors.A2AError):
        envelopes.parse_request(body, version=None, lenient=lenient)


JSON_VALUES: st.SearchStrategy[JSON] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
MESSAGE_LIKE = st.fixed_dictionaries(
    {},
    optional={
        name: JSON_VALUES
        for name in ("messageId", "role", "parts", "contextId", "taskId", "metadata", "referenceTaskIds")
    },
)


@given(
    st.one_of(MESSAGE_LIKE, JSON_VALUES),
    JSON_VALUES,
    st.sampled_from(["message/send", "SendMessage"]),
    st.sampled_from(["", "x" * 20_000]),
)
def test_any_message_is_read_or_refused_on_the_lenient_door(
    message: JSON, configuration: JSON, method: str, padding: str
) -> None:
    params: JSON = {"message": message, "configuration": configuration}
    envelope: JSON = {"method": method, "params": params, "padding": padding}
    with contextlib.suppress(errors.A2AError):
        request = _parsed(envelope, version=None, lenient=True)
        assert request.message == json.loads(request.body)["params"]["message"]
        assert request.id == json.loads(request.body)["id"]


_IDS: st.SearchStrategy[Any] = st.sampled_from(["m1", "", "a" * 1024, "a" * 1025, "nul\0", None, 7, ["m1"]])
_ROLES: st.SearchStrategy[Any] = st.sampled_from(["ROLE_USER", "agent", "ROLE_OTHER", "", None, 1, {}])
_PARTS: st.SearchStrategy[Any] = st.one_of(
    st.lists(st.sampled_from([{"text": "hi"}, {"text": 5}, {"raw": "?"}, {"text": "hi", "url": "u"}, {}, 3])),
    st.sampled_from([None, {}, "hi"]),
)


@given(
    st.fixed_dictionaries(
        {"messageId": _IDS, "role": _ROLES, "parts": _PARTS}, optional={"contextId": _IDS, "metadata": _IDS}
    ),
    st.booleans(),
)
def test_a_plain_message_is_held_to_the_same_as_any_other(message: dict[str, Any], lenient: bool) -> None:
    params: JSONObject = {"message": message}
    unlike: JSONObject = {**params, "metadata": {}}
    found = [checks.violations(operations.SEND, "1.0", given, lenient=lenient) for given in (params, unlike)]
    assert found[0] == found[1]
