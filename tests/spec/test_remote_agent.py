"""What the SDK's own acceptance list promises of a remote agent, over a real platform."""

import time
from typing import Any

import pytest

from molecule_agent import InboundMessage, InboxDelivery, RemoteAgentClient
from tests.spec.platforms import Platform, Start

pytestmark = pytest.mark.usefixtures("prompt_retries")


def test_s10_a_task_delegated_twice_in_a_minute_is_one_and_its_outcome_is_told(platform: Platform) -> None:
    source, worker = platform.join("source"), platform.join("worker")
    first = source.delegate("index the docs", worker.workspace_id)
    again = source.delegate("index the docs", worker.workspace_id)
    assert again["delegation_id"] == first["delegation_id"]
    assert again["idempotent_hit"] is True
    delivery = InboxDelivery(worker, wait=10)
    assert delivery.run_once(lambda message, client: f"done: {message.text}") == 1
    delivery.stop()
    whole: Any = source.get_delegation(str(first["delegation_id"]))
    assert whole["outcome"] == "completed"
    assert whole["result"]["text"] == "done: index the docs"


def test_s13_what_a_handler_always_fails_on_is_offered_again_later_and_ends_as_a_dead_letter(
    configured: Start,
) -> None:
    platform = configured(MESSAGE_MAX_ATTEMPTS=2)
    agent = platform.join("agent")
    sent = platform.send(agent.workspace_id, "hopeless", headers={"Prefer": "respond-async"}).json()
    attempts: list[tuple[int, float]] = []

    def fail(message: InboundMessage, client: RemoteAgentClient) -> str:
        assert message.lease is not None
        attempts.append((message.lease.attempt, time.monotonic()))
        raise RuntimeError("the handler's own secret")

    delivery = InboxDelivery(agent, wait=5)
    while len(attempts) < 2:
        delivery.run_once(fail)
    delivery.stop()
    assert [attempt for attempt, _ in attempts] == [1, 2]
    assert attempts[1][1] - attempts[0][1] > 1.0
    told = platform.ok("GET", f"/messages/{sent['message_id']}")
    assert (told["status"], told["dead_letter"]) == ("failed", True)
    assert "RuntimeError (ref " in told["error"]["message"]
    assert "secret" not in str(told)
