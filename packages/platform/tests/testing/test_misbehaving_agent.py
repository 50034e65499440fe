"""The rude agent is rude in the way it was asked to be."""

import json
from typing import Any

import pytest
import requests

from molecule_platform.testing import misbehaving_agent
from molecule_platform.testing.misbehaving_agent import MisbehavingAgent

SECONDS = 30


def send(
    agent: MisbehavingAgent, words: str, method: str = "SendMessage", seconds: float = SECONDS
) -> requests.Response:
    message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": words}]}
    return call(agent, method, seconds, message=message)


def call(agent: MisbehavingAgent, method: str, seconds: float = SECONDS, **params: Any) -> requests.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"A2A-Version": "1.0"}
    return requests.post(agent.url, json=body, headers=headers, timeout=seconds, allow_redirects=False)


def test_the_script_goes_before_the_words_and_ends_in_politeness() -> None:
    with misbehaving_agent.running("busy") as agent:
        assert send(agent, "hello").status_code == 503
        assert send(agent, "broken please").status_code == 500
        said = send(agent, "hello").json()["result"]["message"]
        assert said["parts"] == [{"text": "re: hello"}]
        assert len(agent.seen) == 3


@pytest.mark.parametrize(
    ("manner", "status", "header"),
    [
        ("accepted", 202, ("Content-Length", "0")),
        ("too-many", 429, ("Retry-After", "1")),
        ("busy", 503, ("Retry-After", "1")),
        ("broken", 500, ("Content-Type", "application/json")),
        ("html", 200, ("Content-Type", "text/html")),
        ("redirect", 302, ("Connection", "close")),
    ],
)
def test_statuses_and_headers(manner: str, status: int, header: tuple[str, str]) -> None:
    with misbehaving_agent.running(manner) as agent:
        answer = send(agent, "hello")
        assert answer.status_code == status
        assert answer.headers[header[0]] == header[1]


def test_garbage_is_no_json() -> None:
    with misbehaving_agent.running("garbage") as agent, pytest.raises(ValueError):
        send(agent, "hello").json()


@pytest.mark.parametrize("manner", ["reset", "half-frame", "cut"])
def test_a_broken_connection_is_an_error(manner: str) -> None:
    with misbehaving_agent.running(manner) as agent, pytest.raises(requests.RequestException):
        send(agent, "hello")


def test_silence_lasts() -> None:
    with misbehaving_agent.running("silent") as agent, pytest.raises(requests.Timeout):
        send(agent, "hello", seconds=0.3)


def test_a_trickle_is_never_the_answer() -> None:
    body = {"method": "message/send", "params": {"message": {"parts": [{"text": "trickle"}]}}}
    with (
        misbehaving_agent.running() as agent,
        requests.post(agent.url, json=body, timeout=SECONDS, stream=True) as answer,
    ):
        assert answer.raw.read(2) == b"  "


def test_a_huge_answer_is_as_long_as_it_was_told() -> None:
    with misbehaving_agent.running("huge") as agent:
        agent.huge_bytes = 3 * 1024 * 1024
        answer = send(agent, "hello")
        assert len(answer.content) > 3 * 1024 * 1024
        assert answer.json()["result"] == "at last"


@pytest.mark.parametrize(("manner", "status"), [("later", 200), ("accepted-task", 202)])
def test_a_late_task_completes_after_some_looks(manner: str, status: int) -> None:
    with misbehaving_agent.running(manner) as agent:
        answer = send(agent, "hello")
        assert answer.status_code == status
        task = answer.json()["result"]["task"]
        states = [call(agent, "GetTask", id=task["id"]).json()["result"]["status"]["state"] for _ in "12"]
        assert states == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]


def test_a_stream_that_was_cut_goes_on_for_whoever_comes_back() -> None:
    with misbehaving_agent.running("cut") as agent:
        first = send(agent, "hello", "SendStreamingMessage").text
        [frame] = [json.loads(line[6:]) for line in first.splitlines() if line.startswith("data: ")]
        task_id = frame["result"]["task"]["id"]
        rest = call(agent, "SubscribeToTask", id=task_id).text
        assert rest.count("data: ") == 3
        assert "TASK_STATE_COMPLETED" in rest


def test_a_frame_that_was_cut_breaks_the_connection() -> None:
    with misbehaving_agent.running("half-frame") as agent, pytest.raises(requests.RequestException):
        send(agent, "hello", "SendStreamingMessage")
