"""The operator's hand: pause, resume and delete, and how agents learn of it."""

import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from molecule_agent import RemoteAgentClient
from molecule_platform.services.maintenance import sweeps
from tests.spec.platforms import Platform, Start


class Looping(NamedTuple):
    """An agent in its heartbeat loop, and what the loop returns in the end."""

    client: RemoteAgentClient
    thread: threading.Thread
    outcome: list[str]


def run_loop(client: RemoteAgentClient, outcome: list[str]) -> None:
    outcome.append(client.run_heartbeat_loop(max_iterations=2000))


@pytest.fixture
def looping(platform: Platform) -> Iterator[Looping]:
    """An agent in its heartbeat loop, and what the loop returns in the end."""
    client = platform.join("a")
    client.heartbeat_interval = client.state_poll_interval = 0.05
    outcome: list[str] = []
    thread = threading.Thread(target=run_loop, args=(client, outcome))
    thread.start()
    yield Looping(client, thread, outcome)
    client.stop()
    thread.join(30)


def test_a_pause_ends_the_loop_of_the_agent(platform: Platform, looping: Looping) -> None:
    client, thread, outcome = looping
    assert platform.ok("POST", f"/workspaces/{client.workspace_id}/pause") == {
        "status": "paused",
        "paused_count": 1,
    }
    thread.join(30)
    assert outcome == ["paused"]


def test_a_removal_ends_the_loop_of_the_agent(platform: Platform, looping: Looping) -> None:
    client, thread, outcome = looping
    platform.ok("DELETE", f"/workspaces/{client.workspace_id}")
    thread.join(30)
    assert outcome == ["removed"]


def test_neither_heartbeat_nor_register_undoes_a_pause(platform: Platform) -> None:
    client = platform.join("a")
    platform.ok("POST", f"/workspaces/{client.workspace_id}/pause")
    client.heartbeat()
    client.register()
    state = client.poll_state()
    assert (state.status, state.paused, state.deleted) == ("paused", True, False)


def test_a_workspace_cannot_resume_itself(platform: Platform) -> None:
    client = platform.join("a")
    platform.ok("POST", f"/workspaces/{client.workspace_id}/pause", token=client.load_token())
    answer = platform.call("POST", f"/workspaces/{client.workspace_id}/resume", token=client.load_token())
    assert answer.status_code == 403
    resumed = platform.ok("POST", f"/workspaces/{client.workspace_id}/resume")
    assert resumed == {"status": "awaiting_agent", "resumed_count": 1}
    client.heartbeat()
    assert client.poll_state().status == "online"


def test_pausing_a_parent_pauses_everything_below(platform: Platform) -> None:
    lead = platform.join("lead")
    child = platform.join("child", lead.workspace_id)
    assert platform.ok("POST", f"/workspaces/{lead.workspace_id}/pause")["paused_count"] == 2
    assert child.poll_state().paused
    answer = platform.call("POST", f"/workspaces/{child.workspace_id}/resume")
    assert (answer.status_code, answer.json()["code"]) == (409, "parent-paused")
    assert platform.ok("POST", f"/workspaces/{lead.workspace_id}/resume")["resumed_count"] == 2


def test_deleting_a_parent_asks_first_and_says_what_it_takes_along(platform: Platform) -> None:
    lead = platform.join("lead")
    child = platform.join("child", lead.workspace_id)
    answer = platform.call("DELETE", f"/workspaces/{lead.workspace_id}")
    body = answer.json()
    assert answer.status_code == 409
    assert body["status"] == "confirmation_required"
    assert body["children"] == [{"id": child.workspace_id, "name": "child"}]
    done = platform.ok("DELETE", f"/workspaces/{lead.workspace_id}?confirm=true")
    assert done == {"status": "removed", "cascade_deleted": 1}
    assert platform.call("GET", f"/workspaces/{child.workspace_id}").status_code == 410


def test_state_tells_a_removed_agent_so_although_its_token_is_revoked(platform: Platform) -> None:
    client = platform.join("a")
    token = client.load_token()
    platform.ok("DELETE", f"/workspaces/{client.workspace_id}")
    answer = platform.call("GET", f"/workspaces/{client.workspace_id}/state", token=token)
    assert answer.status_code == 404
    assert answer.json()["deleted"] is True
    assert answer.json()["status"] == "removed"
    assert client.poll_state().deleted
    beat = {"workspace_id": client.workspace_id}
    assert platform.call("POST", "/registry/heartbeat", token=token, json=beat).status_code == 410


def test_a_purged_workspace_is_a_tombstone_that_still_answers_its_agent(platform: Platform) -> None:
    lead = platform.join("lead")
    child = platform.join("child", lead.workspace_id)
    platform.send(child.workspace_id, "a word", headers={"Prefer": "respond-async"})
    path = f"/workspaces/{lead.workspace_id}"
    assert platform.call("DELETE", f"{path}?purge=true").status_code == 409
    assert platform.ok("DELETE", f"{path}?purge=true&confirm=true") == {
        "status": "purged",
        "cascade_deleted": 1,
    }
    for client in (lead, child):
        assert client.poll_state().deleted
        beat = {"workspace_id": client.workspace_id}
        answer = platform.call("POST", "/registry/heartbeat", token=client.load_token(), json=beat)
        assert (answer.status_code, answer.json()["code"]) == (410, "workspace-removed")
    stone = platform.ok("GET", f"{path}?include_removed=true")
    assert (stone["id"], stone["status"], stone["name"]) == (lead.workspace_id, "removed", "")


def test_a_removed_workspace_is_shown_to_operators_who_ask_for_it_and_can_still_be_purged(
    platform: Platform,
) -> None:
    peer = platform.join("peer")
    gone = platform.create("gone")["id"]
    platform.ok("DELETE", f"/workspaces/{gone}")
    assert platform.call("GET", f"/workspaces/{gone}").status_code == 410
    assert platform.call("DELETE", f"/workspaces/{gone}").status_code == 410
    answer = platform.call("GET", f"/workspaces/{gone}?include_removed=true", token=peer.load_token())
    assert answer.status_code == 410
    assert platform.ok("GET", f"/workspaces/{gone}?include_removed=true")["name"] == "gone"
    assert platform.ok("DELETE", f"/workspaces/{gone}?purge=true")["status"] == "purged"
    assert platform.ok("GET", f"/workspaces/{gone}?include_removed=true")["name"] == ""


def test_a_silent_agent_goes_offline(configured: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "LIVENESS_SECONDS", 0.5)
    platform = configured(REMOTE_LIVENESS_STALE_AFTER=1)
    client = platform.join("a")
    client.heartbeat()
    path = f"/workspaces/{client.workspace_id}"
    until = time.monotonic() + 30
    while (row := platform.ok("GET", path))["status"] != "offline":
        assert time.monotonic() < until
        time.sleep(0.1)
    assert row["status_reason"] == "no heartbeat"
    client.heartbeat()
    while client.poll_state().status != "online":
        # It was silent for a second again before it was looked at.
        assert time.monotonic() < until
        client.heartbeat()


def test_a_workspace_is_shown_with_the_newest_sign_of_life(platform: Platform) -> None:
    client = platform.join("alive")
    path = f"/workspaces/{client.workspace_id}"
    platform.send(client.workspace_id, "hello", headers={"Prefer": "respond-async"})
    before = platform.ok("GET", path)["uptime_seconds"]
    beat = {"workspace_id": client.workspace_id, "uptime_seconds": before + 7}
    for _ in range(2):
        platform.ok("POST", "/registry/heartbeat", token=client.load_token(), json=beat)
    until = time.monotonic() + 30
    while platform.ok("GET", path)["uptime_seconds"] != before + 7:
        assert time.monotonic() < until
        time.sleep(0.05)
