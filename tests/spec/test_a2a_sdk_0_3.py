"""The client of a2a-sdk 0.3, from its own environment, with agents that speak 1.0 alone; unknown members."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from molecule_platform.testing import scripted_agent
from molecule_platform.testing.scripted_agent import ScriptedAgent
from tests.spec.platforms import Engine, Platform
from tests.spec.sdk_agents import processes

SECONDS = 20
PRECIOUS = '"precious":{"big":9007199254740993,"no":false,"nothing":null,"deep":[{"x":1.0}]}'
"""What no reader of A2A knows: unknown members, an integer beyond doubles, an explicit false."""


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """The wire is the same on both engines."""
    return request.param


@pytest.fixture
def platform(pushing: Platform) -> Platform:
    return pushing


@pytest.fixture(scope="module")
def agent_of_1_0() -> Iterator[str]:
    with processes.agent_1_3() as url:
        yield url


def door(platform: Platform, url: str) -> str:
    return f"{platform.url}/agents/{processes.join(platform, url)}/"


@pytest.mark.slow  # each conversation is a process that imports an SDK
@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON"])
def test_an_old_client_talks_to_an_agent_that_speaks_1_0_alone(
    platform: Platform, agent_of_1_0: str, transport: str
) -> None:
    base = door(platform, agent_of_1_0)
    told = processes.client_0_3(base, platform.org_token(), transport, "--snapshot", "--push")
    assert told["message"][0]["parts"] == [{"kind": "text", "text": "hello"}]
    [task] = told["unary"]
    assert (task["kind"], task["status"]["state"]) == ("task", "completed")
    assert task["artifacts"][0]["parts"] == [{"kind": "text", "text": "re: work"}]
    kinds = [event["kind"] for event in told["stream"]]
    assert (kinds[0], kinds[-1]) == ("task", "status-update")
    assert (told["stream"][-1]["status"]["state"], told["stream"][-1]["final"]) == ("completed", True)
    assert (told["got"]["id"], told["got"]["status"]["state"]) == (task["id"], "completed")
    assert told["hook"] == "http://127.0.0.1:9/hook"
    assert told["cancelled"] == "canceled"
    assert told["watched"][-1]["status"]["state"] == "canceled"


def message(dialect: str) -> str:
    """A request as text, so that its bytes can be compared."""
    part = '{"text":"hello",' if dialect == "1.0" else '{"kind":"text","text":"hello",'
    role = "ROLE_USER" if dialect == "1.0" else "user"
    method = "SendMessage" if dialect == "1.0" else "message/send"
    said = f'{{"messageId":"message-1","role":"{role}","parts":[{part}{PRECIOUS}}}],{PRECIOUS}}}'
    return (
        f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"message":{said},{PRECIOUS}}},{PRECIOUS}}}'
    )


def send(platform: Platform, base: str, dialect: str) -> Any:
    headers = {"Content-Type": "application/json", **platform.headers()}
    if dialect == "1.0":
        headers["A2A-Version"] = "1.0"
    answer = requests.post(base, data=message(dialect), headers=headers, timeout=SECONDS)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("dialect", ["1.0", "0.3"])
def test_what_nobody_knows_reaches_an_agent_of_the_same_dialect_byte_for_byte(
    platform: Platform, dialect: str
) -> None:
    agent = ScriptedAgent()
    with scripted_agent.running(agent) as url:
        assert "result" in send(platform, door(platform, url), dialect)
    assert agent.received[-1].body == message(dialect).encode()


@pytest.mark.parametrize("dialect", ["1.0", "0.3"])
def test_what_nobody_knows_survives_the_way_into_the_other_dialect(platform: Platform, dialect: str) -> None:
    agent = ScriptedAgent(dialects=["0.3" if dialect == "1.0" else "1.0"])
    with scripted_agent.running(agent) as url:
        assert "result" in send(platform, door(platform, url), dialect)
    received = json.loads(agent.received[-1].body)
    precious = json.loads(f"{{{PRECIOUS}}}")["precious"]
    said = received["params"]["message"]
    for holder in (received, received["params"], said, said["parts"][0]):
        assert holder["precious"] == precious
