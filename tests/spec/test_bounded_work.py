"""No request makes work without bounds: a refusal names the limit and the figure."""

import contextlib
import json
import time
from typing import Any

import pytest
import requests

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
    path, token = f"/workspaces/{one.workspace_id}/inbox?wait=30", one.load_token()
    with contextlib.ExitStack() as streams:
        for _ in range(3):
            headers = {"Authorization": f"Bearer {token}"}
            events = requests.get(platform.url + "/events/stream", headers=headers, stream=True, timeout=30)
            assert streams.enter_context(events).status_code == 200
        answer = platform.call("GET", path, token)
        assert limit_of(answer) == (429, "open-requests", 3)
        assert int(answer.headers["Retry-After"]) == answer.json()["retry_after"]
        platform.ok("GET", f"/workspaces/{other.workspace_id}/inbox", other.load_token())
    deadline = time.monotonic() + 30
    while platform.call("GET", path.replace("30", "0"), token).status_code != 200:
        assert time.monotonic() < deadline


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
