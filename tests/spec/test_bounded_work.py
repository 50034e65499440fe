"""No request makes work without bounds: a refusal names the limit and the figure."""

import contextlib
import json
import time
from typing import Any

import pytest
import requests

from molecule_agent import RemoteAgentClient
from tests.spec.platforms import Platform, Start

TINY = {"text": ""}


def message(parts: list[Any], method: str = "message/send") -> dict[str, Any]:
    said = {"role": "user", "messageId": "m", "parts": parts}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": said}}


def limit_of(answer: requests.Response) -> tuple[int, str, int]:
    """The status, and the limit and the figure that the refusal names, in either shape of errors."""
    body = answer.json()
    facts = body if "limit" in body else body["error"]["data"][0]["metadata"]
    return answer.status_code, facts["limit"], int(facts["maximum"])


@pytest.mark.parametrize("path", ["/workspaces/{}/a2a", "/agents/{}/"])
@pytest.mark.parametrize(
    ("parts", "limit", "maximum"),
    [
        ([{"kind": "data", "data": {"n": [0] * 100_000}}], "json-values", 100_000),
        ([{"kind": "data", "data": {"n": json.loads("[" * 70 + "]" * 70)}}], "json-depth", 64),
        ([{"kind": "text", "text": "x"}] * 1001, "parts", 1000),
    ],
)
def test_a_message_of_too_many_values_levels_or_parts_is_413(
    platform: Platform, path: str, parts: list[Any], limit: str, maximum: int
) -> None:
    target = platform.create("target")["id"]
    answer = platform.call("POST", path.format(target), json=message(parts))
    assert limit_of(answer) == (413, limit, maximum)


def test_a_long_text_is_one_value(platform: Platform) -> None:
    target = platform.create("target")["id"]
    body = message([{"kind": "text", "text": "a, [b], {c} \n" * 100_000}])
    answer = platform.ok("POST", f"/workspaces/{target}/a2a", json=body, headers={"Prefer": "respond-async"})
    assert answer["queued"]


def test_answers_and_progress_of_too_many_parts_are_413_and_the_lease_stays(platform: Platform) -> None:
    agent = platform.join("agent")
    path, token = f"/workspaces/{agent.workspace_id}", agent.load_token()
    platform.ok("POST", f"{path}/a2a", json=message([TINY]), headers={"Prefer": "respond-async"})
    [leased] = platform.ok("POST", f"{path}/inbox/lease", token=token, json={})["messages"]
    item, held = f"{path}/inbox/{leased['message_id']}", {"lease_token": leased["lease"]["token"]}
    artifact = {"artifactId": "a", "parts": [TINY] * 1001}
    task = {"id": "t", "status": {"state": "completed", "message": {"parts": [TINY] * 1001}}}
    for said in ({"parts": [TINY] * 1001}, {"text": "x", "artifacts": [artifact]}, {"task": task}):
        answer = platform.call("POST", f"{item}/answer", token=token, json=held | said)
        assert limit_of(answer) == (413, "parts", 1000)
    progress = platform.call("POST", f"{item}/progress", token=token, json=held | {"artifact": artifact})
    assert limit_of(progress) == (413, "parts", 1000)
    platform.ok("POST", f"{item}/answer", token=token, json=held | {"parts": [TINY] * 1000})


def test_every_other_body_has_the_same_limits(configured: Start) -> None:
    platform = configured(MOLECULE_JSON_MAX_VALUES=1000, MOLECULE_JSON_MAX_DEPTH=10)
    deep = platform.call("POST", "/workspaces", json={"name": "x", "more": json.loads("[" * 10 + "]" * 10)})
    assert limit_of(deep) == (413, "json-depth", 10)
    many = platform.call("POST", "/workspaces", json={"name": "x", "more": [0] * 1000})
    assert limit_of(many) == (413, "json-values", 1000)


def test_large_bodies_of_one_principal_beyond_its_bound_are_503_and_others_are_served(
    configured: Start,
) -> None:
    platform = configured(MOLECULE_PRINCIPAL_WORK_MAX_BYTES=300_000, MOLECULE_WORK_MAX_BYTES=10_000_000)
    target = platform.create("target")["id"]
    body = message([{"kind": "text", "text": "x" * 400_000}])
    answer = platform.call("POST", f"/workspaces/{target}/a2a", json=body)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert answer.json()["code"] == "platform-unavailable"
    assert limit_of(answer) == (503, "principal-work", 300_000)
    small = message([{"kind": "text", "text": "x" * 200_000}])
    for _ in range(3):
        platform.ok("POST", f"/workspaces/{target}/a2a", json=small, headers={"Prefer": "respond-async"})


def test_open_requests_of_one_principal_have_a_cap_and_others_are_served(configured: Start) -> None:
    platform = configured(MOLECULE_MAX_OPEN_REQUESTS=3)
    one, other = platform.join("one"), platform.join("other")
    inbox, token = f"/workspaces/{one.workspace_id}/inbox", one.load_token()
    with contextlib.ExitStack() as streams:
        for _ in range(3):
            headers = {"Authorization": f"Bearer {token}"}
            events = requests.get(platform.url + "/events/stream", headers=headers, stream=True, timeout=30)
            assert streams.enter_context(events).status_code == 200
        answer = platform.call("GET", f"{inbox}?wait=30", token)
        assert limit_of(answer) == (429, "open-requests", 3)
        assert int(answer.headers["Retry-After"]) == answer.json()["retry_after"]
        platform.ok("GET", f"/workspaces/{other.workspace_id}/inbox", other.load_token())
    deadline = time.monotonic() + 30
    while platform.call("GET", f"{inbox}?wait=0", token).status_code != 200:
        assert time.monotonic() < deadline


def test_streams_of_one_caller_to_one_agent_have_a_cap_and_a_refusal_leaves_no_message(
    configured: Start,
) -> None:
    platform = configured(MOLECULE_MAX_AGENT_STREAMS=3, MOLECULE_A2A_HOLD_SECONDS=0)
    caller, busy, other = platform.join("caller"), platform.join("busy"), platform.join("other")
    headers = {"Authorization": f"Bearer {caller.load_token()}"}

    def streamed(target: str) -> requests.Response:
        body = message([{"kind": "text", "text": str(time.monotonic())}], method="message/stream")
        url = f"{platform.url}/workspaces/{target}/a2a"
        return requests.post(url, json=body, headers=headers, stream=True, timeout=30)

    with contextlib.ExitStack() as streams:
        for _ in range(3):
            assert streams.enter_context(streamed(busy.workspace_id)).status_code == 200
        refused = streams.enter_context(streamed(busy.workspace_id))
        assert limit_of(refused) == (429, "agent-streams", 3)
        assert int(refused.headers["Retry-After"]) > 0
        path = f"/workspaces/{busy.workspace_id}/inbox?wait=0"
        assert len(platform.ok("GET", path, busy.load_token())["messages"]) == 3
        assert streams.enter_context(streamed(other.workspace_id)).status_code == 200
    deadline = time.monotonic() + 30
    while True:
        with streamed(busy.workspace_id) as answer:
            if answer.status_code == 200:
                break
        assert time.monotonic() < deadline


def asked(
    platform: Platform, target: str, token: str | None, number: int, size: int = 1
) -> requests.Response:
    body = message([{"kind": "text", "text": "x" * size}])
    body["params"]["message"]["messageId"] = f"m{number}"
    headers = {"Prefer": "respond-async"}
    return platform.call("POST", f"/workspaces/{target}/a2a", token, json=body, headers=headers)


def delegated(platform: Platform, target: str, client: RemoteAgentClient, task: str) -> requests.Response:
    body = {"target_id": target, "task": task}
    return platform.call(
        "POST", f"/workspaces/{client.workspace_id}/delegate", client.load_token(), json=body
    )


def test_a_sender_holds_at_most_its_share_of_a_mailbox_and_those_above_always_find_room(
    configured: Start,
) -> None:
    platform = configured(MAILBOX_MAX_OPEN=10, MAILBOX_SENDER_PERCENT=20, MOLECULE_A2A_HOLD_SECONDS=0)
    lead = platform.join("lead")
    member, *peers = (platform.join(f"member {number}", lead.workspace_id) for number in range(7))
    target, tokens = member.workspace_id, [peer.load_token() for peer in peers]
    for number in range(2):
        assert asked(platform, target, tokens[0], number).status_code == 200
    for refused in (asked(platform, target, tokens[0], 2), delegated(platform, target, peers[0], "more")):
        assert limit_of(refused) == (503, "sender-share", 2)
        assert refused.json()["code"] == "mailbox-full"
        assert "Retry-After" in refused.headers
    assert asked(platform, peers[1].workspace_id, tokens[0], 2).status_code == 200
    for token in tokens[1:5]:
        assert [asked(platform, target, token, number).status_code for number in range(2)] == [200, 200]
    assert limit_of(asked(platform, target, tokens[5], 0)) == (503, "mailbox", 10)
    assert delegated(platform, target, lead, "from above").status_code == 202
    assert asked(platform, target, lead.load_token(), 0).status_code == 200
    statuses = [asked(platform, target, None, number).status_code for number in range(11)]
    assert statuses == [200] * 10 + [503]


def test_a_mailbox_and_an_organisation_are_bounded_in_bytes(configured: Start) -> None:
    platform = configured(
        MAILBOX_MAX_BYTES=1_000_000,
        MAILBOX_SENDER_PERCENT=100,
        MOLECULE_A2A_MAX_BODY_BYTES=500_000,
        ORG_MAX_BYTES=1_400_000,
        MOLECULE_A2A_HOLD_SECONDS=0,
    )
    one, other, sender = (platform.join(name) for name in ("one", "other", "sender"))
    token = sender.load_token()
    assert [asked(platform, one.workspace_id, token, n, 300_000).status_code for n in range(3)] == [200] * 3
    assert limit_of(asked(platform, one.workspace_id, token, 3, 300_000)) == (503, "mailbox-bytes", 1_000_000)
    assert asked(platform, other.workspace_id, token, 0, 300_000).status_code == 200
    assert limit_of(asked(platform, other.workspace_id, token, 1, 300_000)) == (503, "org-bytes", 1_400_000)
    # What is answered needs no room any more.
    inbox, mine = f"/workspaces/{one.workspace_id}/inbox", one.load_token()
    for item in platform.ok("POST", f"{inbox}/lease", mine, json={})["messages"]:
        answer = {"lease_token": item["lease"]["token"], "text": "done"}
        platform.ok("POST", f"{inbox}/{item['message_id']}/answer", mine, json=answer)
    assert asked(platform, one.workspace_id, token, 4, 300_000).status_code == 200


def test_a_list_of_events_is_bounded_in_bytes_and_goes_on_where_it_ended(platform: Platform) -> None:
    agent = platform.join("agent")
    for _ in range(10):
        body = {"message": "x" * 1_000_000}
        platform.ok("POST", f"/workspaces/{agent.workspace_id}/notify", agent.load_token(), json=body)
    path = f"/events/{agent.workspace_id}?type=AGENT_MESSAGE&limit=1000"
    newest = platform.ok("GET", path)
    assert len(newest) == 8
    first = platform.ok("GET", f"{path}&since=0")
    rest = platform.ok("GET", f"{path}&since={first[-1]['id']}")
    assert (len(first), len(rest)) == (8, 2)
    assert {event["id"] for event in newest} <= {event["id"] for event in first + rest}


def test_lists_that_carry_bodies_are_bounded_in_bytes(platform: Platform) -> None:
    agent = platform.join("agent")
    path, token = f"/workspaces/{agent.workspace_id}", agent.load_token()
    for number in range(5):
        body = message([{"kind": "text", "text": "x" * 3_000_000}])
        body["params"]["message"]["messageId"] = f"m{number}"
        platform.ok("POST", f"{path}/a2a", json=body, headers={"Prefer": "respond-async"})
    seen = platform.ok("GET", f"{path}/inbox?limit=10", token=token)
    assert (len(seen["messages"]), seen["pending"]) == (2, 5)
    leased = platform.ok("POST", f"{path}/inbox/lease", token=token, json={"limit": 10})
    shown, taken = ([one["message_id"] for one in page["messages"]] for page in (seen, leased))
    assert shown == taken
    assert len(platform.ok("GET", f"{path}/activity?limit=10")) == 2
