"""What nobody may do, however they try."""

import json

import pytest
import requests
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.spec.platforms import Platform, message
from tests.spec.scripted_agent import ScriptedAgent, join_push


def signed_in(platform: Platform, user: str, role: str, token: str | None = None) -> requests.Session:
    """A browser of that user; the session's CSRF token goes along with every request."""
    link = platform.ok("POST", "/auth/login-codes", token, json={"user": user, "role": role})["url"]
    browser = requests.Session()
    answer = browser.post(f"{platform.url}/auth/login", json={"code": link.partition("code=")[2]}, timeout=30)
    browser.headers.update({"X-CSRF-Token": answer.json()["csrf_token"], "Origin": platform.url})
    return browser


def test_acting_as_a_workspace_does_not_open_its_secrets(platform: Platform) -> None:
    client = platform.join("a", secrets={"K": "hidden"})
    acting = {"X-Workspace-ID": client.workspace_id}
    answer = platform.call("GET", f"/workspaces/{client.workspace_id}/secrets/values", headers=acting)
    assert answer.status_code == 403
    assert "hidden" not in answer.text
    peers = platform.call("GET", f"/registry/{client.workspace_id}/peers", headers=acting)
    assert peers.status_code == 200


def test_nobody_invites_to_more_than_they_may_do(platform: Platform) -> None:
    browser = signed_in(platform, "bob", "admin")
    for user, role in (("admin", "member"), ("carol", "owner")):
        body = {"user": user, "role": role}
        answer = browser.post(f"{platform.url}/auth/login-codes", json=body, timeout=30)
        assert (answer.status_code, answer.json()["code"]) == (403, "scope-required")
    good = browser.post(
        f"{platform.url}/auth/login-codes", json={"user": "carol", "role": "member"}, timeout=30
    )
    assert good.status_code == 201


def test_an_invitation_never_changes_the_role_of_a_member(platform: Platform) -> None:
    signed_in(platform, "ann", "owner")
    again = signed_in(platform, "ann", "viewer")
    session = again.get(f"{platform.url}/auth/session", timeout=30).json()
    assert session["role"] == "owner"


def test_another_organisation_s_name_is_not_found(platform: Platform) -> None:
    named = {"X-Molecule-Org-Id": platform.org}
    assert platform.call("GET", "/workspaces", headers=named).status_code == 200
    answer = platform.call("GET", "/workspaces", headers={"X-Molecule-Org-Id": "other"})
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


def test_an_agent_cannot_speak_in_the_platform_s_name(platform: Platform, agent: ScriptedAgent) -> None:
    client = join_push(platform, agent)
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "TOKEN_REVOKED",
        "domain": "molecule.ai",
        "metadata": {"code": "token-revoked"},
    }
    forged = {"code": -32600, "message": "your token was revoked", "data": [info]}
    agent.script = [(200, {"jsonrpc": "2.0", "id": "1", "error": forged})]
    answer = platform.send(client.workspace_id, "hello", headers={"Prefer": "wait=30"})
    assert answer.status_code == 400
    assert answer.json()["code"] != "token-revoked"


def test_a_worker_cannot_fail_in_the_platform_s_name(platform: Platform) -> None:
    client = platform.join("a")
    sent = platform.send(client.workspace_id, "x", headers={"Prefer": "respond-async"}).json()
    body = {"code": "token-revoked", "error": "boo", "retryable": False}
    inbox = f"/workspaces/{client.workspace_id}/inbox/{sent['message_id']}/fail"
    platform.ok("POST", inbox, token=client.load_token(), json=body)
    ended = platform.ok("GET", f"/messages/{sent['message_id']}")
    assert ended["error"]["code"] == "skill-failed"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("turn-timeout", 504),
        ("turn-stalled", 504),
        ("run-interrupted", 500),
        ("budget-exceeded", 402),
        ("skill-input-invalid", 400),
        ("auth-model-mismatch", 500),
    ],
)
def test_a_worker_says_by_its_code_what_became_of_the_work(
    platform: Platform, code: str, status: int
) -> None:
    client = platform.join("a")
    key = {"Prefer": "respond-async", "Idempotency-Key": "k"}
    sent = platform.send(client.workspace_id, "x", headers=key).json()
    inbox = f"/workspaces/{client.workspace_id}/inbox/{sent['message_id']}/fail"
    body = {"code": code, "error": "it did not work", "retryable": False}
    platform.ok("POST", inbox, token=client.load_token(), json=body)
    assert platform.ok("GET", f"/messages/{sent['message_id']}")["error"]["code"] == code
    told = platform.send(client.workspace_id, "x", headers=key)
    assert (told.status_code, told.json()["code"]) == (status, code)


@pytest.mark.unheld
def test_the_same_reply_posted_twice_answers_one_question(platform: Platform) -> None:
    asker, helper = platform.join("asker"), platform.join("helper")
    asked = [asker.call_peer(helper.workspace_id, words)["message_id"] for words in ("first?", "second?")]
    helper.fetch_inbound()
    reply = message("yes", "r-1", role="agent")
    for _ in range(2):
        platform.ok("POST", f"/workspaces/{asker.workspace_id}/a2a", token=helper.load_token(), json=reply)
    statuses = [platform.ok("GET", f"/messages/{mid}")["status"] for mid in asked]
    assert statuses == ["answered", "leased"]


def test_a_socket_ends_when_its_session_does(platform: Platform) -> None:
    browser = signed_in(platform, "ada", "owner")
    cookie = f'prefs={{"a":1}}; molecule_session={next(iter(browser.cookies.values()))}'
    url = platform.url.replace("http", "ws") + "/ws"
    with connect(url, additional_headers={"Cookie": cookie, "Origin": platform.url}) as socket:
        browser.post(f"{platform.url}/auth/logout", timeout=30)
        try:
            while True:
                socket.recv(timeout=30)
        except ConnectionClosed:
            assert socket.close_code == 4009


def test_asking_for_headers_alone_takes_no_mail(platform: Platform) -> None:
    client = platform.join("a")
    platform.send(client.workspace_id, "x", headers={"Prefer": "respond-async"})
    path = f"/workspaces/{client.workspace_id}/activity?type=a2a_receive"
    assert platform.call("HEAD", path, token=client.load_token()).status_code == 405
    assert platform.ok("GET", f"/workspaces/{client.workspace_id}/inbox")["pending"] == 1


def test_a_worker_that_takes_and_gives_back_cannot_keep_a_message_alive(platform: Platform) -> None:
    client = platform.join("a")
    token, inbox = client.load_token(), f"/workspaces/{client.workspace_id}/inbox"
    mid = platform.send(client.workspace_id, "x", headers={"Prefer": "respond-async"}).json()["message_id"]
    before = platform.ok("GET", f"/messages/{mid}")["deadline_at"]
    lease = platform.ok("POST", f"{inbox}/lease", token=token, json={})["messages"][0]["lease"]
    platform.ok("POST", f"{inbox}/{mid}/release", token=token, json={"lease_token": lease["token"]})
    assert platform.ok("GET", f"/messages/{mid}")["deadline_at"] == before


def test_a_stranger_learns_nothing_of_addresses_by_registering(platform: Platform) -> None:
    body = {
        "id": "00000000-0000-4000-8000-000000000000",
        "url": "http://10.0.0.1/",
        "agent_card": {"name": "x"},
    }
    answer = platform.call("POST", "/registry/register", token="", json=body)
    assert (answer.status_code, answer.json()["code"]) == (404, "workspace-not-found")


def test_a_large_body_does_not_stop_the_house(platform: Platform) -> None:
    client = platform.join("a")
    parts = [{"kind": "text", "text": "x" * 2000} for _ in range(1000)]
    body = json.dumps({"method": "message/send", "params": {"message": {"parts": parts}}})
    headers = {"Prefer": "respond-async"}
    answer = platform.call("POST", f"/workspaces/{client.workspace_id}/a2a", data=body, headers=headers)
    assert answer.json()["queued"] is True
    assert len(client.fetch_inbound()[0].text) == 1000 * 2001 - 1
