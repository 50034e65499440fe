"""A caller of 1.0 may write every member in either spelling of ProtoJSON; agents see the protocol's own."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from a2a import types
from google.protobuf.descriptor import Descriptor

from molecule_agent import A2AServer
from molecule_platform.testing.scripted_agent import ScriptedAgent
from molecule_wire.a2a import operations, proto_names, text
from molecule_wire.a2a.operations import Dialect
from tests.spec.a2a import Binding, Caller, Problem, polled, pushed
from tests.spec.platforms import Platform
from tests.spec.sdk_agents import processes

BINDINGS: tuple[Binding, ...] = ("rpc", "rest", "platform")
NOBODY = "http://127.0.0.1:9/hook"
OWN = {"task_id": 1, "messageId": {"media_type": 2}}
"""What a caller keeps in metadata and data, under whatever names it likes."""


def said(words: str, **more: Any) -> dict[str, Any]:
    """A message in the other spelling."""
    parts = [{"text": words, "media_type": "text/plain"}, {"data": OWN, "media_type": "application/json"}]
    return {"message_id": f"complete-{words}", "role": "ROLE_USER", "parts": parts, "metadata": OWN, **more}


@pytest.fixture(scope="module")
def agent_of_1_0() -> Iterator[str]:
    with processes.agent_1_3() as url:
        yield url


@pytest.fixture(scope="module")
def agent_of_0_3() -> Iterator[str]:
    with processes.agent_0_3() as url:
        yield url


@pytest.mark.slow  # the agents are processes that import an SDK
@pytest.mark.parametrize("agent", ["agent_of_1_0", "agent_of_0_3"])
@pytest.mark.parametrize("binding", BINDINGS)
def test_agents_of_both_versions_answer_a_caller_of_the_other_spelling(
    patient: Platform, binding: Binding, agent: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(agent)
    caller = Caller(patient, processes.join(patient, url), binding)
    modes = {"accepted_output_modes": ["text/plain"]}
    configuration = {"history_length": 1, "return_immediately": False, **modes}
    sent = said("work", context_id="c1", reference_task_ids=["t0"])
    task = caller.send(sent, configuration=configuration)["task"]
    assert (task["contextId"], task["status"]["state"]) == ("c1", "TASK_STATE_COMPLETED")
    assert len(task["history"]) == 1
    assert "history" not in caller.get(task["id"], history_length=0)
    listed = caller.list(context_id="c1", page_size=1, include_artifacts=True)
    assert ([one["id"] for one in listed["tasks"]], listed["pageSize"]) == ([task["id"]], 1)
    assert listed["tasks"][0]["artifacts"][0]["parts"][0]["text"].startswith("re: work")


@pytest.mark.parametrize("dialect", ["1.0", "0.3"])
@pytest.mark.parametrize("binding", BINDINGS)
def test_an_agent_is_sent_the_protocol_s_own_names_and_the_caller_s_data_as_it_is(
    pushing: Platform, binding: Binding, dialect: Dialect
) -> None:
    agent = ScriptedAgent(dialects=[dialect])
    with pushed(pushing, agent=agent) as target:
        hook = {"url": NOBODY, "task_id": "t1"}
        configuration = {"task_push_notification_config": hook, "history_length": 3}
        sent = said("x", context_id="c1", reference_task_ids=["t0"])
        caller = target.caller(binding)
        caller.send(sent, configuration=configuration)
    body = json.loads(agent.received[-1].body)["params"]
    message = body["message"]
    named = (message["messageId"], message["contextId"], message["referenceTaskIds"])
    assert named == ("complete-x", "c1", ["t0"])
    assert body["configuration"]["historyLength"] == 3
    assert message["metadata"] == OWN
    assert message["parts"][1]["data"] == OWN
    assert [part["mediaType"] for part in message["parts"]] == ["text/plain", "application/json"]
    assert "_id" not in json.dumps({**message, "metadata": 0, "parts": 0})
    assert "ask_push" not in json.dumps(body)


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_push_config_is_registered_in_the_other_spelling(pushing: Platform, binding: Binding) -> None:
    agent = polled(pushing)
    caller = agent.caller(binding)
    task = caller.send(said("x"), configuration={"return_immediately": True})["task"]
    config = {"taskId": task["id"], "url": NOBODY}
    if binding != "rest":
        config["task_id"] = config.pop("taskId")
    made = caller.result(operations.PUSH_CREATE, config)
    assert (made["taskId"], made["url"]) == (task["id"], config["url"])


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_member_in_both_spellings_is_refused_by_its_name(platform: Platform, binding: Binding) -> None:
    caller = polled(platform).caller(binding)
    with pytest.raises(Problem) as refused:
        caller.send(said("x", messageId="y"))
    assert "INVALID" in json.dumps(refused.value.error)
    assert "as messageId and as message_id" in json.dumps(refused.value.error)


def test_an_agent_s_own_server_reads_the_other_spelling_too() -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": said("x")}}
    with A2AServer("named", "/a2a/inbound", lambda payload: payload["message"], host="127.0.0.1") as server:
        answer = requests.post(server.url, json=body, headers={"A2A-Version": "1.0"}, timeout=30).json()
    assert text.text_of(answer["result"]) == "x"


REQUESTS: dict[operations.Operation, Any] = {
    operations.SEND: types.SendMessageRequest,
    operations.STREAM: types.SendMessageRequest,
    operations.GET: types.GetTaskRequest,
    operations.LIST: types.ListTasksRequest,
    operations.CANCEL: types.CancelTaskRequest,
    operations.SUBSCRIBE: types.SubscribeToTaskRequest,
    operations.PUSH_CREATE: types.TaskPushNotificationConfig,
    operations.PUSH_GET: types.GetTaskPushNotificationConfigRequest,
    operations.PUSH_LIST: types.ListTaskPushNotificationConfigsRequest,
    operations.PUSH_DELETE: types.DeleteTaskPushNotificationConfigRequest,
    operations.EXTENDED_CARD: types.GetExtendedAgentCardRequest,
}


def fields_of(descriptor: Descriptor) -> proto_names.Shape:
    """The two names of every field that has two, and the messages of A2A inside."""
    names = {one.name: one.json_name for one in descriptor.fields if one.name != one.json_name}
    inside = {
        one.json_name: fields_of(one.message_type)
        for one in descriptor.fields
        if one.message_type is not None and one.message_type.file is descriptor.file
    }
    return proto_names.Shape(names, {name: shape for name, shape in inside.items() if shape != ({}, {})})


def test_every_field_of_the_protocol_that_has_two_names_is_known_by_both() -> None:
    assert set(REQUESTS) == set(operations.OPERATIONS)
    for operation, message in REQUESTS.items():
        assert proto_names.PARAMS[operation] == fields_of(message.DESCRIPTOR), operation.name
