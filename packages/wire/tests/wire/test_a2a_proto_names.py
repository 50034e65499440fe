"""ProtoJSON's two spellings of a member are read alike; metadata and data are the caller's own."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_wire import JSONObject
from molecule_wire.a2a import envelopes, errors, operations, proto_names, rest
from molecule_wire.a2a.operations import Operation

Tree = Mapping[str, Any]
"""Which members hold objects of the protocol, or lists of them; all others are the caller's own."""

NAMES = ("task_id", "taskId", "message_id", "mediaType", "media_type", "history_length", "odd")
OWN = st.dictionaries(st.sampled_from(NAMES), st.integers() | st.booleans() | st.text(max_size=3), max_size=4)
WORD = st.text("abc", min_size=1, max_size=3)
PART = st.fixed_dictionaries(
    {"data": OWN}, optional={"mediaType": WORD, "filename": WORD, "metadata": OWN}
) | st.fixed_dictionaries({"text": WORD}, optional={"mediaType": WORD, "metadata": OWN})
MESSAGE = st.fixed_dictionaries(
    {"messageId": WORD, "role": st.just("ROLE_USER"), "parts": st.lists(PART, min_size=1, max_size=3)},
    optional={
        "contextId": WORD,
        "taskId": WORD,
        "referenceTaskIds": st.lists(WORD, max_size=2),
        "extensions": st.lists(WORD, max_size=2),
        "metadata": OWN,
    },
)
HOOK = st.fixed_dictionaries({"url": WORD}, optional={"taskId": WORD, "id": WORD, "token": WORD})
CONFIGURATION = st.fixed_dictionaries(
    {},
    optional={
        "acceptedOutputModes": st.lists(WORD, max_size=2),
        "historyLength": st.integers(0, 9),
        "returnImmediately": st.booleans(),
        "taskPushNotificationConfig": HOOK,
    },
)
SEND = st.fixed_dictionaries(
    {"message": MESSAGE}, optional={"configuration": CONFIGURATION, "metadata": OWN, "tenant": WORD}
)
SEND_TREE: Tree = {"message": {"parts": {}}, "configuration": {"taskPushNotificationConfig": {}}}
LIST = st.fixed_dictionaries(
    {},
    optional={
        "contextId": WORD,
        "pageSize": st.integers(1, 100),
        "pageToken": WORD,
        "historyLength": st.integers(0, 9),
        "statusTimestampAfter": st.just("2026-01-31T10:15:30Z"),
        "includeArtifacts": st.booleans(),
    },
)
PARAMS: list[tuple[Operation, st.SearchStrategy[Any]]] = [
    (operations.SEND, SEND),
    (operations.STREAM, SEND),
    (operations.LIST, LIST),
    (operations.GET, st.fixed_dictionaries({"id": WORD}, optional={"historyLength": st.integers(0, 9)})),
    (operations.CANCEL, st.fixed_dictionaries({"id": WORD}, optional={"metadata": OWN})),
    (operations.PUSH_CREATE, st.fixed_dictionaries({"taskId": WORD, "url": WORD}, optional={"id": WORD})),
    (operations.PUSH_GET, st.fixed_dictionaries({"taskId": WORD, "id": WORD})),
    (operations.PUSH_LIST, st.fixed_dictionaries({"taskId": WORD}, optional={"pageSize": st.integers(1, 9)})),
    (operations.PUSH_DELETE, st.fixed_dictionaries({"taskId": WORD, "id": WORD})),
]


def respelled(holder: dict[str, Any], tree: Tree, wanted: Callable[[], bool]) -> dict[str, Any]:
    """The object with some members of the protocol under their field names."""

    def inside(name: str, value: Any) -> Any:
        if name not in tree:
            return value
        if isinstance(value, list):
            return [respelled(one, tree[name], wanted) for one in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return respelled(value, tree[name], wanted)

    return {
        re.sub("[A-Z]", lambda found: "_" + found[0].lower(), name) if wanted() else name: inside(name, value)
        for name, value in holder.items()
    }


def rpc(operation: Operation, params: JSONObject, *, lenient: bool = False) -> envelopes.A2ARequest:
    envelope = {"jsonrpc": "2.0", "id": 1, "method": operation.method_1_0, "params": params}
    return envelopes.parse_request(json.dumps(envelope).encode(), version="1.0", lenient=lenient)


def told(request: envelopes.A2ARequest) -> tuple[Any, ...]:
    """What a request says, without the id that HTTP+JSON makes for each."""
    body = json.loads(request.body)["params"] if request.body else None
    named = (request.message, request.message_id, request.context_id, request.task_id, request.tenant)
    return (request.params, body, *named, request.reference_task_ids, request.blocking)


@pytest.mark.parametrize(("operation", "params"), PARAMS, ids=lambda value: getattr(value, "name", ""))
@given(data=st.data())
def test_both_spellings_are_read_alike_over_json_rpc(
    operation: Operation, params: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    usual = data.draw(params)
    other = respelled(usual, SEND_TREE, lambda: data.draw(st.booleans()))
    for lenient in (False, True):
        read = rpc(operation, usual, lenient=lenient)
        assert told(rpc(operation, other, lenient=lenient)) == told(read)
        assert (read.params, json.loads(read.body)["params"]) == (usual, usual)


@given(data=st.data())
def test_both_spellings_are_read_alike_over_http_json(data: st.DataObject) -> None:
    usual = data.draw(SEND)
    other = respelled(usual, SEND_TREE, lambda: data.draw(st.booleans()))
    first, second = (
        rest.parse_request(rest.RestRequest(operations.SEND, "1.0", {}, {}, json.dumps(params).encode()))
        for params in (usual, other)
    )
    assert told(first) == told(second)


@given(usual=LIST, data=st.data())
def test_both_spellings_are_read_alike_in_a_query(usual: dict[str, Any], data: st.DataObject) -> None:
    words = {name: str(value).lower() if value is True else str(value) for name, value in usual.items()}
    other = respelled(words, {}, lambda: data.draw(st.booleans()))
    first, second = (
        rest.parse_request(rest.RestRequest(operations.LIST, "1.0", {}, query, b""))
        for query in (words, other)
    )
    assert first.params == second.params == usual


def test_the_usual_spelling_keeps_its_bytes() -> None:
    for operation, params in ((operations.SEND, '{"message":%s}'), (operations.STREAM, '{ "message":%s }')):
        message = '{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a_b"}],"metadata":{"task_id": 1.50}}'
        body = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":%b}'
        raw = body % (operation.method_1_0.encode(), (params % message).encode())
        assert envelopes.parse_request(raw, version="1.0", lenient=False).body is raw


def test_a_name_may_be_written_with_escapes() -> None:
    for name in (b"message\\u005fid", b"\\u006dessage_id", b"message_\\u0069d"):
        message = b'{"%b":"m","role":"ROLE_USER","parts":[{"text":"x"}]}' % name
        body = b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":%b}}' % message
        assert envelopes.parse_request(body, version="1.0", lenient=False).message_id == "m"


def test_what_a_lenient_door_fills_in_stands_beside_the_json_names() -> None:
    for filler in ("x", "x" * 20_000):
        message = {"context_id": "c", "parts": [{"text": filler, "media_type": "text/plain"}]}
        body = json.dumps({"method": "SendMessage", "params": {"message": message}}).encode()
        request = envelopes.parse_request(body, version="1.0", lenient=True)
        sent = json.loads(request.body)
        assert sent["params"]["message"] == {
            "messageId": request.message_id,
            "role": "ROLE_USER",
            "contextId": "c",
            "parts": [{"text": filler, "mediaType": "text/plain"}],
        }
        assert (sent["jsonrpc"], sent["id"]) == ("2.0", request.id)


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"message": {"messageId": "m", "message_id": "m"}}, "message.messageId"),
        ({"message": {"parts": [{}, {"mediaType": "a", "media_type": None}]}}, "message.parts[].mediaType"),
        ({"configuration": {"history_length": 1, "historyLength": 1}}, "configuration.historyLength"),
        (
            {"configuration": {"task_push_notification_config": {"task_id": "t", "taskId": "t"}}},
            "configuration.taskPushNotificationConfig.taskId",
        ),
    ],
)
def test_a_member_under_both_names_is_refused_by_name(params: JSONObject, field: str) -> None:
    with pytest.raises(errors.A2AError) as caught:
        rpc(operations.SEND, params)
    assert (caught.value.code, caught.value.rpc_id) == (-32602, 1)
    [violation] = caught.value.violations
    assert violation.field == field
    assert "given twice" in violation.description


def test_a_query_under_both_names_is_refused() -> None:
    query = {"pageSize": "1", "page_size": "2"}
    with pytest.raises(errors.A2AError, match="Invalid parameters"):
        rest.parse_request(rest.RestRequest(operations.LIST, "1.0", {}, query, b""))


def test_0_3_over_json_rpc_knows_one_spelling() -> None:
    message = {"message_id": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]}
    envelope = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    with pytest.raises(errors.A2AError) as caught:
        envelopes.parse_request(json.dumps(envelope).encode(), version="0.3", lenient=False)
    assert [violation.field for violation in caught.value.violations] == ["message.messageId"]


def test_every_operation_has_a_shape() -> None:
    assert set(proto_names.PARAMS) == set(operations.OPERATIONS)
