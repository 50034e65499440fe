"""An agent joins: claim, token on disk, lost tokens, and the original client's way."""

import stat

import pytest

from molecule_agent import errors
from tests.spec.platforms import Platform, Start


def test_an_admin_creates_a_workspace_and_its_agent_claims_it(platform: Platform) -> None:
    created = platform.create("docs-bot")
    assert created["status"] == "awaiting_agent"
    assert created["external"] is True
    assert len(created["connection"]["auth_token"]) == 43
    client = platform.client(created["id"])
    token = client.register()
    assert len(token) == 43
    assert stat.S_IMODE(client.token_file.stat().st_mode) == 0o600
    row = platform.ok("GET", f"/workspaces/{created['id']}")
    assert (row["status"], row["delivery_mode"], row["role"]) == ("online", "poll", "")


def test_registering_without_a_token_mints_one_with_a_recovery_secret(platform: Platform) -> None:
    created = platform.create("a")
    body = {"id": created["id"], "url": "remote://no-inbound", "agent_card": {"name": "a"}}
    answer = platform.ok("POST", "/registry/register", token="", json=body)
    assert answer["status"] == "registered"
    assert len(answer["auth_token"]) == 43
    assert len(answer["recovery_secret"]) == 43
    assert answer["delivery_mode"] == "poll"


def test_registering_again_without_a_token_changes_nothing(platform: Platform) -> None:
    client = platform.join("a")
    body = {"id": client.workspace_id, "url": "http://127.0.0.1:9/", "agent_card": {"name": "other"}}
    answer = platform.ok("POST", "/registry/register", token="", json=body)
    assert answer == {
        "status": "registered",
        "applied": False,
        "workspace_id": client.workspace_id,
        "delivery_mode": "poll",
    }
    assert platform.ok("GET", f"/workspaces/{client.workspace_id}")["agent_card"]["name"] == "a"
    assert client.poll_state().status == "online"


def test_a_restarted_agent_keeps_its_token(platform: Platform) -> None:
    client = platform.join("a")
    again = platform.client(client.workspace_id, agent_card={"name": "renamed"})
    assert again.register() == client.load_token()
    assert platform.ok("GET", f"/workspaces/{client.workspace_id}")["agent_card"]["name"] == "renamed"


def test_another_machine_gets_no_token_of_a_claimed_workspace(platform: Platform) -> None:
    client = platform.join("a")
    stranger = platform.client(client.workspace_id, home="elsewhere")
    assert stranger.register() == ""
    with pytest.raises(errors.AuthenticationError):
        stranger.heartbeat()


def test_strict_platforms_refuse_it(configured: Start) -> None:
    platform = configured(MOLECULE_STRICT_REGISTER="true")
    client = platform.join("a")
    body = {"id": client.workspace_id, "agent_card": {"name": "a"}}
    assert platform.call("POST", "/registry/register", token="", json=body).status_code == 401


def test_the_token_of_the_connection_brings_the_agent_online_by_a_heartbeat_alone(platform: Platform) -> None:
    created = platform.create("a")
    client = platform.client(created["id"])
    client.save_token(created["connection"]["auth_token"])
    client.heartbeat()
    row = platform.ok("GET", f"/workspaces/{created['id']}")
    assert (row["status"], row["delivery_mode"]) == ("online", "poll")
    stranger = platform.client(created["id"], home="elsewhere")
    assert stranger.register() == ""


def test_a_lost_token_is_recovered_and_the_old_one_ends(platform: Platform) -> None:
    client = platform.join("a")
    old = client.load_token()
    client.token_file.unlink()
    again = platform.client(client.workspace_id)
    new = again.register()
    assert new not in ("", old)
    beat = {"workspace_id": client.workspace_id}
    assert (
        platform.call("POST", "/registry/heartbeat", token=old, json=beat).json()["code"] == "token-revoked"
    )


def test_an_enrolment_token_lets_a_new_machine_in_once(platform: Platform) -> None:
    client = platform.join("a")
    answer = platform.ok("POST", f"/workspaces/{client.workspace_id}/enrolment-tokens", json={})
    new = platform.client(client.workspace_id, home="new", enrolment_token=answer["enrolment_token"])
    assert len(new.register()) == 43
    third = platform.client(client.workspace_id, home="third", enrolment_token=answer["enrolment_token"])
    with pytest.raises(errors.EnrolmentError):
        third.register()


def test_the_claim_window_closes(configured: Start) -> None:
    platform = configured(MOLECULE_CLAIM_ON_REGISTER="false")
    created = platform.create("a")
    body = {"id": created["id"], "agent_card": {"name": "a"}}
    answer = platform.call("POST", "/registry/register", token="", json=body)
    assert answer.status_code == 401
    assert "molecule workspace enrol" in answer.json()["error"]


def test_an_unknown_id_is_not_found_and_a_removed_one_is_gone(platform: Platform) -> None:
    unknown = {"id": "00000000-0000-4000-8000-000000000000", "agent_card": {"name": "a"}}
    assert platform.call("POST", "/registry/register", token="", json=unknown).status_code == 404
    client = platform.join("a")
    platform.ok("DELETE", f"/workspaces/{client.workspace_id}")
    gone = {"id": client.workspace_id, "agent_card": {"name": "a"}}
    answer = platform.call("POST", "/registry/register", token="", json=gone)
    assert (answer.status_code, answer.json()["code"]) == (410, "workspace-removed")


@pytest.mark.parametrize(
    "url", ["ftp://x/", "http://169.254.169.254/", "http://user:pw@127.0.0.1/", "nonsense"]
)
def test_an_address_that_the_guard_refuses_is_an_invalid_url(platform: Platform, url: str) -> None:
    client = platform.join("a")
    body = {"id": client.workspace_id, "url": url, "agent_card": {"name": "a"}}
    answer = platform.call("POST", "/registry/register", token=client.load_token(), json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-url")
