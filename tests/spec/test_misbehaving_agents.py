"""What becomes of a message when its agent misbehaves: one stated rule for each way, on a real socket.

The rules stand in docs/messages.md; the agent is `molecule_platform.testing.misbehaving_agent`.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from molecule_platform.testing import misbehaving_agent
from molecule_platform.testing.misbehaving_agent import MisbehavingAgent
from tests.spec.platforms import Platform, Start

pytestmark = pytest.mark.usefixtures("prompt_retries")

PATIENCE_SECONDS = 30.0
CARD = {
    "name": "rude",
    "capabilities": {"streaming": True},
    "supportedInterfaces": [{"url": "http://x", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
}


@pytest.fixture
def agent() -> Iterator[MisbehavingAgent]:
    """An agent that is polite until it is told otherwise."""
    with misbehaving_agent.running() as running:
        yield running


def joined(platform: Platform, agent: MisbehavingAgent) -> Any:
    client = platform.join("rude")
    body = {"id": client.workspace_id, "url": agent.url, "agent_card": CARD}
    platform.ok("POST", "/registry/register", token=client.load_token(), json=body)
    return client


def body_of(words: str, method: str = "SendMessage") -> dict[str, Any]:
    said = {"role": "ROLE_USER", "messageId": words, "parts": [{"text": words}]}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": said}}


def sent(platform: Platform, workspace_id: str, words: str = "hello", **more: Any) -> requests.Response:
    headers = {"A2A-Version": "1.0", "Prefer": "wait=60", **more.pop("headers", {})}
    return platform.call(
        "POST", f"/workspaces/{workspace_id}/a2a", json=body_of(words), headers=headers, timeout=70, **more
    )


def streamed(platform: Platform, workspace_id: str, words: str = "hello") -> str:
    answer = platform.call(
        "POST",
        f"/agents/{workspace_id}",
        json=body_of(words, "SendStreamingMessage"),
        headers={"A2A-Version": "1.0"},
        timeout=70,
        stream=True,
    )
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    return answer.text


def row(platform: Platform, workspace_id: str) -> dict[str, Any]:
    listed = platform.ok("GET", f"/workspaces/{workspace_id}/messages?direction=in")["messages"]
    return platform.ok("GET", f"/messages/{listed[0]['id']}")


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("manner", ["too-many", "busy", "broken", "reset"])
def test_an_agent_that_is_busy_broken_or_hangs_up_is_tried_again_and_answers(
    platform: Platform, agent: MisbehavingAgent, manner: str
) -> None:
    client = joined(platform, agent)
    agent.script.append(manner)
    answer = sent(platform, client.workspace_id)
    assert answer.status_code == 200, answer.text
    assert answer.json()["result"]["message"]["parts"][0]["text"] == "re: hello"
    first, second = list(agent.seen)[:2]
    names = {arrival.headers["x-molecule-message-id"] for arrival in (first, second)}
    assert len(names) == 1
    assert [first.headers["x-molecule-attempt"], second.headers["x-molecule-attempt"]] == ["1", "2"]


@pytest.mark.parametrize("manner", ["accepted-task", "later"])
def test_an_agent_that_is_still_working_is_asked_until_it_is_done(
    platform: Platform, agent: MisbehavingAgent, manner: str
) -> None:
    client = joined(platform, agent)
    agent.script.append(manner)
    answer = sent(platform, client.workspace_id)
    assert answer.status_code == 200, answer.text
    assert answer.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert row(platform, client.workspace_id)["attempts"] == 1


def test_work_promised_without_a_task_is_answered_by_a_message_of_the_agent_s(
    platform: Platform, agent: MisbehavingAgent
) -> None:
    client = joined(platform, agent)
    agent.script.append("accepted")
    asker = platform.join("asker")
    answer = sent(
        platform, client.workspace_id, token=asker.load_token(), headers={"Prefer": "respond-async"}
    )
    message_id = answer.json()["message_id"]
    eventually(lambda: bool(agent.seen))
    assert platform.ok("GET", f"/messages/{message_id}")["status"] == "leased"
    reply = body_of("done at last")
    reply["params"]["message"]["role"] = "ROLE_AGENT"
    platform.ok(
        "POST",
        f"/workspaces/{asker.workspace_id}/a2a",
        token=client.load_token(),
        json=reply,
        headers={"A2A-Version": "1.0", "X-Molecule-In-Reply-To": message_id},
    )
    ended = platform.ok("GET", f"/messages/{message_id}?wait=20")
    assert ended["status"] == "answered"


@pytest.mark.parametrize("manner", ["garbage", "html", "redirect"])
def test_an_answer_that_cannot_be_read_ends_the_message_and_is_not_asked_for_twice(
    platform: Platform, agent: MisbehavingAgent, manner: str
) -> None:
    client = joined(platform, agent)
    agent.script.append(manner)
    answer = sent(platform, client.workspace_id)
    assert (answer.status_code, answer.json()["code"]) == (502, "invalid-agent-response")
    assert answer.json()["delivery_confirmed"] is True
    ended = row(platform, client.workspace_id)
    assert (ended["status"], ended["dead_letter"], ended["attempts"]) == ("failed", True, 1)
    assert len(agent.seen) == 1


def test_an_answer_that_is_too_large_is_refused_and_not_asked_for_twice(
    configured: Start, agent: MisbehavingAgent
) -> None:
    platform = configured(MOLECULE_A2A_MAX_RESPONSE_BYTES=2 * 1024 * 1024)
    client = joined(platform, agent)
    agent.huge_bytes = 8 * 1024 * 1024
    agent.script.append("huge")
    answer = sent(platform, client.workspace_id)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, -32006)
    assert len(agent.seen) == 1


def test_a_stream_that_is_too_large_ends_with_a_last_event_and_is_not_joined_again(
    configured: Start, agent: MisbehavingAgent
) -> None:
    platform = configured(MOLECULE_A2A_MAX_RESPONSE_BYTES=4 * 1024 * 1024)
    client = joined(platform, agent)
    agent.huge_bytes = 12 * 1024 * 1024
    agent.script.append("flood")
    frames = streamed(platform, client.workspace_id)
    assert "TASK_STATE_FAILED" in frames.splitlines()[-2]
    assert "larger than 4194304 bytes" in frames.splitlines()[-2]
    ended = row(platform, client.workspace_id)
    assert (ended["status"], ended["error"]["code"]) == ("failed", "invalid-agent-response")
    assert len(agent.seen) == 1


def test_an_answer_of_too_many_values_is_refused_before_it_is_read(
    platform: Platform, agent: MisbehavingAgent
) -> None:
    client = joined(platform, agent)
    agent.script.append("many-values")
    answer = sent(platform, client.workspace_id)
    assert (answer.status_code, answer.json()["code"]) == (502, "invalid-agent-response")
    assert "more than 100000 values" in answer.json()["error"]["message"]
    assert len(agent.seen) == 1


@pytest.mark.parametrize("manner", ["half-frame", "cut"])
def test_a_stream_that_breaks_off_is_joined_again_and_its_reader_notices_nothing(
    platform: Platform, agent: MisbehavingAgent, manner: str
) -> None:
    client = joined(platform, agent)
    agent.script.append(manner)
    frames = streamed(platform, client.workspace_id)
    numbers = [int(line[4:]) for line in frames.splitlines() if line.startswith("id: ")]
    assert numbers == list(range(1, len(numbers) + 1))
    assert "TASK_STATE_COMPLETED" in frames
    assert '"error"' not in frames
    assert row(platform, client.workspace_id)["attempts"] == 1


@pytest.mark.parametrize("manner", ["half-frame", "cut"])
def test_half_an_answer_is_asked_for_again(platform: Platform, agent: MisbehavingAgent, manner: str) -> None:
    client = joined(platform, agent)
    agent.script.append(manner)
    answer = sent(platform, client.workspace_id)
    assert answer.json()["result"]["message"]["parts"][0]["text"] == "re: hello"
    assert len(agent.seen) == 2


def test_an_agent_that_says_nothing_is_given_up_after_its_idle_time_and_the_sender_is_told(
    configured: Start, agent: MisbehavingAgent
) -> None:
    platform = configured(A2A_IDLE_TIMEOUT_SECONDS=1, MESSAGE_MAX_ATTEMPTS=1)
    client = joined(platform, agent)
    agent.script.append("silent")
    answer = sent(platform, client.workspace_id)
    assert (answer.status_code, answer.json()["code"]) == (502, "peer-unreachable")
    assert "no sign of work" in answer.json()["error"]["message"]


def test_the_caller_s_deadline_ends_a_silent_dispatch_and_the_agent_is_told_the_time(
    platform: Platform, agent: MisbehavingAgent
) -> None:
    client = joined(platform, agent)
    agent.script.append("silent")
    answer = sent(platform, client.workspace_id, headers={"X-Timeout": "2"})
    assert (answer.status_code, answer.json()["code"]) == (504, "deadline-exceeded")
    assert int(agent.seen[0].headers["x-timeout"]) <= 2
    assert row(platform, client.workspace_id)["status"] == "expired"


def test_a_trickle_of_blanks_is_no_sign_of_work(configured: Start, agent: MisbehavingAgent) -> None:
    platform = configured(A2A_IDLE_TIMEOUT_SECONDS=1, MESSAGE_MAX_ATTEMPTS=1)
    client = joined(platform, agent)
    agent.script.append("trickle")
    answer = sent(platform, client.workspace_id)
    assert (answer.status_code, answer.json()["code"]) == (502, "peer-unreachable")
