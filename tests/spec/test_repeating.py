"""Sending again: a key makes two requests one message."""

from typing import Any

import pytest
import requests

from molecule_agent import RemoteAgentClient
from molecule_wire.a2a import text
from tests.spec.platforms import Platform, message
from tests.spec.scripted_agent import ScriptedAgent, join_push

pytestmark = pytest.mark.both_engines


@pytest.fixture
def client(platform: Platform) -> RemoteAgentClient:
    """An agent that polls."""
    return platform.join("a")


def idempotent_handler(
    platform: Platform, target: str, body: dict[str, Any], key: str = "k1", **call: Any
) -> requests.Response:
    headers = {"Idempotency-Key": key, "Prefer": "respond-async"}
    return platform.call("POST", f"/workspaces/{target}/a2a", json=body, headers=headers, **call)


@pytest.mark.parametrize("given", ["m1", None], ids=["with-message-id", "without-message-id"])
def test_the_same_key_and_body_are_one_message(
    platform: Platform, client: RemoteAgentClient, given: str | None
) -> None:
    first = idempotent_handler(platform, client.workspace_id, message("hello", given))
    again = idempotent_handler(platform, client.workspace_id, message("hello", given) | {"id": "another try"})
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.status_code == first.status_code
    assert again.json()["message_id"] == first.json()["message_id"]
    assert again.json()["id"] == "another try"
    assert len(client.fetch_inbound()) == 1


def test_a_repeat_gets_the_outcome_that_the_first_one_has_by_now(
    platform: Platform, agent: ScriptedAgent
) -> None:
    pushed = join_push(platform, agent)
    sent = idempotent_handler(platform, pushed.workspace_id, message("hello", "m1")).json()
    assert platform.ok("GET", f"/messages/{sent['message_id']}?wait=20")["status"] == "answered"
    again = idempotent_handler(platform, pushed.workspace_id, message("hello", "m1"))
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (200, "true")
    assert text.text_of(again.json()["result"]) == "re: hello"
    assert again.headers["X-Molecule-Message-Id"] == sent["message_id"]
    assert len(agent.received) == 1


def test_the_same_key_with_another_body_is_a_conflict(platform: Platform, client: RemoteAgentClient) -> None:
    first = idempotent_handler(platform, client.workspace_id, message("hello")).json()
    answer = idempotent_handler(platform, client.workspace_id, message("something else"))
    body = answer.json()
    assert (answer.status_code, body["code"]) == (409, "idempotency-conflict")
    assert body["error"]["code"] == -32600
    assert body["error"]["data"][0]["metadata"]["existing_id"] == first["message_id"]
    assert len(client.fetch_inbound()) == 1


def test_a_key_belongs_to_one_sender_and_one_target(platform: Platform, client: RemoteAgentClient) -> None:
    other = platform.join("b")
    answers = [
        idempotent_handler(platform, client.workspace_id, message("hello")),
        idempotent_handler(platform, other.workspace_id, message("hello")),
        idempotent_handler(platform, client.workspace_id, message("hello"), token=other.load_token()),
    ]
    assert len({answer.json()["message_id"] for answer in answers}) == 3


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\tinside"])
def test_a_key_that_is_none_is_refused(platform: Platform, client: RemoteAgentClient, key: str) -> None:
    answer = idempotent_handler(platform, client.workspace_id, message("hello"), key)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-request")
    assert client.fetch_inbound() == []
