"""What an independent conformance kit found wrong at the standard door, so that it stays right."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import pytest

from molecule_platform.testing.scripted_agent import ScriptedAgent
from molecule_wire.a2a import operations
from tests.spec.a2a import ASYNC, FRAMINGS, Caller, Problem, polled, pushed
from tests.spec.platforms import Platform
from tests.spec.scripted_agent import ScriptedAgent as Odd
from tests.spec.scripted_agent import join_push

PATIENCE_SECONDS = 30.0
NEW = {"A2A-Version": "1.0"}


def test_a_client_of_0_3_may_write_the_field_names_of_protocol_buffers(platform: Platform) -> None:
    with pushed(platform) as agent:
        body = {
            "request": {"message_id": "complete-1", "role": "ROLE_USER", "content": [{"text": "hi"}]},
            "configuration": {"accepted_output_modes": ["text/plain"], "history_length": 1},
        }
        task = platform.ok("POST", f"/agents/{agent.id}/v1/message:send", json=body)["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert [said["messageId"] for said in task["history"]] == ["complete-1"]


def test_the_tenant_of_a_path_is_told_to_the_agent(platform: Platform) -> None:
    with pushed(platform) as agent:
        body = {"message": agent.caller().message("hi")}
        platform.ok("POST", f"/agents/{agent.id}/acme/message:send", json=body, headers=NEW)
        assert json.loads(agent.agent.received[-1].body)["params"]["tenant"] == "acme"


@pytest.mark.parametrize("task_id", ["sl/ash", "/", "a:b", "q?x=1#y", "%2F", "sp ace", "ü/ñ"])
def test_a_task_is_reached_over_http_json_whatever_characters_its_agent_named_it_with(
    platform: Platform, agent: Odd, task_id: str
) -> None:
    client = join_push(platform, agent, protocols=["1.0"])
    waits = {"id": task_id, "contextId": "c", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}
    agent.respond = lambda body: {"jsonrpc": "2.0", "id": body["id"], "result": {"task": waits}}
    caller = Caller(platform, client.workspace_id)
    caller.send(caller.message())
    base, name = f"/agents/{client.workspace_id}", quote(task_id, safe="")
    assert platform.ok("GET", f"{base}/tasks/{name}", headers=NEW)["id"] == task_id
    assert platform.ok("GET", f"{base}/v1/tasks/{name}")["id"] == task_id
    configs = f"{base}/tasks/{name}/pushNotificationConfigs"
    hook = {"url": "https://93.184.216.34/hook", "id": "c 1"}
    assert platform.ok("POST", configs, json=hook, headers=NEW)["taskId"] == task_id
    assert platform.ok("GET", f"{configs}/c%201", headers=NEW)["id"] == "c 1"
    done = platform.ok("POST", f"{base}/tasks/{name}:cancel", headers=NEW)
    assert (done["id"], done["status"]["state"]) == (task_id, "TASK_STATE_CANCELED")
    assert platform.call("GET", f"{base}/tasks/other{name}", headers=NEW).status_code == 404


@pytest.mark.parametrize("dialects", [("1.0",), ("0.3",)])
@pytest.mark.parametrize("does", ["input-required", "slow"])
def test_what_a_caller_says_with_a_cancel_reaches_the_agent(
    platform: Platform, dialects: Any, does: str
) -> None:
    said = {"metadata": {"why": "enough", "n": 9007199254740993}, "odd": False}
    with pushed(platform, agent=ScriptedAgent(dialects=dialects)) as agent:
        for binding, dialect in FRAMINGS:
            caller = agent.caller(binding, dialect)
            task_id = caller.send(caller.message("hi", f"{does}-1"), **ASYNC)["task"]["id"]
            eventually(lambda caller=caller, task_id=task_id: began(caller, task_id))
            agent.agent.received.clear()
            caller.result(operations.CANCEL, {"id": task_id, **said})
            eventually(lambda agent=agent: bool(cancels(agent.agent)))
            # Once, or once more by the id of the message while the agent has named no task.
            for told in cancels(agent.agent):
                assert told == {"id": told["id"], **said}


def began(caller: Caller, task_id: str) -> bool:
    """Whether the agent has said anything of the task."""
    return caller.get(task_id)["status"]["state"] != "TASK_STATE_SUBMITTED"


def cancels(agent: ScriptedAgent) -> list[dict[str, Any]]:
    """The params of the cancels that the agent got."""
    bodies: list[dict[str, Any]] = [json.loads(received.body) for received in agent.received]
    return [body["params"] for body in bodies if body["method"] in ("CancelTask", "tasks/cancel")]


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"extensions": "x"}, "message.extensions"),
        ({"parts": [{"text": "hi", "metadata": "s"}]}, "message.parts[0].metadata"),
        ({"parts": [{"text": "hi", "filename": 5}]}, "message.parts[0].filename"),
        ({"parts": [{"raw": "not base64!"}]}, "message.parts[0].raw"),
    ],
)
def test_the_standard_door_names_members_of_the_wrong_type_and_the_platform_path_lets_them_in(
    platform: Platform, change: dict[str, Any], field: str
) -> None:
    agent = polled(platform)
    for binding in ("rpc", "rest"):
        caller = agent.caller(binding)
        with pytest.raises(Problem) as refused:
            caller.send(caller.message() | change, **ASYNC)
        details: Any = refused.value.error.get("data", refused.value.error.get("details"))
        assert [wrong["field"] for wrong in details[1]["fieldViolations"]] == [field]
        assert refused.value.reason == "INVALID_PARAMS"
    lenient = agent.caller("platform")
    assert lenient.send(lenient.message() | change, **ASYNC)["task"]["id"]


@pytest.mark.parametrize("dialects", [("1.0",), ("0.3",)])
def test_the_extensions_a_caller_asks_for_reach_agents_of_either_version_by_the_standard_name(
    platform: Platform, dialects: Any
) -> None:
    with pushed(platform, agent=ScriptedAgent(dialects=dialects)) as agent:
        for binding, dialect in FRAMINGS:
            caller = agent.caller(binding, dialect)
            caller.send(caller.message("hi"), headers={"A2A-Extensions": "https://x.example/a"})
            sent = agent.agent.received[-1].headers
            assert sent["a2a-extensions"] == "https://x.example/a"
            assert ("x-a2a-extensions" in sent) == (dialects == ("0.3",))


@pytest.mark.parametrize(("binding", "dialect"), FRAMINGS)
def test_the_answer_of_an_agent_that_polls_has_the_history_asked_for(
    platform: Platform, binding: Any, dialect: Any
) -> None:
    agent = polled(platform)
    caller = agent.caller(binding, dialect)
    with ThreadPoolExecutor() as pool:

        def answered(**configuration: Any) -> dict[str, Any]:
            waiting = pool.submit(caller.send, caller.message("hi", "m"), configuration=configuration)
            agent.answer("done")
            return waiting.result()["task"]

        assert [said["messageId"] for said in answered()["history"]] == ["m"]
        assert len(answered(historyLength=1)["history"]) == 1
        assert "history" not in answered(historyLength=0)


@pytest.mark.parametrize(("binding", "dialect"), FRAMINGS)
def test_a_task_continued_without_streams_is_whole_at_once(
    platform: Platform, binding: Any, dialect: Any
) -> None:
    with pushed(platform) as agent:
        caller = agent.caller(binding, dialect)
        task_id = caller.send(caller.message("one", "input-required-1"))["task"]["id"]
        caller.send(caller.message("two", "input-required-1", taskId=task_id))
        caller.send(caller.message("three", "complete-1", taskId=task_id))
        task = caller.get(task_id)
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        said = [one["messageId"] for one in task["history"] if one["role"] == "ROLE_USER"]
        assert said == ["input-required-1", "input-required-1", "complete-1"]
        with pytest.raises(Problem) as refused:
            caller.send(caller.message("four", taskId=task_id))
        assert refused.value.reason == "UNSUPPORTED_OPERATION"
