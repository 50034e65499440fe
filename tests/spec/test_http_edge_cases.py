"""What the contract says in half-sentences, and clients rely on."""

from typing import Any
from uuid import uuid4

import pytest

from tests.spec.platforms import Platform


def agent(platform: Platform, name: str = "Ada", **fields: Any) -> tuple[str, str]:
    made = platform.create(name, **fields)
    token = made["connection"]["auth_token"]
    platform.ok("POST", "/registry/register", token, json={"id": made["id"], "agent_card": {"name": name}})
    return made["id"], token


def explained(platform: Platform, caller: str, target: str) -> dict[str, Any]:
    return platform.ok("GET", f"/access/explain?caller={caller}&target={target}")


def test_an_explanation_for_a_person_or_a_token_agrees_with_the_gate(platform: Platform) -> None:
    ada, _ = agent(platform)
    for user, role in (("viv", "viewer"), ("mia", "member")):
        platform.ok("POST", "/auth/login-codes", json={"user": user, "role": role})
    sender = platform.ok("POST", "/org/tokens", json={"name": "ci", "scopes": ["org.send"]})
    reader = platform.ok("POST", "/org/tokens", json={"name": "ro", "scopes": ["org.read"]})
    allowed = {
        "user:mia": True,
        "user:viv": False,
        "user:nobody": False,
        f"org-token:{sender['id']}": True,
        f"org-token:{reader['id']}": False,
        f"org-token:{uuid4()}": False,
    }
    assert {who: explained(platform, who, ada)["allowed"] for who in allowed} == allowed
    assert platform.send(ada, "hi", reader["auth_token"]).status_code == 403
    assert explained(platform, "user:nobody", ada)["caller"]["name"] == "unknown"


@pytest.mark.parametrize(
    ("path", "body"),
    [("notify", {"message": "m"}), ("activity", {"activity_type": "agent_log", "summary": "s"})],
)
def test_telling_something_twice_under_one_key_tells_it_once(
    platform: Platform, path: str, body: dict[str, Any]
) -> None:
    ada, token = agent(platform)
    key = {"Idempotency-Key": "once"}
    answers = [
        platform.call("POST", f"/workspaces/{ada}/{path}", token, json=body, headers=key) for _ in range(2)
    ]
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["Idempotency-Replayed"] == "true"
    assert len(platform.ok("GET", f"/workspaces/{ada}/activity")) == 1


def test_a_sick_runtime_says_what_it_suffers_from(platform: Platform) -> None:
    ada, token = agent(platform)
    beat = {"workspace_id": ada, "runtime_state": "wedged"}
    platform.ok("POST", "/registry/heartbeat", token, json=beat)
    row = platform.ok("GET", f"/workspaces/{ada}")
    assert (row["status"], row["status_reason"]) == ("degraded", "the runtime says that it is wedged")
    [event] = platform.ok("GET", f"/events/{ada}?type=WORKSPACE_DEGRADED")
    assert event["payload"]["runtime_state"] == "wedged"
    platform.ok("POST", "/registry/heartbeat", token, json={"workspace_id": ada})
    assert platform.ok("GET", f"/workspaces/{ada}")["status_reason"] == ""


def test_only_a_heartbeat_that_speaks_of_it_ends_the_need_for_a_restart(platform: Platform) -> None:
    ada, token = agent(platform)

    def after(**metadata: Any) -> bool:
        body = {"workspace_id": ada, **metadata}
        platform.ok("POST", "/registry/heartbeat", token, json=body)
        return platform.ok("GET", f"/workspaces/{ada}/state")["needs_restart"]

    assert after(runtime_metadata={"restart_required": True})
    assert after()
    assert not after(runtime_metadata={"restart_required": False})


def test_the_history_of_a_removed_workspace_stays_readable_for_operators(platform: Platform) -> None:
    ada, _ = agent(platform)
    platform.ok("DELETE", f"/workspaces/{ada}")
    kinds = [event["event_type"] for event in platform.ok("GET", f"/events/{ada}")]
    assert kinds[0] == "WORKSPACE_REMOVED"
    assert platform.ok("GET", f"/workspaces/{ada}/activity") == []


def test_an_attachment_has_an_address_and_a_name(platform: Platform) -> None:
    ada, token = agent(platform)
    path = f"/workspaces/{ada}/notify"
    half = platform.call("POST", path, token, json={"message": "m", "attachments": [{"uri": "x"}]})
    assert (half.status_code, half.json()["code"]) == (400, "invalid-request")
    whole = {"uri": "x", "name": "x.png", "mimeType": "image/png", "size": 3}
    platform.ok("POST", path, token, json={"message": "m", "attachments": [whole]})
    [event] = platform.ok("GET", f"/events/{ada}?type=AGENT_MESSAGE")
    assert event["payload"]["attachments"] == [whole]


@pytest.mark.unheld
def test_an_id_in_a_query_is_read_like_one_in_a_path(platform: Platform) -> None:
    ada, token = agent(platform)
    bob, bob_token = agent(platform, "Bob")
    platform.send(ada, "hi", bob_token)
    rows = platform.ok("GET", f"/workspaces/{ada}/activity?peer_id={bob.upper()}", token)
    assert len(rows) == 1
    wrong = platform.call("GET", f"/workspaces/{ada}/activity?peer_id=zz", token)
    assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid-id")


def test_the_case_of_a_scheme_makes_no_difference(platform: Platform) -> None:
    made = platform.create("Ada")
    token = made["connection"]["auth_token"]
    for url, mode in (("REMOTE://x", "poll"), ("HTTP://127.0.0.1:7/", "push")):
        body = {"id": made["id"], "url": url, "agent_card": {"name": "Ada"}}
        assert platform.ok("POST", "/registry/register", token, json=body)["delivery_mode"] == mode


def test_a_peer_does_not_learn_of_another_s_tokens_or_address(platform: Platform) -> None:
    ada, _ = agent(platform)
    _, bob_token = agent(platform, "Bob")
    platform.ok("POST", f"/workspaces/{ada}/tokens", json={"name": "second"})
    platform.ok("POST", f"/workspaces/{ada}/pause")
    seen = platform.call("GET", "/events/stream?since=0", bob_token, stream=True)
    told: list[str] = []
    for line in seen.iter_lines(chunk_size=None, decode_unicode=True):
        told.append(line)
        if line == "event: WORKSPACE_PAUSED":
            break
    seen.close()
    assert "event: WORKSPACE_ONLINE" in told
    assert not [line for line in told if "TOKEN_CREATED" in line]


def test_a_large_card_is_kept_and_its_event_is_small(platform: Platform) -> None:
    ada, token = agent(platform)
    card = {"name": "Ada", "description": "x" * 100_000}
    for _ in range(2):
        platform.ok("POST", "/registry/update-card", token, json={"workspace_id": ada, "agent_card": card})
    [event] = platform.ok("GET", f"/events/{ada}?type=AGENT_CARD_UPDATED")
    assert event["payload"] == {"agent_card": None}
    assert platform.ok("GET", f"/workspaces/{ada}")["agent_card"] == card


def test_the_administrator_mints_a_token_for_the_organisation_that_is_named(platform: Platform) -> None:
    other = platform.ok("POST", "/orgs", json={"name": f"Second {uuid4()}"})
    for named in (other["id"], other["slug"]):
        minted = platform.ok("POST", "/org/tokens", json={"name": "t", "org_id": named})
        session = platform.ok("GET", "/auth/session", minted["auth_token"])
        assert session["org_id"] == other["id"]
    own = platform.ok("POST", "/org/tokens", json={"name": "own", "scopes": ["org"]})["auth_token"]
    body = {"name": "t", "org_id": other["id"], "scopes": ["org.read"]}
    assert platform.call("POST", "/org/tokens", own, json=body).status_code == 404


def test_an_agent_whose_token_ended_with_its_workspace_is_told_so_and_what_to_do(
    platform: Platform,
) -> None:
    ada, token = agent(platform)
    platform.ok("DELETE", f"/workspaces/{ada}")
    gone = platform.call("POST", "/registry/heartbeat", token, json={"workspace_id": ada})
    assert (gone.status_code, gone.json()["id"]) == (410, ada)
    assert gone.json()["removed_at"]
    assert "create a new workspace" in gone.json()["hint"]
    other = platform.call("GET", "/auth/session", token)
    assert (other.status_code, "removed" in other.json()) == (401, False)


def test_a_conflict_of_keys_names_what_the_first_request_made(platform: Platform) -> None:
    key = {"Idempotency-Key": "k"}
    made = platform.ok("POST", "/workspaces", json={"name": "a", "external": True}, headers=key)
    other = platform.call("POST", "/workspaces", json={"name": "b", "external": True}, headers=key)
    assert (other.status_code, other.json()["existing_id"]) == (409, made["id"])


def test_who_shows_no_credential_is_asked_for_one_before_anything_else(platform: Platform) -> None:
    assert platform.call("GET", "/workspaces/zz", "").status_code == 401
    assert platform.call("GET", "/workspaces/zz").json()["code"] == "invalid-id"
    assert platform.call("GET", "/workspaces/zz/state", "").status_code == 404


def test_an_agent_without_a_credential_cannot_call_itself_something_else(platform: Platform) -> None:
    second = platform.ok("POST", "/orgs", json={"name": f"Second {uuid4()}"})["slug"]
    made = platform.create("Ada")
    body = {"id": made["id"], "agent_card": {"name": "Ada"}}

    def registered(**headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return platform.call("POST", "/registry/register", "", json=body, headers=named).status_code

    assert registered(X_Workspace_ID="system:scheduler") == 403
    assert registered(X_Workspace_ID=str(uuid4())) == 403
    assert registered(X_Molecule_Org_Id=second) == 404
    assert registered(X_Molecule_Org_Id=platform.org, X_Workspace_ID=made["id"].upper()) == 200


def test_the_socket_s_address_says_what_it_is(platform: Platform) -> None:
    answer = platform.call("GET", "/ws")
    assert (answer.status_code, "WebSocket" in answer.json()["error"]) == (400, True)


def test_each_removal_says_how_many_went_with_it_and_a_purge_says_no_more(platform: Platform) -> None:
    lead = platform.create("lead")["id"]
    team = platform.create("team", lead)["id"]
    member = platform.create("member", team)["id"]
    platform.ok("DELETE", f"/workspaces/{lead}?confirm=true&purge=true")
    events = platform.ok("GET", "/events?type=WORKSPACE_REMOVED")
    told = {event["workspace_id"]: event["payload"] for event in events}
    assert told == {
        lead: {"cascade_deleted": 2},
        team: {"cascade_deleted": 1},
        member: {"cascade_deleted": 0},
    }


def test_a_paused_agent_is_not_asked_to_restart(platform: Platform) -> None:
    lead, _ = agent(platform, "lead")
    child, _ = agent(platform, "child", parent=lead)
    platform.ok("POST", f"/workspaces/{lead}/pause")
    codes = [platform.call("POST", f"/workspaces/{one}/restart").json()["code"] for one in (lead, child)]
    assert codes == ["conflict", "conflict"]


def test_a_tree_is_not_deeper_than_the_rule_can_see(platform: Platform) -> None:
    line = [platform.create("root")["id"]]
    for _ in range(32):
        line.append(platform.create("below", line[-1])["id"])
    assert explained(platform, line[0], line[-1])["allowed"]
    deeper = platform.call("POST", "/workspaces", json={"name": "x", "external": True, "parent_id": line[-1]})
    assert (deeper.status_code, deeper.json()["field"]) == (400, "parent_id")
    other = platform.create("other")["id"]
    moved = platform.call("PATCH", f"/workspaces/{line[0]}", json={"parent_id": other})
    assert (moved.status_code, moved.json()["field"]) == (400, "parent_id")
