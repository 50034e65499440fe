"""What callers are told of the answers that agents give, be they valid, sloppy or wrong."""

from typing import Any

import pytest

from tests.spec.a2a import FRAMINGS, Caller, Problem
from tests.spec.platforms import Platform
from tests.spec.scripted_agent import Body, ScriptedAgent, join_push


def answering(agent: ScriptedAgent, result: Any) -> None:
    """From now on the agent gives this result."""
    agent.respond = lambda body: {"jsonrpc": "2.0", "id": body["id"], "result": result}


@pytest.mark.parametrize("protocols", [["1.0"], ["0.3"]])
@pytest.mark.parametrize("result", [None, {}, []])
def test_an_agent_that_answers_nothing_says_a_message_with_one_empty_part(
    platform: Platform, agent: ScriptedAgent, protocols: list[str], result: Any
) -> None:
    client = join_push(platform, agent, protocols=protocols)
    answering(agent, result)
    for binding, dialect in FRAMINGS:
        caller = Caller(platform, client.workspace_id, binding, dialect)
        told = caller.send(caller.message("hi"))["message"]
        assert (told["role"], told["parts"]) == ("ROLE_AGENT", [{"text": ""}])


def update(body: Body, state: str) -> Body:
    """The state of a task that is named after the message, in the agent's dialect."""
    told = {"taskId": body["params"]["message"]["messageId"], "contextId": "c", "status": {"state": state}}
    old = body["method"] == "message/stream"
    return {"kind": "status-update", "final": False, **told} if old else {"statusUpdate": told}


@pytest.mark.parametrize(
    ("protocol", "result"),
    [
        ("1.0", {"task": {"id": "t", "status": {"state": "TASK_STATE_UNSPECIFIED"}}}),
        ("1.0", {"task": {"id": "t", "status": {}}}),
        ("1.0", {"task": {"status": {"state": "TASK_STATE_COMPLETED"}}}),
        ("1.0", {"message": {"messageId": "a", "role": "ROLE_AGENT", "parts": []}}),
        ("0.3", {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "unknown"}}),
        ("0.3", {"kind": "task", "id": "t", "contextId": "c"}),
    ],
)
def test_an_answer_that_breaks_the_protocol_is_an_invalid_agent_response_in_every_framing(
    platform: Platform, agent: ScriptedAgent, protocol: str, result: Any
) -> None:
    client = join_push(platform, agent, protocols=[protocol])
    answering(agent, result)
    for binding, dialect in FRAMINGS:
        caller = Caller(platform, client.workspace_id, binding, dialect)
        with pytest.raises(Problem) as refused:
            caller.send(caller.message("hi"))
        assert refused.value.reason == "INVALID_AGENT_RESPONSE"
        assert refused.value.status == (500 if binding == "rest" else 200)
    assert len(agent.received) == len(FRAMINGS)


@pytest.mark.parametrize(
    ("protocol", "states"),
    [
        ("1.0", ("TASK_STATE_WORKING", "TASK_STATE_UNSPECIFIED")),
        ("1.0", ("TASK_STATE_WORKING", "TASK_STATE_DREAMING")),
        ("0.3", ("working", "unknown")),
    ],
)
def test_an_event_in_no_state_fails_its_task_and_names_the_reason(
    platform: Platform, agent: ScriptedAgent, protocol: str, states: tuple[str, str]
) -> None:
    card = {"name": "p", "capabilities": {"streaming": True}}
    client = join_push(platform, agent, protocols=[protocol], agent_card=card)
    agent.stream = lambda body: [update(body, state) for state in states]
    for binding, dialect in FRAMINGS:
        caller = Caller(platform, client.workspace_id, binding, dialect)
        last = caller.stream(caller.message("hi"))[-1].event["statusUpdate"]
        assert last["status"]["state"] == "TASK_STATE_FAILED"
        assert "unknown-state" in last["status"]["message"]["parts"][0]["text"]
