"""Dead letters: nobody tries them again until somebody says so, and then all is as at the beginning."""

import threading
from typing import Any

import pytest

from molecule_agent import RemoteAgentClient
from tests.spec import streams
from tests.spec.platforms import Platform

pytestmark = pytest.mark.both_engines

ASYNC = {"Prefer": "respond-async"}


@pytest.fixture
def client(platform: Platform) -> RemoteAgentClient:
    return platform.join("a")


def inbox(client: RemoteAgentClient) -> str:
    return f"/workspaces/{client.workspace_id}/inbox"


def lease(platform: Platform, client: RemoteAgentClient) -> dict[str, Any]:
    taken = platform.ok("POST", f"{inbox(client)}/lease", token=client.load_token(), json={"wait": 5})
    return taken["messages"][0]


def settle(
    platform: Platform, client: RemoteAgentClient, item: dict[str, Any], verb: str, **body: Any
) -> Any:
    given = {"lease_token": item["lease"]["token"], **body}
    path = f"{inbox(client)}/{item['message_id']}/{verb}"
    return platform.ok("POST", path, token=client.load_token(), json=given)


def dead_letter(platform: Platform, client: RemoteAgentClient) -> str:
    platform.send(client.workspace_id, "hello", headers=ASYNC)
    item = lease(platform, client)
    settle(platform, client, item, "fail", error="no such file", retryable=False)
    return item["message_id"]


def test_dead_letters_are_listed_with_their_reason(platform: Platform, client: RemoteAgentClient) -> None:
    mid = dead_letter(platform, client)
    platform.send(client.workspace_id, "still open", headers=ASYNC)
    seen = platform.ok("GET", f"{inbox(client)}?status=dead")
    assert [(item["message_id"], item["status"], item["text"]) for item in seen["messages"]] == [
        (mid, "error", "hello")
    ]
    assert seen["messages"][0]["error"]["message"] == "no such file"
    assert (seen["pending"], seen["dead"]) == (1, 1)
    assert [item["text"] for item in platform.ok("GET", inbox(client))["messages"]] == ["still open"]


def test_an_inbox_can_be_narrowed(platform: Platform, client: RemoteAgentClient) -> None:
    peer = platform.join("peer")
    path = f"/workspaces/{client.workspace_id}/a2a"
    body = {"method": "message/send", "params": {"message": {"parts": [{"text": "hi"}], "contextId": "c1"}}}
    platform.ok("POST", path, token=peer.load_token(), json=body, headers=ASYNC)
    platform.send(client.workspace_id, "from a person", headers=ASYNC)

    def texts(query: str) -> list[str]:
        found = platform.ok("GET", f"{inbox(client)}?{query}")["messages"]
        return [item["text"] for item in found]

    assert texts("") == ["from a person", "hi"]
    assert texts(f"peer_id={peer.workspace_id.upper()}") == ["hi"]
    assert texts("context_id=c1") == ["hi"]
    assert texts("kind=message&limit=1") == ["from a person"]
    assert texts("kind=delegation") == []
    assert platform.call("GET", f"{inbox(client)}?kind=odd").status_code == 400


def test_a_dead_letter_gets_all_its_attempts_again(platform: Platform, client: RemoteAgentClient) -> None:
    mid = dead_letter(platform, client)
    again = platform.call("POST", f"{inbox(client)}/{mid}/redeliver")
    assert again.status_code == 202
    assert (again.json()["id"], again.json()["status"], again.json()["attempts"]) == (mid, "accepted", 0)
    item = lease(platform, client)
    assert (item["message_id"], item["lease"]["epoch"], item["lease"]["attempt"]) == (mid, 2, 1)
    settle(platform, client, item, "answer", text="found it")
    row = platform.ok("GET", f"/messages/{mid}")
    assert (row["status"], row["dead_letter"], row["error"]) == ("answered", False, None)
    assert streams.steps(platform, mid) == ["accepted", "leased", "failed", "accepted", "leased", "answered"]


def test_whoever_knew_the_failed_task_keeps_its_end_and_the_message_names_the_new_one(
    platform: Platform, client: RemoteAgentClient
) -> None:
    mid = dead_letter(platform, client)
    platform.ok("POST", f"{inbox(client)}/{mid}/redeliver")
    settle(platform, client, lease(platform, client), "answer", text="found it")
    task_id = platform.ok("GET", f"/messages/{mid}")["task_id"]

    def state(name: str) -> str:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": name}}
        found = platform.ok("POST", f"/workspaces/{client.workspace_id}/a2a", json=body)
        return found["result"]["status"]["state"]

    assert (state(mid), state(task_id)) == ("failed", "completed")


def test_only_dead_letters_and_only_by_those_who_may_send(
    platform: Platform, client: RemoteAgentClient
) -> None:
    mid = dead_letter(platform, client)
    path = f"{inbox(client)}/{mid}/redeliver"
    assert platform.call("POST", path, token=client.load_token()).status_code == 403
    reader = platform.ok("POST", "/org/tokens", json={"scopes": ["org.read"]})["auth_token"]
    assert platform.call("POST", path, token=reader).status_code == 403
    platform.ok("POST", path)
    twice = platform.call("POST", path)
    assert (twice.status_code, twice.json()["code"]) == (409, "conflict")
    unknown = platform.call("POST", f"{inbox(client)}/unknown/redeliver")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "message-not-found")


@pytest.mark.unheld
def test_a_caller_whose_queued_message_fails_for_good_finds_that_in_its_activity(platform: Platform) -> None:
    """The original client is told "queued" and never asks for the message again."""
    caller, target = platform.join("caller"), platform.join("target")
    queued = platform.send(target.workspace_id, "hi", caller.load_token()).json()
    inbox = f"/workspaces/{target.workspace_id}/inbox"
    [item] = platform.ok("POST", f"{inbox}/lease", target.load_token(), json={})["messages"]
    failure = {"lease_token": item["lease"]["token"], "error": "out of order", "retryable": False}
    platform.ok("POST", f"{inbox}/{item['message_id']}/fail", target.load_token(), json=failure)
    activity = f"/workspaces/{caller.workspace_id}/activity"
    [row] = platform.ok("GET", activity, caller.load_token())
    assert (row["type"], row["status"], row["error_detail"]) == ("a2a_send", "error", "out of order")
    assert (row["message_id"], row["target_id"]) == (queued["message_id"], target.workspace_id)
    assert platform.ok("GET", f"{activity}?type=a2a_receive", caller.load_token()) == []


def test_a_caller_who_is_told_of_a_failure_is_not_told_twice(patient: Platform) -> None:
    caller, target = patient.join("caller"), patient.join("target")
    asking = threading.Thread(target=patient.send, args=(target.workspace_id, "hi", caller.load_token()))
    asking.start()
    inbox = f"/workspaces/{target.workspace_id}/inbox"
    [item] = patient.ok("POST", f"{inbox}/lease", target.load_token(), json={"wait": 30})["messages"]
    failure = {"lease_token": item["lease"]["token"], "error": "out of order", "retryable": False}
    patient.ok("POST", f"{inbox}/{item['message_id']}/fail", target.load_token(), json=failure)
    asking.join(30)
    assert patient.ok("GET", f"/workspaces/{caller.workspace_id}/activity", caller.load_token()) == []
