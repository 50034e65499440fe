"""A platform that closed and opened again goes on where it was."""

import pytest

from molecule_wire.a2a import text
from tests.spec.platforms import Platform, Start
from tests.spec.scripted_agent import ScriptedAgent, join_push

pytestmark = pytest.mark.both_engines

AT_ONCE = {"Prefer": "respond-async"}


@pytest.fixture
def platform(restarting: Start) -> Platform:
    """The first life of the platform."""
    return restarting(MOLECULE_A2A_HOLD_SECONDS=1)


def test_credentials_and_the_tree_outlive_a_restart(platform: Platform, restarting: Start) -> None:
    lead = platform.join("lead")
    child = platform.join("child", lead.workspace_id, secrets={"K": "v"})
    before = platform.ok("GET", "/workspaces")
    platform.stop()
    again = restarting()
    assert again.admin_token == platform.admin_token
    agent = again.client(child.workspace_id)
    assert agent.load_token() == child.load_token()
    agent.heartbeat()
    assert agent.pull_secrets() == {"K": "v"}
    assert [peer.name for peer in agent.get_peers()] == ["lead"]
    after = again.ok("GET", "/workspaces")
    assert [(row["id"], row["status"]) for row in after] == [(row["id"], row["status"]) for row in before]


def test_a_waiting_message_is_answered_after_a_restart(platform: Platform, restarting: Start) -> None:
    client = platform.join("a")
    sent = platform.send(client.workspace_id, "hello", headers=AT_ONCE).json()
    platform.stop()
    again = restarting()
    assert again.ok("GET", f"/messages/{sent['message_id']}")["status"] == "accepted"
    agent = again.client(client.workspace_id)
    received = agent.fetch_inbound(wait=5)
    assert [message.text for message in received] == ["hello"]
    agent.reply(received[0], "still here")
    ended = again.ok("GET", f"/messages/{sent['message_id']}?wait=20")
    assert (ended["status"], text.text_of(ended["result"])) == ("answered", "still here")


def test_a_lease_taken_before_a_restart_can_be_answered_after_it(
    platform: Platform, restarting: Start
) -> None:
    client = platform.join("a")
    mid = platform.send(client.workspace_id, "hello", headers=AT_ONCE).json()["message_id"]
    inbox = f"/workspaces/{client.workspace_id}/inbox"
    lease = platform.ok("POST", f"{inbox}/lease", token=client.load_token(), json={})["messages"][0]["lease"]
    platform.stop()
    again = restarting()
    answer = {"lease_token": lease["token"], "text": "done"}
    again.ok("POST", f"{inbox}/{mid}/answer", token=client.load_token(), json=answer)
    assert again.ok("GET", f"/messages/{mid}")["status"] == "answered"


def test_what_was_on_its_way_to_an_agent_is_carried_again_after_a_restart(
    platform: Platform, restarting: Start, agent: ScriptedAgent
) -> None:
    client = join_push(platform, agent)
    busy = agent.keep_busy()
    sent = platform.send(client.workspace_id, "hello", headers=AT_ONCE).json()
    assert busy.arrived.wait(30)
    platform.stop()
    busy.leave.set()
    again = restarting()
    ended = again.ok("GET", f"/messages/{sent['message_id']}?wait=20")
    assert (ended["status"], text.text_of(ended["result"])) == ("answered", "re: hello")
    ids = [headers["X-Molecule-Message-Id"] for headers, _ in agent.received]
    assert ids == [sent["message_id"]] * 2


def test_events_go_on_counting_after_a_restart(platform: Platform, restarting: Start) -> None:
    client = platform.join("a")
    before = [row["id"] for row in platform.ok("GET", "/events?since=0")]
    platform.stop()
    again = restarting()
    again.ok("POST", f"/workspaces/{client.workspace_id}/pause")
    after = [row["id"] for row in again.ok("GET", "/events?since=0")]
    assert after[: len(before)] == before
    assert len(after) == len(set(after)) > len(before)
