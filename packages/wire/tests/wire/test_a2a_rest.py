"""The HTTP+JSON binding: what a path, a query and a body stand for."""

import json
from typing import Any

import pytest

from molecule_wire import JSONObject
from molecule_wire.a2a import errors, extensions, operations, push_configs, rest, tenants
from molecule_wire.a2a.operations import Dialect, Operation


def _asked(
    operation: Operation, dialect: Dialect = "1.0", body: Any = b"", query: Any = None, **path: str
) -> rest.RestRequest:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return rest.RestRequest(operation, dialect, path, query or {}, raw)


def _refused(asked: rest.RestRequest) -> errors.A2AError:
    with pytest.raises(errors.A2AError) as caught:
        rest.parse_request(asked)
    return caught.value


def test_a_send_holds_the_caller_s_own_bytes() -> None:
    raw = (
        b' {"message": {"messageId":"m","role":"ROLE_USER", "parts":[{"text":"x"}],"odd":9007199254740993} } '
    )
    request = rest.parse_request(_asked(operations.SEND, body=raw))
    assert raw in request.body
    assert json.loads(request.body)["method"] == request.method == "SendMessage"
    assert (request.message_id, request.dialect, request.id) == ("m", "1.0", json.loads(request.body)["id"])


def test_an_old_send_becomes_a_new_one() -> None:
    said = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "x"}]}
    body = {"message": said, "configuration": {"blocking": False}}
    request = rest.parse_request(_asked(operations.STREAM, "0.3", body))
    assert (request.method, request.dialect, request.blocking) == ("SendStreamingMessage", "1.0", False)
    assert json.loads(request.body)["params"]["message"]["parts"] == [{"text": "x"}]


def test_ids_of_the_path_are_params() -> None:
    get = rest.parse_request(_asked(operations.GET, task_id="t", query={"historyLength": "2"}))
    assert (get.task_id, get.params) == ("t", {"id": "t", "historyLength": 2})
    new = rest.parse_request(_asked(operations.PUSH_GET, task_id="t", config_id="c"))
    assert new.params == {"taskId": "t", "id": "c"}
    old = rest.parse_request(_asked(operations.PUSH_GET, "0.3", task_id="t", config_id="c"))
    assert old.params == {"id": "t", "pushNotificationConfigId": "c"}


def test_a_body_may_repeat_the_path_but_not_contradict_it() -> None:
    same = rest.parse_request(_asked(operations.CANCEL, body={"id": "t", "metadata": {}}, task_id="t"))
    assert same.task_id == "t"
    assert _refused(_asked(operations.CANCEL, body={"id": "u"}, task_id="t")).code == -32602


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"pageSize": "0"}, "pageSize"),
        ({"pageSize": "101"}, "pageSize"),
        ({"pageSize": "many"}, "pageSize"),
        ({"historyLength": "-1"}, "historyLength"),
        ({"includeArtifacts": "maybe"}, "includeArtifacts"),
        ({"status": "completed"}, "status"),
        ({"statusTimestampAfter": "yesterday"}, "statusTimestampAfter"),
        ({"tenant": "v1"}, "tenant"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused(query: dict[str, str], field: str) -> None:
    error = _refused(_asked(operations.LIST, query=query))
    assert [violation.field for violation in error.violations] == [field]


def test_a_list_is_read_from_its_query() -> None:
    query = {"pageSize": "7", "includeArtifacts": "TRUE", "status": "TASK_STATE_WORKING", "contextId": ""}
    request = rest.parse_request(_asked(operations.LIST, query=query))
    assert request.params == {"pageSize": 7, "includeArtifacts": True, "status": "TASK_STATE_WORKING"}


@pytest.mark.parametrize(("body", "code"), [(b"{", -32700), (b"[]", -32600), (b"{}", -32602)])
def test_a_body_that_is_no_request_is_refused(body: bytes, code: int) -> None:
    assert _refused(_asked(operations.SEND, body=body)).code == code


# Push configs


def test_a_config_is_told_in_three_spellings() -> None:
    held: JSONObject = {
        "taskId": "t",
        "id": "c",
        "url": "https://x.example",
        "authentication": {"scheme": "Bearer"},
    }
    inner: JSONObject = {"id": "c", "url": "https://x.example", "authentication": {"schemes": ["Bearer"]}}
    assert push_configs.shown("1.0", held) == held
    assert push_configs.shown("0.3", held) == {"taskId": "t", "pushNotificationConfig": inner}
    named = "tasks/t/pushNotificationConfigs/c"
    assert push_configs.shown("0.3 REST", held) == {"name": named, "pushNotificationConfig": inner}
    assert push_configs.given("0.3", {"pushNotificationConfig": inner}) == {
        name: value for name, value in held.items() if name != "taskId"
    }


def test_an_old_create_over_rest_names_its_config_beside_it() -> None:
    body = {"parent": "tasks/t", "configId": "c", "config": {"pushNotificationConfig": {"url": "https://x"}}}
    request = rest.parse_request(_asked(operations.PUSH_CREATE, "0.3", body, task_id="t"))
    assert request.params == {"taskId": "t", "pushNotificationConfig": {"url": "https://x", "id": "c"}}


# Tenants and extensions


@pytest.mark.parametrize("name", ["v1", "tasks", "extendedAgentCard", ".well-known", "a:b", "a/b", ""])
def test_some_words_are_no_tenants(name: str) -> None:
    assert not tenants.may_be(name)


def test_extensions_are_those_that_both_sides_know() -> None:
    card: Any = {"capabilities": {"extensions": [{"uri": "a", "required": True}, {"uri": "b"}, {"odd": 1}]}}
    wanted = extensions.asked({"a2a-extensions": "b, x", "x-a2a-extensions": "a,b"})
    assert wanted == ("b", "x", "a")
    assert extensions.activated(card, wanted) == ("b", "a")
    extensions.check_required(card, wanted)
    with pytest.raises(errors.A2AError) as caught:
        extensions.check_required(card, ["b"])
    assert (caught.value.code, caught.value.metadata["extension"]) == (-32008, "a")
    assert extensions.activated(None, wanted) == ()


def test_the_field_names_of_protocol_buffers_are_names_too() -> None:
    file = {"file_with_uri": "https://example.com/x", "mime_type": "text/plain"}
    parts = [{"file": file}, {"data": {"data": {"message_id": 1}}}]
    said = {"message_id": "m", "context_id": "c", "task_id": "t", "role": "ROLE_USER", "content": parts}
    config = {"history_length": 2, "push_notification": {"url": "https://example.com"}}
    body = {"request": {**said, "metadata": {"task_id": 1}}, "configuration": config}
    request = rest.parse_request(_asked(operations.SEND, "0.3", body))
    assert (request.message_id, request.context_id, request.task_id) == ("m", "c", "t")
    assert request.params["configuration"] == {
        "historyLength": 2,
        "taskPushNotificationConfig": {"url": "https://example.com"},
    }
    assert request.message is not None
    assert request.message["metadata"] == {"task_id": 1}
    assert request.message["parts"] == [
        {"url": "https://example.com/x", "mediaType": "text/plain"},
        {"data": {"message_id": 1}},
    ]


def test_two_names_for_a_field_are_one_too_many() -> None:
    said = {"message_id": "n", "messageId": "m", "role": "ROLE_USER", "content": [{"text": "x"}]}
    refused = _refused(_asked(operations.SEND, "0.3", {"message": said}))
    assert [violation.field for violation in refused.violations] == ["message.messageId"]


def test_a_push_config_may_be_named_as_in_protocol_buffers() -> None:
    body = {"config_id": "c", "config": {"push_notification_config": {"url": "https://example.com"}}}
    made = rest.parse_request(_asked(operations.PUSH_CREATE, "0.3", body, task_id="t"))
    config = {"url": "https://example.com", "id": "c"}
    assert made.params == {"taskId": "t", "pushNotificationConfig": config}


def test_the_tenant_of_the_path_is_a_param_of_the_request() -> None:
    said = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
    request = rest.parse_request(_asked(operations.SEND, body={"message": said}, tenant="acme"))
    assert (request.tenant, json.loads(request.body)["params"]) == (
        "acme",
        {"message": said, "tenant": "acme"},
    )
    other = rest.parse_request(_asked(operations.SEND, body={"message": said, "tenant": "b"}, tenant="acme"))
    assert other.tenant == "b"


@pytest.mark.parametrize(
    ("accept", "given"),
    [
        ("application/a2a+json", rest.A2A_MEDIA),
        ("Application/A2A+json; q=1, */*", rest.A2A_MEDIA),
        ("application/json", rest.JSON_MEDIA),
        ("*/*", rest.JSON_MEDIA),
        ("", rest.JSON_MEDIA),
    ],
)
def test_the_type_of_an_answer_is_asked_for_in_any_case(accept: str, given: str) -> None:
    assert rest.media(accept) == given
