"""An agent that asks the same question again has answered: its caller is told at once, each time."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from molecule_wire.a2a.operations import Dialect
from tests.spec.a2a import ASYNC, Caller, Frame
from tests.spec.platforms import Platform
from tests.spec.scripted_agent import Body, ScriptedAgent, join_push
from tests.spec.sdk_agents import processes

pytestmark = pytest.mark.both_engines

TOLD_SECONDS = 1.0
ASKS = "TASK_STATE_INPUT_REQUIRED"
NO_HISTORY: dict[str, Any] = {"configuration": {"historyLength": 0}}
"""What makes an agent that keeps a history show the very same task again."""


@pytest.fixture
def platform(patient: Platform) -> Platform:
    """What is asked here is also answered."""
    return patient


@pytest.fixture(scope="module")
def agents() -> Iterator[dict[str, str]]:
    """Agents of the official SDKs, by the version that they speak."""
    with processes.agent_1_3() as new, processes.agent_0_3() as old:
        yield {"1.0": new, "0.3": old}


def question(dialect: Dialect, state: str = "") -> Body:
    """The task of an agent that keeps no history, word for word the same each time."""
    if dialect == "1.0":
        said = {"messageId": "q", "role": "ROLE_AGENT", "parts": [{"text": "Which colour?"}]}
        status = {"state": state or ASKS, "message": said}
        return {"task": {"id": "t-1", "contextId": "c-1", "status": status}}
    parts = [{"kind": "text", "text": "Which colour?"}]
    said = {"kind": "message", "messageId": "q", "role": "agent", "parts": parts}
    status = {"state": state or "input-required", "message": said}
    return {"kind": "task", "id": "t-1", "contextId": "c-1", "status": status}


def asking(agent: ScriptedAgent, platform: Platform, dialect: Dialect, *, streams: bool) -> Caller:
    """A caller of an agent that answers everything with its one question."""
    agent.respond = lambda body: {"jsonrpc": "2.0", "id": body["id"], "result": question(dialect)}
    agent.stream = (lambda _body: [question(dialect)]) if streams else None
    card = {"name": "asks", "capabilities": {"streaming": streams}}
    client = join_push(platform, agent, protocols=[dialect], agent_card=card)
    return Caller(platform, client.workspace_id, "rpc", dialect)


def say(caller: Caller, words: str, streams: bool, task_id: str | None = None, **more: Any) -> str:
    """Send, and be told of a question within a second; the id of the task."""
    message = caller.message(words, **({"taskId": task_id} if task_id else {}))
    began = time.monotonic()
    told = caller.stream(message, **more)[-1].event if streams else caller.send(message, **more)
    took = time.monotonic() - began
    (body,) = told.values()
    assert body["status"]["state"] == ASKS
    assert took < TOLD_SECONDS or task_id is None, took
    return body.get("taskId") or body["id"]


def questions(caller: Caller, task_id: str) -> list[Frame]:
    """Every time that the task was told to wait for its caller; its numbers have no gap."""
    frames = caller.subscribe(task_id, 0)
    assert [frame.id for frame in frames] == list(range(1, len(frames) + 1))
    return [
        frame
        for frame in frames
        for body in frame.event.values()
        if body.get("status", {}).get("state") == ASKS
    ]


@pytest.mark.parametrize("streams", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("dialect", ["1.0", "0.3"])
def test_a_question_that_is_the_same_word_for_word_is_told_each_time(
    platform: Platform, agent: ScriptedAgent, dialect: Dialect, streams: bool
) -> None:
    caller = asking(agent, platform, dialect, streams=streams)
    task_id = say(caller, "paint it", streams)
    for answer in ("mauve", "mauve, please"):
        say(caller, answer, streams, task_id)
    assert len(questions(caller, task_id)) == 3
    # Whoever waits for its caller is asked now and then how it does; nothing is sent to it twice.
    assert sum("message" in body["params"] for _headers, body in agent.received) == 3


@pytest.mark.parametrize("streams", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("dialect", ["1.0", "0.3"])
def test_an_agent_of_an_official_sdk_that_asks_again_is_told_each_time(
    platform: Platform, agents: dict[str, str], dialect: Dialect, streams: bool
) -> None:
    caller = Caller(platform, processes.join(platform, agents[dialect]), "rpc", dialect)
    task_id = say(caller, "ask", streams, **NO_HISTORY)
    for _ in range(2):
        say(caller, "ask", streams, task_id, **NO_HISTORY)
    # A task that waits is looked at now and then; it may be told whole once more, with the history it shows.
    assert len(questions(caller, task_id)) in (3, 4)
    done = caller.send(caller.message("red", taskId=task_id))["task"]
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("dialect", ["1.0", "0.3"])
def test_a_question_shown_to_a_caller_that_does_not_wait_ends_its_message_too(
    platform: Platform, agent: ScriptedAgent, dialect: Dialect
) -> None:
    caller = asking(agent, platform, dialect, streams=False)
    task_id = say(caller, "paint it", False)
    caller.send(caller.message("mauve", taskId=task_id), **ASYNC)
    until = time.monotonic() + 10
    while len(questions(caller, task_id)) < 2:
        assert time.monotonic() < until
    row = platform.ok("GET", f"/workspaces/{caller.agent_id}/messages")["messages"][0]
    assert (row["status"], row["attempts"]) == ("answered", 1)


@pytest.mark.parametrize("dialect", ["1.0", "0.3"])
def test_a_question_that_is_only_shown_before_the_agent_goes_on_is_no_answer(
    platform: Platform, agent: ScriptedAgent, dialect: Dialect
) -> None:
    caller = asking(agent, platform, dialect, streams=True)
    task_id = say(caller, "paint it", True)
    done = question(dialect, "TASK_STATE_COMPLETED" if dialect == "1.0" else "completed")
    agent.stream = lambda _body: [question(dialect), done]
    frames = caller.stream(caller.message("red", taskId=task_id))
    (last,) = frames[-1].event.values()
    assert last["status"]["state"] == "TASK_STATE_COMPLETED"
    assert len(questions(caller, task_id)) == 1
