"""The scripted agent does what its prefixes say, in both dialects, unary and streaming."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from molecule_platform.testing import behaviours, scripted_agent
from molecule_platform.testing.scripted_agent import ScriptedAgent

PATIENCE_SECONDS = 30


@pytest.fixture
def agent() -> ScriptedAgent:
    return ScriptedAgent()


@pytest.fixture
def url(agent: ScriptedAgent) -> Iterator[str]:
    with scripted_agent.running(agent) as url:
        yield url


def call(url: str, method: str, version: str | None = "1.0", **params: Any) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"A2A-Version": version} if version else {}
    answer = requests.post(url, json=body, headers=headers, timeout=PATIENCE_SECONDS)
    assert answer.status_code == 200
    if not answer.headers["Content-Type"].startswith("text/event-stream"):
        return answer.json()
    frames = [block.splitlines() for block in answer.text.split("\n\n") if block]
    return {
        "ids": [int(lines[0].removeprefix("id: ")) for lines in frames],
        "results": [json.loads(lines[1].removeprefix("data: "))["result"] for lines in frames],
    }


def message(message_id: str, **members: Any) -> dict[str, Any]:
    return {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": "hello"}], **members}


def test_the_longest_prefix_wins() -> None:
    prefixes = {"": "complete", "a": "fail", "a-b": "message:x"}
    assert behaviours.chosen(prefixes, "a-b-1") == "message:x"
    assert behaviours.chosen(prefixes, "a-1") == "fail"
    assert behaviours.chosen(prefixes, "z") == "complete"
    assert behaviours.chosen({}, "z") == "complete"


def test_a_map_that_names_no_behaviour_is_refused() -> None:
    with pytest.raises(ValueError, match="juggle"):
        ScriptedAgent({"": "juggle"})


@pytest.mark.parametrize(
    ("prefix", "state"),
    [
        ("complete", "COMPLETED"),
        ("artifact-text", "COMPLETED"),
        ("chunked", "COMPLETED"),
        ("input-required", "INPUT_REQUIRED"),
        ("auth-required", "AUTH_REQUIRED"),
        ("reject", "REJECTED"),
        ("fail", "FAILED"),
    ],
)
def test_a_task_ends_in_the_state_of_its_behaviour(url: str, prefix: str, state: str) -> None:
    task = call(url, "SendMessage", message=message(f"{prefix}-1"))["result"]["task"]
    assert task["status"]["state"] == f"TASK_STATE_{state}"
    assert call(url, "GetTask", id=task["id"])["result"] == task
    assert [listed["id"] for listed in call(url, "ListTasks")["result"]["tasks"]] == [task["id"]]


def test_a_bare_message_is_one_message_and_no_task(url: str) -> None:
    assert call(url, "SendMessage", message=message("message-1"))["result"]["message"]["parts"] == [
        {"text": "hello"}
    ]
    streamed = call(url, "SendStreamingMessage", message=message("message-2"))
    assert streamed["ids"] == [1]
    assert "message" in streamed["results"][0]


@pytest.mark.parametrize(
    ("prefix", "member"),
    [
        ("artifact-text", "text"),
        ("artifact-file", "raw"),
        ("artifact-url", "url"),
        ("artifact-data", "data"),
    ],
)
def test_artifacts_come_in_every_form(url: str, prefix: str, member: str) -> None:
    task = call(url, "SendMessage", message=message(f"{prefix}-1"))["result"]["task"]
    assert member in task["artifacts"][0]["parts"][0]


def test_a_stream_begins_with_the_task_and_is_numbered_without_a_gap(url: str) -> None:
    streamed = call(url, "SendStreamingMessage", message=message("chunked-1"))
    assert streamed["ids"] == [1, 2, 3, 4, 5, 6]
    kinds = [next(iter(result)) for result in streamed["results"]]
    assert kinds == ["task", "statusUpdate", *["artifactUpdate"] * 3, "statusUpdate"]


def test_0_3_gets_the_same_in_its_own_words(url: str) -> None:
    said = {"messageId": "chunked-1", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}
    streamed = call(url, "message/stream", None, message=said)
    kinds = [result["kind"] for result in streamed["results"]]
    assert kinds == ["task", "status-update", *["artifact-update"] * 3, "status-update"]
    assert streamed["results"][-1]["final"] is True
    task = call(url, "tasks/get", None, id=streamed["results"][0]["id"])["result"]
    assert (task["kind"], task["status"]["state"]) == ("task", "completed")


def test_the_next_message_continues_an_interrupted_task(url: str) -> None:
    first = call(url, "SendMessage", message=message("input-required-1"))["result"]["task"]
    streamed = call(url, "SendStreamingMessage", message=message("then", taskId=first["id"]))
    assert streamed["ids"] == [4, 5, 6]
    task = call(url, "GetTask", id=first["id"])["result"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert {"input-required-1", "then"} <= {said["messageId"] for said in task["history"]}


def test_slow_work_can_be_joined_and_cancelled(url: str) -> None:
    with scripted_agent.running(ScriptedAgent({"": "slow:30"})) as slow:
        immediately = {"returnImmediately": True}
        task = call(slow, "SendMessage", message=message("1"), configuration=immediately)["result"]["task"]
        joined: list[dict[str, Any]] = []
        joining = threading.Thread(target=lambda: joined.append(call(slow, "SubscribeToTask", id=task["id"])))
        joining.start()
        cancelled = call(slow, "CancelTask", id=task["id"])["result"]
        assert cancelled["status"]["state"] == "TASK_STATE_CANCELED"
        joining.join(PATIENCE_SECONDS)
        assert call(slow, "CancelTask", id=task["id"])["error"]["code"] == -32002
        assert call(slow, "SubscribeToTask", id=task["id"])["error"]["code"] == -32004


def test_an_agent_of_one_dialect_knows_no_other() -> None:
    with scripted_agent.running(ScriptedAgent(dialects=["0.3"])) as old:
        assert call(old, "SendMessage", message=message("1"))["error"]["code"] == -32009
        card = requests.get(f"{old}.well-known/agent-card.json", timeout=PATIENCE_SECONDS).json()
        assert "supportedInterfaces" not in card
        assert card["url"] == old


def test_what_came_is_remembered(agent: ScriptedAgent, url: str) -> None:
    call(url, "SendMessage", message=message("1"))
    [received] = agent.received
    assert received.headers["a2a-version"] == "1.0"
    assert json.loads(received.body)["params"]["message"]["messageId"] == "1"
