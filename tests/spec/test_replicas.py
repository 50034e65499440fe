"""Two replicas on one database are one platform: it does not matter to which of them anybody talks."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests

from molecule_agent import InboxDelivery, RemoteAgentClient
from molecule_platform.services.cards import card_service
from molecule_platform.testing import servers
from molecule_platform.web.streams import sse
from molecule_wire.a2a import text
from tests.spec import platforms
from tests.spec.platforms import Engine, Platform, Start
from tests.spec.scripted_agent import ScriptedAgent, join_push
from tests.spec.streams import closing_code, listen, stream

pytestmark = pytest.mark.both_engines

AT_ONCE = {"Prefer": "respond-async"}


class Pair(NamedTuple):
    """Two replicas."""

    here: Platform
    there: Platform


@pytest.fixture
def engine() -> Engine:
    """Only a shared database can have two replicas."""
    return "postgres"


@pytest.fixture(scope="module")
def replicas(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, postgres_pattern: str, nats_url: str
) -> Iterator[Pair]:
    """Two replicas that hold a call for as long as a test may need."""
    home = tmp_path_factory.mktemp("replicas")
    with servers.fresh_database(postgres_url, postgres_pattern) as url:
        flags = {"DATABASE_URL": url, "NATS_URL": nats_url, "MOLECULE_A2A_HOLD_SECONDS": 30}
        pair = Pair(platforms.opened(home, flags), platforms.opened(home, flags))
        yield pair
        for replica in pair:
            replica.stop()


@pytest.fixture
def pair(replicas: Pair, tmp_path: Path) -> Iterator[Pair]:
    """Two replicas with a new organisation."""
    with replicas.here.new_org(tmp_path) as here:
        there = replace(replicas.there, org=here.org, homes=tmp_path, clients=[])
        yield Pair(here, there)
        there.leave()


def elsewhere(client: RemoteAgentClient, platform: Platform) -> RemoteAgentClient:
    """The same agent, talking to another replica."""
    return platform.client(client.workspace_id)


def wait_until(holds: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not become true in time"
        threading.Event().wait(0.02)


def test_a_message_accepted_by_one_is_leased_and_answered_through_the_other(pair: Pair) -> None:
    client = pair.here.join("a")
    sent = pair.here.send(client.workspace_id, "hello", headers=AT_ONCE).json()
    delivery = InboxDelivery(elsewhere(client, pair.there), wait=10)
    assert delivery.run_once(lambda message, _client: f"re: {message.text}") == 1
    delivery.stop()
    ended = pair.here.ok("GET", f"/messages/{sent['message_id']}?wait=20")
    assert (ended["status"], text.text_of(ended["result"])) == ("answered", "re: hello")


def test_a_hold_on_one_ends_when_the_agent_replies_to_the_other(pair: Pair) -> None:
    client = pair.here.join("a")
    answers: list[dict[str, Any]] = []
    asking = threading.Thread(
        target=lambda: answers.append(pair.here.send(client.workspace_id, "hello?").json())
    )
    asking.start()
    there = elsewhere(client, pair.there)
    received = there.fetch_inbound(wait=20)
    there.reply(received[0], "hello from there")
    asking.join(30)
    assert "queued" not in answers[0]
    assert text.text_of(answers[0]["result"]) == "hello from there"


def test_a_new_card_is_shown_by_the_other_as_soon_as_the_bell_comes(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(card_service, "FRESH_SECONDS", 3600.0)
    client = pair.here.join("a", visibility="public")
    path = f"/agents/{client.workspace_id}/.well-known/agent-card.json"
    for said in ("second", "third"):
        pair.there.ok("GET", path, "")
        client.agent_card = {"name": "a", "description": said}
        client.register()
        assert pair.here.ok("GET", path, "")["description"] == said
        wait_until(lambda said=said: pair.there.ok("GET", path, "")["description"] == said)


def test_what_a_replica_that_went_away_had_accepted_is_carried_by_the_other(
    restarting: Start, agent: ScriptedAgent
) -> None:
    pair = Pair(restarting(), restarting())
    client = join_push(pair.here, agent)
    pair.here.ok("POST", f"/workspaces/{client.workspace_id}/pause")
    sent = pair.here.send(client.workspace_id, "hello").json()
    pair.here.stop()
    pair.there.ok("POST", f"/workspaces/{client.workspace_id}/resume")
    elsewhere(client, pair.there).heartbeat()
    ended = pair.there.ok("GET", f"/messages/{sent['message_id']}?wait=20")
    assert (ended["status"], text.text_of(ended["result"])) == ("answered", "re: hello")


def test_both_together_carry_each_message_once_and_no_more_at_a_time_than_allowed(
    pair: Pair, agent: ScriptedAgent
) -> None:
    client = join_push(pair.here, agent)
    pair.here.ok("PATCH", f"/workspaces/{client.workspace_id}", json={"max_concurrent_tasks": 1})
    lock = threading.Lock()
    overlaps: list[bool] = []

    def slow(_body: dict[str, Any]) -> dict[str, Any]:
        alone = lock.acquire(blocking=False)
        overlaps.append(not alone)
        threading.Event().wait(0.05)
        if alone:
            lock.release()
        return {"result": "ok"}

    agent.respond = slow
    sent = [
        pair[turn % 2].send(client.workspace_id, f"{turn}", headers=AT_ONCE).json()["message_id"]
        for turn in range(8)
    ]
    for message_id in sent:
        assert pair.there.ok("GET", f"/messages/{message_id}?wait=20")["status"] == "answered"
    assert sorted(headers["X-Molecule-Message-Id"] for headers, _ in agent.received) == sorted(sent)
    assert not any(overlaps)


def test_an_event_on_one_reaches_a_listener_of_the_other(pair: Pair) -> None:
    with listen(pair.there) as socket:
        client = pair.here.join("a")
        seen: list[tuple[str, str]] = []
        while ("WORKSPACE_ONLINE", client.workspace_id) not in seen:
            frame = json.loads(socket.recv(timeout=30))
            seen.append((frame["event"], frame.get("workspace_id", "")))
    told = [event for event, workspace_id in seen if workspace_id == client.workspace_id]
    assert told == ["WORKSPACE_AWAITING_AGENT", "WORKSPACE_CLAIMED", "WORKSPACE_ONLINE"]


def test_an_event_on_one_reaches_a_stream_of_the_other(pair: Pair) -> None:
    with stream(pair.there) as told:
        client = pair.here.join("a")
        seen = told.until("WORKSPACE_ONLINE")
    assert [one.event for one in seen] == [
        "WORKSPACE_AWAITING_AGENT",
        "WORKSPACE_CLAIMED",
        "WORKSPACE_ONLINE",
    ]
    assert {one.data["workspace_id"] for one in seen} == {client.workspace_id}


def test_a_ticket_from_one_opens_a_stream_at_the_other_and_resumes_what_was_seen_here(pair: Pair) -> None:
    with stream(pair.here) as told:
        pair.here.join("a")
        last = told.until("WORKSPACE_ONLINE")[-1].id
    client = pair.here.join("b")
    ticket = pair.here.ok("POST", "/auth/ticket", json={})["ticket"]
    with stream(pair.there, f"/events/stream?ticket={ticket}", "", Last_Event_ID=last) as told:
        seen = told.until("WORKSPACE_ONLINE")
    assert {one.data["workspace_id"] for one in seen} == {client.workspace_id}


def test_a_token_revoked_on_one_closes_its_socket_and_stream_at_the_other_before_their_next_sign_of_life(
    pair: Pair,
) -> None:
    made = pair.here.ok("POST", "/org/tokens", json={"name": "watcher", "scopes": ["org.read"]})
    token = made["auth_token"]
    with listen(pair.there, token=token) as socket, stream(pair.there, token=token) as told:
        began = time.monotonic()
        pair.here.ok("DELETE", f"/org/tokens/{made['id']}")
        assert closing_code(socket) == 4009
        assert told.ends()
        assert time.monotonic() - began < sse.KEEP_ALIVE_SECONDS - 3


def test_signing_out_of_one_signs_out_of_the_other(pair: Pair) -> None:
    browser = requests.Session()
    token = {"token": pair.here.admin_token}
    signed_in = browser.post(f"{pair.here.url}/auth/login", json=token, timeout=30).json()
    cookies = {"molecule_session": next(iter(browser.cookies.values()))}

    def status_there() -> int:
        return requests.get(f"{pair.there.url}/auth/session", cookies=cookies, timeout=30).status_code

    assert status_there() == 200
    headers = {"X-CSRF-Token": signed_in["csrf_token"], "Origin": pair.here.url}
    assert browser.post(f"{pair.here.url}/auth/logout", headers=headers, timeout=30).status_code == 204
    wait_until(lambda: status_there() == 401)


def test_an_agent_joined_through_one_is_paused_through_the_other(pair: Pair) -> None:
    client = pair.here.join("a")
    pair.there.ok("POST", f"/workspaces/{client.workspace_id}/pause")
    assert client.poll_state().paused
