"""The live record: what happens reaches every listener once, and can be replayed."""

import json
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.spec.house import Platform


def listen(platform: Platform, query: str = "", token: str | None = None) -> ClientConnection:
    headers = {"Authorization": f"Bearer {token or platform.admin_token}"}
    return connect(platform.url.replace("http", "ws") + f"/ws{query}", additional_headers=headers)


def frames(socket: ClientConnection, until: str) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    while not seen or seen[-1]["event"] != until:
        seen.append(json.loads(socket.recv(timeout=10)))
    return [frame for frame in seen if "id" in frame]


def test_status_changes_arrive_live_and_in_order(platform: Platform) -> None:
    with listen(platform) as socket:
        client = platform.join("a")
        platform.ok("POST", f"/workspaces/{client.workspace_id}/pause")
        seen = frames(socket, "WORKSPACE_PAUSED")
    assert [frame["event"] for frame in seen] == [
        "WORKSPACE_AWAITING_AGENT",
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
    with connect(platform.url.replace("http", "ws") + "/ws") as socket:
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=5)
        assert socket.close_code == 4001
