"""Traces T5 and T6: the original client, call by call, as it talks to a platform it polls."""

import threading
import time
import uuid
from typing import Any

import pytest
import requests

from molecule_agent import RemoteAgentClient
from molecule_wire.a2a import text
from tests.spec.platforms import UNHELD_SECONDS, Platform, message
from tests.spec.scripted_agent import ScriptedAgent, join_push


class OriginalClient:
    """What the original client sends: its bearer, an Origin, and its cursor; it knows no other header."""

    def __init__(self, platform: Platform, agent: RemoteAgentClient) -> None:
        self.platform, self.id, self.token = platform, agent.workspace_id, agent.load_token()
        self.since: str | None = None

    def call(self, method: str, path: str, timeout: float = 30, **more: Any) -> requests.Response:
        headers = {"Origin": self.platform.url, "User-Agent": "python-requests", **more.pop("headers", {})}
        return self.platform.call(method, path, token=self.token, headers=headers, timeout=timeout, **more)

    def fetch(self) -> list[dict[str, Any]]:
        """The next rows, as its loop reads them."""
        path = f"/workspaces/{self.id}/activity?type=a2a_receive&limit=100"
        path += f"&since_id={self.since}" if self.since else ""
        answer = self.call("GET", path, timeout=30)
        assert answer.status_code == 200, answer.text
        rows = answer.json()
        self.since = rows[-1]["id"] if rows else self.since
        return rows

    def await_one(self) -> dict[str, Any]:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if rows := self.fetch():
                return rows[0]
            time.sleep(0.05)
        raise AssertionError("nothing came")

    def notify(self, words: str) -> None:
        answer = self.call("POST", f"/workspaces/{self.id}/notify", json={"message": words})
        assert answer.status_code == 200, answer.text

    def call_peer(self, peer: str, words: str, message_id: str) -> dict[str, Any]:
        body = message(words, message_id)
        headers = {"X-Workspace-ID": self.id}
        answer = self.call("POST", f"/workspaces/{peer}/a2a", timeout=30, json=body, headers=headers)
        assert answer.status_code in (200, 202), answer.text
        return answer.json()

    def reply(self, peer: str, words: str) -> dict[str, Any]:
        headers = {"X-Workspace-ID": self.id, "X-Source-Workspace-Id": self.id}
        body = message(words, str(uuid.uuid4()), role="agent")
        answer = self.call("POST", f"/workspaces/{peer}/a2a", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()


def original(platform: Platform, name: str, **fields: Any) -> OriginalClient:
    return OriginalClient(platform, platform.join(name, **fields))


@pytest.fixture
def org_token(platform: Platform) -> str:
    return platform.ok("POST", "/org/tokens", json={})["auth_token"]


@pytest.mark.unheld
def test_t5_a_person_asks_and_the_client_answers_by_notify_after_the_hold(
    platform: Platform, org_token: str
) -> None:
    ada = original(platform, "ada")
    began = time.monotonic()
    sent = platform.send(ada.id, "hello", org_token)
    assert 200 <= sent.status_code < 300
    assert time.monotonic() - began >= UNHELD_SECONDS
    assert (sent.json()["jsonrpc"], sent.json()["queued"]) == ("2.0", True)
    [row] = ada.fetch()
    assert row["id"]
    assert (row["data"]["source"], row["data"]["text"]) == ("canvas_user", "hello")
    ada.notify("hi yourself")
    events = platform.ok("GET", "/events?type=AGENT_MESSAGE")
    assert [event["payload"]["message"] for event in events] == ["hi yourself"]
    ended = platform.ok("GET", f"/messages/{sent.json()['message_id']}", token=org_token)
    assert (ended["status"], text.text_of(ended["result"])) == ("answered", "hi yourself")
    assert ada.fetch() == []
    ada.since = None
    assert ada.fetch() == []


def test_t6_a_held_call_gets_the_reply_and_only_there(patient: Platform) -> None:
    asker, helper = original(patient, "asker"), original(patient, "helper", role="sre")
    answers: list[dict[str, Any]] = []
    calling = threading.Thread(target=lambda: answers.append(asker.call_peer(helper.id, "hi", "m1")))
    calling.start()
    row = helper.await_one()
    asking = patient.ok("GET", f"/workspaces/{asker.id}")
    assert (row["source_id"], row["data"]["source"]) == (asker.id, "peer_agent")
    assert (row["data"]["peer_name"], row["data"]["peer_role"]) == ("asker", asking["role"] or "")
    assert helper.reply(asker.id, "yes")["result"]["settled"] is True
    calling.join(30)
    assert text.text_of(answers[0]["result"]) == "yes"
    assert asker.fetch() == []
    again = asker.call_peer(helper.id, "hi", "m1")
    assert text.text_of(again["result"]) == "yes"
    assert helper.fetch() == []


@pytest.mark.unheld
def test_t6_after_the_hold_the_reply_is_a_row_of_the_next_poll_once(platform: Platform) -> None:
    asker, helper = original(platform, "asker"), original(platform, "helper")
    queued = asker.call_peer(helper.id, "hi", "m1")
    assert queued["queued"] is True
    assert asker.call_peer(helper.id, "hi", "m1")["message_id"] == queued["message_id"]
    [row] = helper.fetch()
    assert row["data"]["message_id"] == queued["message_id"]
    assert helper.reply(asker.id, "yes")["result"]["settled"] is True
    [got] = asker.fetch()
    assert (got["data"]["text"], got["kind"], got["source_id"]) == ("yes", "reply", helper.id)
    assert asker.fetch() == []
    assert platform.ok("GET", f"/messages/{queued['message_id']}")["status"] == "answered"


def test_t6_a_reply_that_matches_nothing_is_in_the_next_poll_and_its_answer_goes_nowhere(
    platform: Platform,
) -> None:
    asker, helper = original(platform, "asker"), original(platform, "helper")
    assert helper.reply(asker.id, "by the way")["result"]["settled"] is False
    [got] = asker.fetch()
    assert got["data"]["text"] == "by the way"
    assert asker.reply(helper.id, "thanks")["result"]["settled"] is False
    assert helper.fetch() == []
    assert asker.fetch() == []


@pytest.mark.unheld
def test_t6_no_reply_reaches_an_asker_s_address_as_a_turn(platform: Platform, agent: ScriptedAgent) -> None:
    asker = OriginalClient(platform, join_push(platform, agent))
    helper = original(platform, "helper")
    queued = asker.call_peer(helper.id, "hi", "m1")
    helper.fetch()
    helper.reply(asker.id, "yes")
    helper.reply(asker.id, "and another thing")
    assert platform.ok("GET", f"/messages/{queued['message_id']}?wait=20")["status"] == "answered"
    probe = platform.send(asker.id, "are you there?", headers={"Prefer": "wait=30"}).json()
    assert text.text_of(probe["result"]) == "re: are you there?"
    assert [body["params"]["message"]["parts"][0]["text"] for _, body in agent.received] == ["are you there?"]
