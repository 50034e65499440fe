"""How many messages an agent with a URL is handed at once; one that is stuck keeps nobody else waiting."""

from collections.abc import Iterator
from typing import Any

import pytest

from molecule_wire.a2a import text
from tests.spec.platforms import Platform
from tests.spec.sdk_agents import processes

pytestmark = [
    pytest.mark.both_engines,
    pytest.mark.slow,  # the agents are processes that import an SDK
]

ASYNC = {"Prefer": "respond-async"}


@pytest.fixture
def platform(patient: Platform) -> Platform:
    """What is asked here is also answered."""
    return patient


@pytest.fixture(scope="module")
def agent_of_1_0() -> Iterator[str]:
    with processes.agent_1_3() as url:
        yield url


@pytest.fixture(scope="module")
def agent_of_0_3() -> Iterator[str]:
    with processes.agent_0_3() as url:
        yield url


@pytest.fixture(params=["agent_of_1_0", "agent_of_0_3"])
def target(platform: Platform, request: pytest.FixtureRequest) -> str:
    """A workspace whose agent works on `slow` until it is cancelled, and repeats everything else."""
    return processes.join(platform, request.getfixturevalue(request.param))


def limit(platform: Platform, target: str) -> int:
    return platform.ok("GET", f"/workspaces/{target}")["max_concurrent_tasks"]


def begin(platform: Platform, target: str, words: str) -> str:
    """Send without waiting; the id of the message."""
    return platform.send(target, words, headers=ASYNC).json()["message_id"]


def status(platform: Platform, message_id: str, wait: int = 0) -> str:
    return platform.ok("GET", f"/messages/{message_id}?wait={wait}")["status"]


def held(platform: Platform, target: str) -> tuple[int, int]:
    """How many messages the agent works on, and how many wait for it."""
    peeked: dict[str, Any] = platform.ok("GET", f"/workspaces/{target}/inbox")
    return peeked["leased"], peeked["pending"]


def test_one_stuck_message_never_blocks_an_agent_that_nobody_set_a_limit_for(
    platform: Platform, target: str
) -> None:
    stuck = begin(platform, target, "slow")
    for words in ("one", "two", "three"):
        assert text.text_of(platform.send(target, words).json()["result"]) == f"re: {words}"
    assert status(platform, stuck) == "leased"
    platform.ok("POST", f"/messages/{stuck}/cancel", json={})


def test_an_agent_with_a_url_takes_sixteen_and_the_next_one_waits(platform: Platform, target: str) -> None:
    sent = [begin(platform, target, "slow") for _ in range(17)]
    assert (limit(platform, target), held(platform, target)) == (16, (16, 1))
    for message_id in sent:
        platform.ok("POST", f"/messages/{message_id}/cancel", json={})


def test_the_operator_s_number_wins_until_it_is_taken_back(platform: Platform, target: str) -> None:
    platform.ok("PATCH", f"/workspaces/{target}", json={"max_concurrent_tasks": 1})
    stuck = begin(platform, target, "slow")
    waiting = begin(platform, target, "one")
    assert (limit(platform, target), held(platform, target)) == (1, (1, 1))
    platform.ok("PATCH", f"/workspaces/{target}", json={"max_concurrent_tasks": None})
    assert limit(platform, target) == 16
    assert status(platform, waiting, wait=30) == "answered"
    platform.ok("POST", f"/messages/{stuck}/cancel", json={})


def test_the_agent_s_own_number_holds_where_the_operator_gave_none(platform: Platform, target: str) -> None:
    [agent] = platform.clients
    said = {"workspace_id": target, "runtime_metadata": {"max_concurrent_turns": 1}}
    platform.ok("POST", "/registry/heartbeat", agent.load_token(), json=said)
    stuck, waiting = begin(platform, target, "slow"), begin(platform, target, "one")
    assert (limit(platform, target), held(platform, target)) == (1, (1, 1))
    platform.ok("PATCH", f"/workspaces/{target}", json={"max_concurrent_tasks": 2})
    assert status(platform, waiting, wait=30) == "answered"
    platform.ok("POST", f"/messages/{stuck}/cancel", json={})


def test_a_number_given_at_creation_is_the_operator_s(platform: Platform) -> None:
    created = platform.create("given", url="http://127.0.0.1:9/", max_concurrent_tasks=3)
    left = platform.create("left open", url="http://127.0.0.1:9/")
    polling = platform.create("without a url")
    assert [limit(platform, one["id"]) for one in (created, left, polling)] == [3, 16, 1]
