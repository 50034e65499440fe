"""Agents behind any NAT: mail by polling, the original way and with leases."""

import threading
import time
from typing import Any

import pytest
import requests

from molecule_agent import (
    ConflictError,
    CursorLostError,
    InboundMessage,
    InboxDelivery,
    PollDelivery,
    RemoteAgentClient,
)
from molecule_wire.a2a import text
from molecule_wire.calls import inbox, registry, workspaces
from tests.spec.platforms import Platform

pytestmark = pytest.mark.both_engines


@pytest.mark.unheld
def test_a_users_message_is_polled_and_answered_by_notify(platform: Platform) -> None:
    client = platform.join("a")
    sent = platform.send(client.workspace_id, "hello").json()
    assert sent["queued"] is True
    assert sent["delivery_mode"] == "poll"
    assert sent["result"]["status"]["state"] == "submitted"
    received = client.fetch_inbound()
    assert [(m.source, m.text, m.message_id) for m in received] == [
        ("canvas_user", "hello", sent["message_id"])
    ]
    client.reply(received[0], "hi yourself")
    ended = platform.ok("GET", f"/messages/{sent['message_id']}")
    assert ended["status"] == "answered"
    assert text.text_of(ended["result"]) == "hi yourself"
    assert client.fetch_inbound() == []
    assert client.fetch_inbound(since_id=received[0].activity_id) == []
    events = platform.ok("GET", "/events?type=AGENT_MESSAGE")
    assert [event["payload"]["message"] for event in events] == ["hi yourself"]


def test_a_peers_call_is_held_until_the_poller_replies(patient: Platform) -> None:
    asker, helper = patient.join("asker"), patient.join("helper", role="helps")
    answers: list[dict[str, Any]] = []
    calling = threading.Thread(target=lambda: answers.append(asker.call_peer(helper.workspace_id, "hi?")))
    calling.start()
    received: list[InboundMessage] = []
    deadline = time.monotonic() + 30
    while not received and time.monotonic() < deadline:
        received = helper.fetch_inbound(wait=1)
    assert (received[0].source, received[0].source_id, received[0].peer_name) == (
        "peer_agent",
        asker.workspace_id,
        "asker",
    )
    helper.reply(received[0], "yes")
    calling.join(30)
    assert text.text_of(answers[0]["result"]) == "yes"
    assert answers[0]["result"]["parts"] == [{"kind": "text", "text": "yes"}]
    assert asker.fetch_inbound() == []


@pytest.mark.unheld
def test_an_answer_after_the_hold_reaches_the_asker_once_in_its_next_poll(platform: Platform) -> None:
    asker, helper = platform.join("asker"), platform.join("helper")
    queued = asker.call_peer(helper.workspace_id, "hi?")
    assert queued["queued"] is True
    received = helper.fetch_inbound()
    helper.reply(received[0], "late yes")
    got = asker.fetch_inbound()
    assert [(m.text, m.source_id, m.raw["kind"]) for m in got] == [("late yes", helper.workspace_id, "reply")]
    assert asker.fetch_inbound(since_id=got[0].activity_id) == []
    assert platform.ok("GET", f"/messages/{queued['message_id']}")["status"] == "answered"


@pytest.mark.unheld
def test_two_echoing_agents_cannot_loop(platform: Platform) -> None:
    asker, helper = platform.join("asker"), platform.join("helper")
    asker.call_peer(helper.workspace_id, "hi?")
    helper.reply(helper.fetch_inbound()[0], "late yes")
    asker.reply(asker.fetch_inbound()[0], "thanks")
    assert helper.fetch_inbound() == []


@pytest.mark.unheld
def test_posting_the_same_body_again_attaches_to_the_first(platform: Platform) -> None:
    asker, helper = platform.join("asker"), platform.join("helper")
    first = asker.call_peer(helper.workspace_id, "hi?", message_id="m1")
    again = asker.call_peer(helper.workspace_id, "hi?", message_id="m1")
    other = asker.call_peer(helper.workspace_id, "other words", message_id="m1")
    assert first["message_id"] == again["message_id"] != other["message_id"]
    assert len(helper.fetch_inbound()) == 2


def test_an_unknown_cursor_is_lost_and_reading_without_one_gives_what_is_open(platform: Platform) -> None:
    client = platform.join("a")
    for words in ("one", "two"):
        platform.send(client.workspace_id, words, headers={"Prefer": "respond-async"})
    with pytest.raises(CursorLostError):
        client.fetch_inbound(since_id="01890000-0000-7000-8000-000000000000")
    assert [m.text for m in client.fetch_inbound()] == ["one", "two"]


def test_poll_delivery_answers_acks_and_fails_so_that_every_sender_learns_the_outcome(
    platform: Platform,
) -> None:
    client = platform.join("a")

    def handle(message: InboundMessage, _client: RemoteAgentClient) -> str | None:
        if message.text == "crash":
            raise RuntimeError("boom")
        return None if message.text == "quiet" else f"re: {message.text}"

    ids: dict[str, str] = {}
    for words in ("speak", "quiet", "crash"):
        answer = platform.send(client.workspace_id, words, headers={"Prefer": "respond-async"})
        ids[words] = answer.json()["message_id"]
    assert PollDelivery(client).run_once(handle) == 3
    ended = {words: platform.ok("GET", f"/messages/{mid}") for words, mid in ids.items()}
    assert {words: row["status"] for words, row in ended.items()} == {
        "speak": "answered",
        "quiet": "answered",
        "crash": "failed",
    }
    assert ended["crash"]["dead_letter"] is True
    assert "boom" not in ended["crash"]["error"]["message"]


def test_inbox_delivery_answers_under_a_lease(platform: Platform) -> None:
    client = platform.join("a")
    sent = platform.send(client.workspace_id, "hello", headers={"Prefer": "respond-async"}).json()
    delivery = InboxDelivery(client, wait=5)
    handled = delivery.run_once(lambda message, _client: f"re: {message.text}")
    delivery.stop()
    assert handled == 1
    ended = platform.ok("GET", f"/messages/{sent['message_id']}?wait=20")
    assert (ended["status"], text.text_of(ended["result"])) == ("answered", "re: hello")


def test_an_old_lease_changes_nothing(platform: Platform) -> None:
    client = platform.join("a")
    token = client.load_token()
    mid = platform.send(client.workspace_id, "x", headers={"Prefer": "respond-async"}).json()["message_id"]
    inbox = f"/workspaces/{client.workspace_id}/inbox"
    first = platform.ok("POST", f"{inbox}/lease", token=token, json={})["messages"][0]["lease"]
    platform.ok("POST", f"{inbox}/{mid}/release", token=token, json={"lease_token": first["token"]})
    second = platform.ok("POST", f"{inbox}/lease", token=token, json={})["messages"][0]["lease"]
    assert (second["epoch"], second["attempt"]) == (2, 1)
    late = platform.call(
        "POST", f"{inbox}/{mid}/answer", token=token, json={"lease_token": first["token"], "text": "a"}
    )
    assert (late.status_code, late.json()["code"]) == (409, "lease-lost")
    good = {"lease_token": second["token"], "text": "b"}
    assert platform.ok("POST", f"{inbox}/{mid}/answer", token=token, json=good)["status"] == "answered"
    assert platform.ok("POST", f"{inbox}/{mid}/answer", token=token, json=good)["status"] == "answered"


def test_peeking_has_no_effect(platform: Platform) -> None:
    client = platform.join("a")
    platform.send(client.workspace_id, "x", headers={"Prefer": "respond-async"})
    peek = f"/workspaces/{client.workspace_id}/inbox"
    seen = [platform.ok("GET", peek, token=client.load_token()) for _ in range(2)]
    assert [(s["pending"], s["leased"], len(s["messages"])) for s in seen] == [(1, 0, 1), (1, 0, 1)]
    assert "lease" not in seen[0]["messages"][0]


@pytest.mark.unheld
def test_ask_peer_waits_for_a_queued_answer(platform: Platform) -> None:
    asker, helper = platform.join("asker"), platform.join("helper")
    delivery = InboxDelivery(helper, wait=10)

    def handle(message: InboundMessage, _client: RemoteAgentClient) -> str:
        time.sleep(0.5)
        return f"re: {message.text}"

    working = threading.Thread(target=delivery.run_once, args=(handle,))
    working.start()
    assert asker.ask_peer(helper.workspace_id, "slow?", timeout=30) == "re: slow?"
    working.join(30)
    delivery.stop()


def test_mail_for_a_paused_agent_waits_and_is_delivered_after_the_resume(platform: Platform) -> None:
    client = platform.join("a")
    platform.ok("POST", f"/workspaces/{client.workspace_id}/pause")
    sent = platform.send(client.workspace_id, "later")
    assert sent.status_code == 202
    assert sent.json()["workspace_status"] == "paused"
    assert client.fetch_inbound() == []
    platform.ok("POST", f"/workspaces/{client.workspace_id}/resume")
    client.heartbeat()
    assert [m.text for m in client.fetch_inbound()] == ["later"]


def test_a_message_nobody_answers_expires_and_the_sender_learns_it(platform: Platform) -> None:
    client = platform.join("a")
    sent = platform.send(
        client.workspace_id, "quick", headers={"X-Timeout": "1", "Prefer": "respond-async"}
    ).json()
    ended = platform.ok("GET", f"/messages/{sent['message_id']}?wait=20")
    assert ended["status"] == "expired"
    assert ended["error"]["code"] == "deadline-exceeded"


def test_removing_a_workspace_tells_the_senders_of_its_open_messages(platform: Platform) -> None:
    client = platform.join("a")
    sent = platform.send(client.workspace_id, "x", headers={"Prefer": "respond-async"}).json()
    platform.ok("DELETE", f"/workspaces/{client.workspace_id}")
    ended = platform.ok("GET", f"/messages/{sent['message_id']}")
    assert (ended["status"], ended["error"]["code"]) == ("cancelled", "workspace-removed")


def test_a_worker_that_hung_up_is_given_nothing(platform: Platform) -> None:
    client = platform.join("a")
    lease = f"/workspaces/{client.workspace_id}/inbox/lease"
    with pytest.raises(requests.Timeout):
        platform.call("POST", lease, token=client.load_token(), json={"wait": 30}, timeout=0.3)
    platform.send(client.workspace_id, "x", headers={"Prefer": "respond-async"})
    leased = platform.ok("POST", lease, token=client.load_token(), json={"wait": 20})
    assert [item["lease"]["attempt"] for item in leased["messages"]] == [1]


def test_an_agent_that_restarts_takes_over_what_its_last_worker_held(platform: Platform) -> None:
    client = platform.join("a")
    for words in ("one", "two"):
        platform.send(client.workspace_id, words, headers={"Prefer": "respond-async"})

    def leased(worker: str) -> list[InboundMessage]:
        request = inbox.lease(client.workspace_id, limit=1, wait=0, lease=3600, worker=worker)
        return client._perform(request, inbox.read_leased).messages

    def answered(message: InboundMessage) -> None:
        assert message.lease is not None
        token = message.lease.token
        request = inbox.answer(client.workspace_id, message.message_id, text="done", lease_token=token)
        client._perform(request, workspaces.read_nothing)

    [held_before], [held_by_another] = leased("before"), leased("another")
    assert leased("after") == []
    again = registry.register(client.workspace_id, "", client.agent_card, replaces_worker="before")
    assert client._perform(again, registry.read_registration).applied
    [taken] = leased("after")
    assert taken.lease is not None
    assert (taken.message_id, taken.lease.attempt) == (held_before.message_id, 1), "no attempt is counted"
    with pytest.raises(ConflictError, match="lease-lost"):
        answered(held_before)
    answered(held_by_another)
    answered(taken)


def test_only_the_workspace_itself_can_replace_a_worker(platform: Platform) -> None:
    client, other = platform.join("a"), platform.join("b")
    platform.send(client.workspace_id, "one", headers={"Prefer": "respond-async"})
    request = inbox.lease(client.workspace_id, limit=1, wait=0, lease=3600, worker="w")
    assert len(client._perform(request, inbox.read_leased).messages) == 1
    claim = {"id": client.workspace_id, "agent_card": {"name": "x"}, "replaces_worker": "w"}
    assert platform.ok("POST", "/registry/register", "", json=claim)["applied"] is False
    assert platform.call("POST", "/registry/register", other.load_token(), json=claim).status_code == 403
    assert client._perform(request, inbox.read_leased).messages == []
