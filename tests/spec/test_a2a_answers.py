"""What callers are told of the answers that agents give, be they valid, sloppy or wrong."""

from typing import Any

import pytest

from tests.spec.a2a import FRAMINGS, Caller
from tests.spec.house import Platform
from tests.spec.scripted_agent import ScriptedAgent, join_push


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
