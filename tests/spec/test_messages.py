"""Messages as their parties look at them: conversations, lists, calling off, and streams that end."""

from typing import Any

import pytest

from molecule_agent import RemoteAgentClient
from tests.spec import streams
from tests.spec.platforms import Platform, message

pytestmark = pytest.mark.both_engines

ASYNC = {"Prefer": "respond-async"}


def post(platform: Platform, target: str, words: str, token: str | None = None) -> str:
    return platform.send(target, words, token, headers=ASYNC).json()["message_id"]


def lease(platform: Platform, client: RemoteAgentClient) -> dict[str, Any]:
    path = f"/workspaces/{client.workspace_id}/inbox/lease"
    [item] = platform.ok("POST", path, token=client.load_token(), json={"limit": 1})["messages"]
    return item


def at_inbox(
    platform: Platform, client: RemoteAgentClient, item: dict[str, Any], verb: str, **body: Any
) -> Any:
    path = f"/workspaces/{client.workspace_id}/inbox/{item['message_id']}/{verb}"
    return platform.ok(
        "POST", path, token=client.load_token(), json={"lease_token": item["lease"]["token"], **body}
    )


def told(blocks: list[dict[str, str]]) -> list[str]:
    return [f"{block.get('id', '')}{block['event']}" for block in blocks if "event" in block]


def all_blocks(stream: streams.Stream) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    while block := stream.block():
        found.append(block)
    return found


def test_the_history_of_a_message_is_the_conversation_before_it(platform: Platform) -> None:
    client, other = platform.join("a"), platform.join("b")

    def say(
        words: str, context: str = "talk", token: str | None = None, to: RemoteAgentClient = client
    ) -> str:
        body = message(words)
        body["params"]["message"]["contextId"] = context
        path = f"/workspaces/{to.workspace_id}/a2a"
        mid = platform.ok("POST", path, token, json=body, headers=ASYNC)["message_id"]
        item = lease(platform, to)
        at_inbox(platform, to, item, "answer", text=f"re: {words}")
        return mid

    say("first")
    say("apart", "another talk")
    say("of somebody else", token=other.load_token())
    second = say("second")
    third = say("the secret is sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD")
    assert "history" not in platform.ok("GET", f"/messages/{second}")
    history = platform.ok("GET", f"/messages/{second}?include=history")["history"]
    assert [(turn["role"], turn["text"]) for turn in history] == [("user", "first"), ("agent", "re: first")]
    assert history[0]["parts"] == [{"text": "first"}]
    assert history[0]["at"] < history[1]["at"]
    fourth = say("what was it?")
    as_agent = platform.ok("GET", f"/messages/{fourth}?include=history", client.load_token())["history"]
    assert [turn["text"] for turn in as_agent][-3:-1] == [
        "re: second",
        "the secret is sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD",
    ]
    reader = platform.org_token("org.read")
    assert "sk-abc" not in str(platform.ok("GET", f"/messages/{fourth}?include=history", reader))
    stranger = platform.call("GET", f"/messages/{third}?include=history", other.load_token())
    assert (stranger.status_code, stranger.json()["code"]) == (404, "message-not-found")
    unknown = platform.call("GET", f"/messages/{second}?include=everything")
    assert (unknown.status_code, unknown.json()["code"]) == (400, "invalid-request")


def test_a_long_conversation_is_cut_to_its_newest_turns(platform: Platform) -> None:
    asker, helper = platform.join("asker"), platform.join("helper")

    def say(sender: RemoteAgentClient, target: RemoteAgentClient, words: str) -> str:
        body = message(words)
        body["params"]["message"]["contextId"] = "long"
        path = f"/workspaces/{target.workspace_id}/a2a"
        mid = platform.ok("POST", path, sender.load_token(), json=body, headers=ASYNC)["message_id"]
        at_inbox(platform, target, lease(platform, target), "answer", text=f"re: {words}")
        return mid

    for number in range(27):
        say(*((asker, helper) if number % 2 else (helper, asker)), f"turn {number}")
    last = say(asker, helper, "last")
    history = platform.ok("GET", f"/messages/{last}?include=history")["history"]
    assert len(history) == 50
    # The helper wrote the even ones itself.
    assert [(turn["role"], turn["text"]) for turn in history[-3:]] == [
        ("agent", "re: turn 25"),
        ("agent", "turn 26"),
        ("user", "re: turn 26"),
    ]
    say(asker, helper, "long " * 6_000)
    after = say(asker, helper, "short")
    kept = platform.ok("GET", f"/messages/{after}?include=history")["history"]
    assert [turn["role"] for turn in kept] == ["agent"]


def test_the_messages_of_a_workspace_are_listed_page_by_page(platform: Platform) -> None:
    asker, helper = platform.join("asker"), platform.join("helper")
    path = f"/workspaces/{asker.workspace_id}/messages"
    token = asker.load_token()
    received = [post(platform, asker.workspace_id, f"number {n}") for n in range(3)]
    sent = post(platform, helper.workspace_id, "hi?", token)
    first = platform.ok("GET", f"{path}?limit=2", token=token)
    assert [row["id"] for row in first["messages"]] == [sent, received[2]]
    second = platform.ok("GET", f"{path}?limit=2&cursor={first['next_cursor']}", token=token)
    assert [row["id"] for row in second["messages"]] == [received[1], received[0]]
    assert second["next_cursor"] is None
    out = platform.ok("GET", f"{path}?direction=out&status=accepted,leased&peer_id={helper.workspace_id}")
    assert [row["id"] for row in out["messages"]] == [sent]
    later = platform.ok("GET", f"{path}?since={first['messages'][0]['created_at']}")
    assert [row["id"] for row in later["messages"]] == [sent]
    for wrong in ("status=odd", "since=yesterday", "cursor=odd", "direction=up"):
        refused = platform.call("GET", f"{path}?{wrong}")
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid-request"), wrong


def test_calling_off_a_message_tells_both_sides_at_once(platform: Platform) -> None:
    asker, helper = platform.join("asker"), platform.join("helper")
    mid = post(platform, helper.workspace_id, "hi?", asker.load_token())
    item = lease(platform, helper)
    ended = platform.ok("POST", f"/messages/{mid}/cancel", token=asker.load_token(), json={"reason": "late"})
    assert (ended["status"], ended["task_state"], ended["error"]["code"]) == (
        "cancelled",
        "canceled",
        "cancelled",
    )
    assert "late" in ended["error"]["message"]
    path = f"/workspaces/{helper.workspace_id}/inbox/{mid}/answer"
    body = {"lease_token": item["lease"]["token"], "text": "too late"}
    late = platform.call("POST", path, token=helper.load_token(), json=body)
    assert (late.status_code, late.json()["code"], late.json()["status"]) == (409, "lease-lost", "cancelled")
    again = platform.call("POST", f"/messages/{mid}/cancel", json={})
    assert (again.status_code, again.json()["code"]) == (409, "not-cancelable")


def test_strangers_call_nothing_off_and_readers_may_only_read(platform: Platform) -> None:
    asker, helper, stranger = platform.join("asker"), platform.join("helper"), platform.join("stranger")
    mid = post(platform, helper.workspace_id, "hi?", asker.load_token())
    refused = platform.call("POST", f"/messages/{mid}/cancel", token=stranger.load_token(), json={})
    assert (refused.status_code, refused.json()["code"]) == (404, "message-not-found")
    reader = platform.ok("POST", "/org/tokens", json={"scopes": ["org.read"]})["auth_token"]
    refused = platform.call("POST", f"/messages/{mid}/cancel", token=reader, json={})
    assert (refused.status_code, refused.json()["required"]) == (403, ["org.send"])
    assert platform.ok("GET", f"/messages/{mid}", token=reader)["status"] == "accepted"


def test_a_message_s_stream_has_its_steps_and_events_and_ends_with_it(platform: Platform) -> None:
    client = platform.join("a")
    mid = post(platform, client.workspace_id, "hello")
    with streams.stream(platform, f"/messages/{mid}/events") as live:
        item = lease(platform, client)
        at_inbox(platform, client, item, "progress", text="thinking")
        at_inbox(platform, client, item, "answer", text="hi")
        seen = told(all_blocks(live))
    assert seen[0] == "accepted"
    assert seen[-1] == "answered"
    assert [one for one in seen if one[0].isdigit()] == ["1task", "2status", "3status", "4status"]
    assert [one for one in seen if not one[0].isdigit()] == ["accepted", "leased", "answered"]
    with streams.stream(platform, f"/messages/{mid}/events") as again:
        assert sorted(told(all_blocks(again))) == sorted(seen)
    with streams.stream(platform, f"/messages/{mid}/events", last_event_id="2") as resumed:
        assert [one for one in told(all_blocks(resumed)) if one[0].isdigit()] == ["3status", "4status"]


def test_a_task_s_stream_has_its_events_alone(platform: Platform) -> None:
    client = platform.join("a")
    mid = post(platform, client.workspace_id, "hello")
    path = f"/workspaces/{client.workspace_id}/tasks/{mid}/events"
    with streams.stream(platform, path) as live:
        item = lease(platform, client)
        at_inbox(platform, client, item, "answer", text="hi")
        blocks = all_blocks(live)
    assert told(blocks) == ["1task", "2status", "3status"]
    assert '"TASK_STATE_COMPLETED"' in blocks[-1]["data"]
    with streams.stream(platform, f"{path}?since=2") as resumed:
        assert told(all_blocks(resumed)) == ["3status"]
    with streams.stream(platform, path, last_event_id="3") as over:
        assert all_blocks(over) == []


@pytest.mark.parametrize("path", ["/messages/{mid}/events", "/workspaces/{id}/tasks/{mid}/events"])
def test_streams_are_for_the_parties_and_resume_only_after_numbers(platform: Platform, path: str) -> None:
    asker, helper, stranger = platform.join("asker"), platform.join("helper"), platform.join("stranger")
    mid = post(platform, helper.workspace_id, "hi?", asker.load_token())
    there = path.format(mid=mid, id=helper.workspace_id)
    assert platform.call("GET", there, token=stranger.load_token()).status_code == 404
    assert platform.call("GET", path.format(mid="unknown", id=helper.workspace_id)).status_code == 404
    assert platform.call("GET", f"{there}?since=odd", token=asker.load_token()).status_code == 400
    for party in (asker, helper):
        with streams.stream(platform, there, party.load_token()) as live:
            assert live.block()["event"] in ("accepted", "task")


def test_a_stream_ends_with_the_credential_that_opened_it(platform: Platform) -> None:
    client = platform.join("a")
    mid = post(platform, client.workspace_id, "hello")
    minted = platform.ok("POST", "/org/tokens", json={"scopes": ["org.read"]})
    with streams.stream(platform, f"/messages/{mid}/events", minted["auth_token"]) as live:
        platform.ok("DELETE", f"/org/tokens/{minted['id']}")
        assert live.ends()


def test_an_answer_may_be_a_whole_task_of_the_agent_s_own(platform: Platform) -> None:
    client = platform.join("a")
    mid = post(platform, client.workspace_id, "hello")
    item = lease(platform, client)
    task = {
        "id": "my-own",
        "contextId": "my-own-context",
        "status": {
            "state": "TASK_STATE_COMPLETED",
            "message": {"messageId": "m9", "role": "ROLE_AGENT", "parts": [{"text": "done"}]},
        },
        "artifacts": [{"artifactId": "x", "parts": [{"text": "the thing"}]}],
        "metadata": {"tool_trace": [{"tool": "search"}]},
    }
    at_inbox(platform, client, item, "answer", task=task, usage={"input_tokens": 7})
    result = platform.ok("GET", f"/messages/{mid}")["result"]
    assert (result["id"], result["status"]["message"]["messageId"]) == (mid, "m9")
    assert result["artifacts"][0]["parts"] == [{"kind": "text", "text": "the thing"}]
    assert result["metadata"]["usage"] == {"input_tokens": 7}
    rows = platform.ok("GET", f"/workspaces/{client.workspace_id}/activity?type=a2a_receive")
    assert rows[0]["tool_trace"] == [{"tool": "search"}]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"text": "a", "parts": []},
        {"text": "a", "state": "working"},
        {"task": {"status": {"state": "working"}}},
        {"message": {"role": "agent"}},
        {"text": "a", "evidence": [{"deliverable": "d", "kind": "text", "text": "x"}]},
        {"text": "a", "artifacts": [{"artifactId": "x"}]},
    ],
)
def test_an_answer_that_says_nothing_clear_is_refused_and_the_lease_stays(
    platform: Platform, body: dict[str, Any]
) -> None:
    client = platform.join("a")
    mid = post(platform, client.workspace_id, "hello")
    item = lease(platform, client)
    path = f"/workspaces/{client.workspace_id}/inbox/{mid}/answer"
    given = {"lease_token": item["lease"]["token"], **body}
    refused = platform.call("POST", path, token=client.load_token(), json=given)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid-request"), refused.text
    at_inbox(platform, client, item, "answer", text="better")


def test_the_task_of_a_message_that_needs_input_goes_on_with_the_next_one(platform: Platform) -> None:
    client = platform.join("a")
    mid = post(platform, client.workspace_id, "book a flight")
    at_inbox(platform, client, lease(platform, client), "answer", text="where to?", state="input-required")
    assert platform.ok("GET", f"/messages/{mid}")["task_state"] == "input-required"
    body = message("to Rome")
    body["params"]["message"]["taskId"] = mid
    path = f"/workspaces/{client.workspace_id}/a2a"
    more = platform.ok("POST", path, json=body, headers=ASYNC)["message_id"]
    item = lease(platform, client)
    assert (item["message_id"], item["task_id"]) == (more, mid)
    at_inbox(platform, client, item, "answer", text="booked")
    with streams.stream(platform, f"/workspaces/{client.workspace_id}/tasks/{mid}/events") as task:
        numbers = [block["id"] for block in all_blocks(task) if "id" in block]
    assert numbers == [str(n) for n in range(1, len(numbers) + 1)]
    assert len(numbers) >= 6
