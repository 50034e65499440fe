"""Tokens: minted within one's own power, shown once, rotated, revoked, and never above their maker."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import requests

from molecule_wire import times
from tests.spec.platforms import Platform, message


def beat(platform: Platform, workspace_id: str, token: str) -> requests.Response:
    return platform.call("POST", "/registry/heartbeat", token, json={"workspace_id": workspace_id})


def minted(platform: Platform, workspace_id: str, token: str | None = None, **wish: Any) -> dict[str, Any]:
    return platform.ok("POST", f"/workspaces/{workspace_id}/tokens", token, json=wish)


def test_a_token_is_shown_once_and_listed_by_its_prefix(platform: Platform) -> None:
    client = platform.join("a")
    new = minted(platform, client.workspace_id, name="ci", scopes=["ws.runtime"])
    assert len(new["auth_token"]) == 43
    listed = platform.ok("GET", f"/workspaces/{client.workspace_id}/tokens")
    row = next(row for row in listed["tokens"] if row["id"] == new["id"])
    assert (row["prefix"], row["name"], row["scopes"]) == (new["auth_token"][:8], "ci", ["ws.runtime"])
    assert row["created_by"] == "user:admin"
    assert new["auth_token"] not in str(listed)
    assert listed["count"] == len(listed["tokens"]) == 2


def test_a_token_does_only_what_its_scopes_say(platform: Platform) -> None:
    client = platform.join("a")
    narrow = minted(platform, client.workspace_id, scopes=["ws.runtime"])["auth_token"]
    assert beat(platform, client.workspace_id, narrow).status_code == 200
    answer = platform.call("GET", f"/workspaces/{client.workspace_id}/secrets/values", narrow)
    assert (answer.status_code, answer.json()["required"]) == (403, ["ws.secrets.read"])


def test_what_was_sent_is_read_with_ws_inbox_or_ws_send_and_steered_with_ws_send(platform: Platform) -> None:
    ada, bob = platform.join("ada"), platform.join("bob")
    here, there = ada.workspace_id, bob.workspace_id
    asked = platform.send(there, "?", ada.load_token(), headers={"Prefer": "respond-async"}).json()
    delegated = platform.ok("POST", f"/workspaces/{here}/delegate", json={"target_id": there, "task": "t"})
    message, delegation = asked["message_id"], delegated["delegation_id"]
    rpc = {"jsonrpc": "2.0", "id": 1, "params": {"id": message}}
    reads: list[tuple[str, str, Any]] = [
        ("GET", f"/messages/{message}", None),
        ("GET", f"/messages/{message}/events", None),
        ("GET", f"/workspaces/{there}/a2a/queue/{message}", None),
        ("GET", f"/workspaces/{there}/tasks/{message}/events", None),
        ("GET", f"/delegations/{delegation}", None),
        ("GET", f"/delegations/{delegation}/events", None),
        ("GET", f"/agents/{there}/v1/tasks/{message}", None),
        ("POST", f"/workspaces/{there}/a2a", rpc | {"method": "tasks/get"}),
        ("POST", f"/agents/{there}", rpc | {"method": "tasks/get"}),
        ("POST", f"/agents/{there}", rpc | {"method": "tasks/resubscribe"}),
    ]
    steers: list[tuple[str, str, Any]] = [
        ("POST", f"/workspaces/{there}/a2a", rpc | {"method": "tasks/cancel"}),
        ("POST", f"/agents/{there}", rpc | {"method": "tasks/cancel"}),
        ("POST", f"/agents/{there}/v1/tasks/{message}:cancel", {}),
        ("POST", f"/messages/{message}/cancel", {}),
        ("POST", f"/delegations/{delegation}/cancel", {}),
    ]

    def statuses(token: str, calls: list[tuple[str, str, Any]]) -> set[int]:
        found: set[int] = set()
        for method, path, body in calls:
            with platform.call(method, path, token, json=body, stream=True) as answer:
                found.add(answer.status_code)
                assert answer.status_code == 200 or "scope-required" in answer.text, (path, answer.text)
        return found

    for workspace_id in (here, there):
        for scope in ("ws.inbox", "ws.send", "workspace"):
            assert statuses(minted(platform, workspace_id, scopes=[scope])["auth_token"], reads) == {200}
        runtime = minted(platform, workspace_id, scopes=["ws.runtime"])["auth_token"]
        assert statuses(runtime, reads + steers) == {403}
        inbox = minted(platform, workspace_id, scopes=["ws.inbox"])["auth_token"]
        assert statuses(inbox, steers) == {403}
    operator = platform.ok("POST", "/org/tokens", json={"scopes": ["org.read"]})["auth_token"]
    # To A2A a task does not exist for those who may not steer it: test_a2a_checklist has that.
    assert (statuses(operator, reads), statuses(operator, steers[-2:])) == ({200}, {403})
    assert statuses(minted(platform, here, scopes=["ws.send"])["auth_token"], steers[-2:]) == {200}


def test_an_agent_replies_with_ws_inbox(platform: Platform) -> None:
    ada, bob = platform.join("ada"), platform.join("bob")
    asked = platform.send(bob.workspace_id, "?", ada.load_token(), headers={"Prefer": "respond-async"}).json()
    token = minted(platform, bob.workspace_id, scopes=["ws.inbox"])["auth_token"]
    path, named = f"/workspaces/{ada.workspace_id}/a2a", {"X-Molecule-In-Reply-To": asked["message_id"]}
    reply = platform.ok("POST", path, token, json=message("four", role="agent"), headers=named)
    assert reply["result"]["settled"] is True
    assert platform.call("POST", path, token, json=message("a call")).json()["code"] == "scope-required"


def test_a_revoked_token_ends_at_once(platform: Platform) -> None:
    client = platform.join("a")
    new = minted(platform, client.workspace_id)
    assert beat(platform, client.workspace_id, new["auth_token"]).status_code == 200
    path = f"/workspaces/{client.workspace_id}/tokens/{new['id']}"
    assert platform.ok("DELETE", path) == {"status": "revoked"}
    assert beat(platform, client.workspace_id, new["auth_token"]).json()["code"] == "token-revoked"
    assert platform.call("DELETE", path).status_code == 404


def test_a_token_expires(platform: Platform) -> None:
    client = platform.join("a")
    soon = times.format_time(datetime.now(UTC) + timedelta(seconds=1.5))
    new = minted(platform, client.workspace_id, expires_at=soon)
    deadline = datetime.now(UTC) + timedelta(seconds=30)
    while beat(platform, client.workspace_id, new["auth_token"]).status_code == 200:
        assert datetime.now(UTC) < deadline
        time.sleep(0.05)
    assert beat(platform, client.workspace_id, new["auth_token"]).json()["code"] == "token-expired"


def test_a_rotated_token_works_for_the_overlap(platform: Platform) -> None:
    client = platform.join("a")
    old = client.load_token() or ""
    path = f"/workspaces/{client.workspace_id}/tokens/rotate"
    new = platform.ok("POST", path, old, json={"overlap_seconds": 60})
    assert new["scopes"] == ["workspace"]
    for token in (old, new["auth_token"]):
        assert beat(platform, client.workspace_id, token).status_code == 200
    platform.ok("POST", path, new["auth_token"], json={"overlap_seconds": 0})
    assert beat(platform, client.workspace_id, new["auth_token"]).json()["code"] == "token-expired"
    assert platform.call("POST", path, json={}).status_code == 403


def test_nobody_grants_more_than_they_hold(platform: Platform) -> None:
    client = platform.join("a")
    manage = minted(platform, client.workspace_id, scopes=["ws.manage"])["auth_token"]
    path = f"/workspaces/{client.workspace_id}/tokens"
    answer = platform.call("POST", path, manage, json={"scopes": ["workspace"]})
    assert (answer.status_code, answer.json()["code"]) == (403, "scope-required")
    few = platform.ok("POST", "/org/tokens", json={"scopes": ["org.tokens", "org.read"]})["auth_token"]
    answer = platform.call("POST", "/org/tokens", few, json={"scopes": ["org.write"]})
    assert (answer.status_code, answer.json()["required"]) == (403, ["org.write"])
    assert platform.call("POST", "/org/tokens", few, json={"scopes": ["admin"]}).status_code == 403


def test_no_token_outlives_the_one_that_mints_it(platform: Platform) -> None:
    wish = {"scopes": ["org.tokens", "org.read"], "ttl_seconds": 60}
    short = platform.ok("POST", "/org/tokens", json=wish)
    child = platform.ok("POST", "/org/tokens", short["auth_token"], json={"scopes": ["org.read"]})
    assert child["expires_at"] == short["expires_at"]
    longer = {"scopes": ["org.read"], "ttl_seconds": 600}
    assert platform.call("POST", "/org/tokens", short["auth_token"], json=longer).status_code == 400


@pytest.mark.parametrize(
    "wish",
    [{"scopes": ["no.such"]}, {"scopes": ["org.read"]}, {"ttl_seconds": 0}, {"expires_at": "soon"}],
)
def test_a_wish_that_makes_no_sense_is_refused(platform: Platform, wish: dict[str, Any]) -> None:
    client = platform.join("a")
    answer = platform.call("POST", f"/workspaces/{client.workspace_id}/tokens", json=wish)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-request")


@pytest.mark.unheld
def test_an_organisation_s_token_acts_in_its_organisation(platform: Platform) -> None:
    client = platform.join("a")
    token = platform.ok("POST", "/org/tokens", json={"name": "bot"})
    assert token["scopes"] == ["org.approve", "org.read", "org.secrets", "org.send", "org.write"]
    assert platform.send(client.workspace_id, "hi", token["auth_token"]).json()["queued"] is True
    received = client.fetch_inbound()
    assert (received[0].source, received[0].text) == ("canvas_user", "hi")
    assert [row["name"] for row in platform.ok("GET", "/org/tokens")["tokens"]] == ["bot"]
    assert platform.ok("DELETE", f"/org/tokens/{token['id']}") == {"revoked": token["id"]}
    assert platform.call("GET", "/workspaces", token["auth_token"]).json()["code"] == "token-revoked"


def test_a_session_made_from_a_token_ends_with_it(platform: Platform) -> None:
    token = platform.ok("POST", "/org/tokens", json={"name": "bot"})
    browser = requests.Session()
    answer = browser.post(f"{platform.url}/auth/login", json={"token": token["auth_token"]}, timeout=30)
    assert answer.status_code == 200
    assert browser.get(f"{platform.url}/workspaces", timeout=30).status_code == 200
    platform.ok("DELETE", f"/org/tokens/{token['id']}")
    assert browser.get(f"{platform.url}/workspaces", timeout=30).json()["code"] == "token-revoked"


def test_there_are_at_most_fifty_living_tokens(platform: Platform) -> None:
    client = platform.join("a")
    for _ in range(49):
        minted(platform, client.workspace_id)
    answer = platform.call("POST", f"/workspaces/{client.workspace_id}/tokens", json={})
    assert (answer.status_code, answer.json()["code"]) == (429, "token-limit")
    assert answer.headers["Retry-After"] == str(answer.json()["retry_after"])
