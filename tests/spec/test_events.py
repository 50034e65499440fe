"""The live record: what happens reaches every listener once, and can be replayed."""

import time

import pytest
import requests
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from molecule_platform.web.streams import sse
from tests.spec.platforms import Platform, Start
from tests.spec.streams import closing_code, frames, listen, stream

pytestmark = pytest.mark.both_engines


def test_status_changes_arrive_live_and_in_order(platform: Platform) -> None:
    with listen(platform) as socket:
        client = platform.join("a")
        platform.ok("POST", f"/workspaces/{client.workspace_id}/pause")
        seen = frames(socket, "WORKSPACE_PAUSED")
    assert [frame["event"] for frame in seen] == [
        "WORKSPACE_AWAITING_AGENT",
        "WORKSPACE_CLAIMED",
        "WORKSPACE_ONLINE",
        "WORKSPACE_PAUSED",
    ]
    assert {frame["workspace_id"] for frame in seen} == {client.workspace_id}
    numbers = [int(frame["id"]) for frame in seen]
    assert numbers == sorted(set(numbers))


def test_a_listener_resumes_where_it_was_without_gap_or_repeat(platform: Platform) -> None:
    client = platform.join("a")
    for _ in range(3):
        platform.ok("POST", f"/workspaces/{client.workspace_id}/pause")
        platform.ok("POST", f"/workspaces/{client.workspace_id}/resume")
    everything = platform.ok("GET", "/events?since=0")
    middle = everything[len(everything) // 2]
    with listen(platform, f"?since={middle['id']}") as socket:
        platform.ok("DELETE", f"/workspaces/{client.workspace_id}")
        seen = frames(socket, "WORKSPACE_REMOVED")
    expected = [row["id"] for row in platform.ok("GET", f"/events?since={middle['id']}")]
    assert [frame["id"] for frame in seen] == expected


def test_message_steps_are_part_of_the_record(platform: Platform) -> None:
    client = platform.join("a")
    sent = platform.send(client.workspace_id, "x", headers={"Prefer": "respond-async"}).json()
    client.reply(client.fetch_inbound()[0], "y")
    kinds = [row["event_type"] for row in platform.ok("GET", f"/events/{client.workspace_id}?since=0")]
    steps = [kind for kind in kinds if kind.startswith("MESSAGE_") or kind == "A2A_RESPONSE"]
    assert steps == ["MESSAGE_ACCEPTED", "MESSAGE_LEASED", "MESSAGE_ANSWERED", "A2A_RESPONSE"]
    response = platform.ok("GET", "/events?type=A2A_RESPONSE")[0]["payload"]
    assert response["message_id"] == sent["message_id"]
    assert response["response_body"]["result"]["status"]["state"] == "completed"


def test_a_listener_without_a_credential_is_turned_away(platform: Platform) -> None:
    address = platform.url.replace("http", "ws") + "/ws"
    with pytest.raises(InvalidStatus) as refused, connect(address):
        pass
    assert refused.value.response.status_code == 401
    # A browser cannot read the status of a handshake, but the code with which a WebSocket closes.
    with connect(address, additional_headers={"Authorization": "Bearer made-up"}) as socket:
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=30)
        assert socket.close_code == 4001


def test_a_stream_and_a_socket_tell_the_same_story(platform: Platform) -> None:
    with listen(platform) as socket, stream(platform) as told:
        client = platform.join("a")
        platform.ok("POST", f"/workspaces/{client.workspace_id}/pause")
        by_socket = frames(socket, "WORKSPACE_PAUSED")
        by_stream = told.until("WORKSPACE_PAUSED")
    assert [one.data for one in by_stream] == by_socket
    assert [(one.id, one.event) for one in by_stream] == [(one["id"], one["event"]) for one in by_socket]


def test_a_stream_resumes_where_it_was_without_gap_or_repeat(platform: Platform) -> None:
    client = platform.join("a")
    for _ in range(3):
        platform.ok("POST", f"/workspaces/{client.workspace_id}/pause")
        platform.ok("POST", f"/workspaces/{client.workspace_id}/resume")
    everything = platform.ok("GET", "/events?since=0")
    middle = everything[len(everything) // 2]["id"]
    with stream(platform, "/events/stream?since=0", Last_Event_ID=middle) as told:
        platform.ok("DELETE", f"/workspaces/{client.workspace_id}")
        seen = told.until("WORKSPACE_REMOVED")
    expected = [row["id"] for row in platform.ok("GET", f"/events?since={middle}")]
    assert [one.id for one in seen] == expected


def test_an_agent_follows_itself_and_sees_only_what_concerns_it(platform: Platform) -> None:
    lead = platform.join("lead")
    ada = platform.join("ada", lead.workspace_id)
    bob = platform.join("bob", lead.workspace_id)
    stranger = platform.join("stranger", platform.join("other").workspace_id)
    start = platform.ok("GET", "/events?limit=1")[0]["id"]
    platform.send(bob.workspace_id, "secret", headers={"Prefer": "respond-async"})
    platform.send(ada.workspace_id, "for ada", headers={"Prefer": "respond-async"})
    for client in (stranger, bob, ada):
        platform.ok("POST", f"/workspaces/{client.workspace_id}/pause")
    token = ada.load_token() or ""
    with stream(platform, f"/events/stream?since={start}", token) as told:
        mine = [(one.event, one.data["workspace_id"]) for one in told.until("MESSAGE_ACCEPTED")]
        while ("WORKSPACE_PAUSED", ada.workspace_id) not in mine:
            mine += [(one.event, one.data["workspace_id"]) for one in told.until("WORKSPACE_PAUSED")]
    assert mine == [
        ("MESSAGE_ACCEPTED", ada.workspace_id),
        ("WORKSPACE_PAUSED", bob.workspace_id),
        ("WORKSPACE_PAUSED", ada.workspace_id),
    ]
    with stream(platform, f"/workspaces/{ada.workspace_id}/events/stream?since={start}", token) as told:
        events = [one.event for one in told.until("WORKSPACE_PAUSED")]
    assert events == ["MESSAGE_ACCEPTED", "WORKSPACE_PAUSED"]


@pytest.mark.usefixtures("still_limits")
def test_whoever_guesses_tokens_at_the_socket_is_soon_sent_away(configured: Start) -> None:
    platform = configured(RATE_LIMIT_ANON=60)
    codes: list[int | None] = []
    for number in range(6):
        with listen(platform, token=f"guess-{number}") as socket:
            codes.append(closing_code(socket))
    assert (codes[0], codes[-1]) == (4001, 4003)


def signed_in(platform: Platform) -> tuple[requests.Session, dict[str, str]]:
    browser = requests.Session()
    body = {"token": platform.org_token()}
    signed = browser.post(f"{platform.url}/auth/login", json=body, timeout=30).json()
    return browser, {"X-CSRF-Token": signed["csrf_token"], "Origin": platform.url}


def test_a_browser_opens_a_socket_with_a_ticket_and_loses_it_when_it_signs_out(platform: Platform) -> None:
    browser, headers = signed_in(platform)
    minted = browser.post(f"{platform.url}/auth/ticket", json={}, headers=headers, timeout=30)
    assert minted.status_code == 201
    address = f"{platform.url.replace('http', 'ws')}/ws?ticket={minted.json()['ticket']}"
    with connect(address) as socket:
        platform.join("a")
        assert frames(socket, "WORKSPACE_ONLINE")
        browser.post(f"{platform.url}/auth/logout", headers=headers, timeout=30)
        assert closing_code(socket) == 4009
    with connect(address) as socket:
        assert closing_code(socket) == 4001


def test_a_revoked_token_closes_its_socket_and_its_stream_before_their_next_sign_of_life(
    platform: Platform,
) -> None:
    made = platform.ok("POST", "/org/tokens", json={"name": "watcher", "scopes": ["org.read"]})
    token = made["auth_token"]
    with listen(platform, token=token) as socket, stream(platform, token=token) as told:
        began = time.monotonic()
        platform.ok("DELETE", f"/org/tokens/{made['id']}")
        assert closing_code(socket) == 4009
        assert told.ends()
        assert time.monotonic() - began < sse.KEEP_ALIVE_SECONDS - 3
