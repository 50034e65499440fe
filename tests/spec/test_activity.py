"""The activity log over HTTP: what agents log, how it is filtered, and a cursor that was lost (T7)."""

import json
from typing import Any

import pytest

from molecule_agent import RemoteAgentClient
from tests.spec.platforms import Platform
from tests.spec.streams import listen

pytestmark = pytest.mark.both_engines


def log(platform: Platform, agent: RemoteAgentClient, **body: Any) -> Any:
    return platform.call("POST", f"/workspaces/{agent.workspace_id}/activity", agent.load_token(), json=body)


def rows(
    platform: Platform, agent: RemoteAgentClient, query: str = "", own: bool = False
) -> list[dict[str, Any]]:
    token = agent.load_token() if own else None
    return platform.ok("GET", f"/workspaces/{agent.workspace_id}/activity?{query}", token)


def test_an_agent_logs_what_it_did_and_operators_read_it(platform: Platform) -> None:
    agent = platform.join("a")
    done = log(
        platform,
        agent,
        activity_type="skill_promotion",
        method="promote",
        summary="learned to count",
        target_id="t",
        source_id=agent.workspace_id,
        duration_ms=12,
        request_body={"api_key": "hush", "path": "/srv/ada/notes.txt"},
        response_body="fine",
        metadata={"a": 1},
        another="ignored",
    )
    assert (done.status_code, done.json()["status"]) == (200, "logged")
    [row] = rows(platform, agent)
    assert row["id"] == done.json()["id"]
    assert (row["type"], row["activity_type"], row["method"]) == (
        "skill_promotion",
        "skill_promotion",
        "promote",
    )
    assert row["request_body"] == {"api_key": "[REDACTED:API_KEY]", "path": "/srv/ada/notes.txt"}
    assert (row["response_body"], row["duration_ms"], row["status"]) == ("fine", 12, "ok")
    assert row["ts"] == row["created_at"]


def test_what_an_agent_logs_is_shown_live(platform: Platform) -> None:
    agent = platform.join("a")
    with listen(platform) as socket:
        log(platform, agent, activity_type="task_update", summary="half done")
        frame = json.loads(socket.recv(timeout=30))
        while frame["event"] != "ACTIVITY_LOGGED":
            frame = json.loads(socket.recv(timeout=30))
    assert "id" not in frame
    assert frame["payload"]["summary"] == "half done"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"activity_type": "gossip"}, 400, "invalid-request"),
        ({}, 400, "invalid-request"),
        ({"activity_type": "error", "source_id": "another"}, 403, "identity-mismatch"),
        ({"activity_type": "error", "duration_ms": "long"}, 400, "invalid-request"),
    ],
)
def test_what_breaks_a_rule_is_refused(
    platform: Platform, body: dict[str, Any], status: int, code: str
) -> None:
    agent = platform.join("a")
    answer = log(platform, agent, **body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_only_the_agent_itself_logs(platform: Platform) -> None:
    agent, other = platform.join("a"), platform.join("b")
    path, body = f"/workspaces/{agent.workspace_id}/activity", {"activity_type": "agent_log"}
    for token, status in (("", 401), (None, 403), (other.load_token(), 403)):
        assert platform.call("POST", path, token, json=body).status_code == status


@pytest.mark.unheld
def test_what_an_agent_logs_as_received_is_never_delivered_to_it(platform: Platform) -> None:
    agent = platform.join("a")
    first = log(platform, agent, activity_type="a2a_receive", summary="myself").json()["id"]
    platform.send(agent.workspace_id, "real", timeout=30)
    for query in ("type=a2a_receive", f"type=a2a_receive&since_id={first}"):
        assert [row["data"]["text"] for row in rows(platform, agent, query, own=True)] == ["real"]
    assert [row["summary"] for row in rows(platform, agent, "type=a2a_receive")] == ["real", "myself"]


@pytest.mark.unheld
def test_the_filters_narrow_the_log(platform: Platform) -> None:
    agent, peer = platform.join("a"), platform.join("b")
    platform.send(agent.workspace_id, "from a person")
    platform.send(agent.workspace_id, "from a peer", token=peer.load_token())
    newest, oldest = rows(platform, agent)
    assert [newest["summary"], oldest["summary"]] == ["from a peer", "from a person"]
    shown = {
        query: [row["summary"] for row in rows(platform, agent, query)]
        for query in (
            "limit=1",
            "source=canvas",
            "source=agent",
            f"peer_id={peer.workspace_id}",
            f"since_id={oldest['id']}",
            f"before_ts={newest['ts']}",
            "since_secs=3600",
            "type=agent_log",
        )
    }
    assert list(shown.values()) == [
        ["from a peer"],
        ["from a person"],
        ["from a peer"],
        ["from a peer"],
        ["from a peer"],
        ["from a person"],
        ["from a peer", "from a person"],
        [],
    ]
    for query in ("source=nobody", "before_ts=yesterday", "limit=many"):
        path = f"/workspaces/{agent.workspace_id}/activity?{query}"
        assert platform.call("GET", path).status_code == 400


@pytest.mark.unheld
def test_a_lost_cursor_is_said_and_reading_without_one_goes_on(platform: Platform) -> None:
    agent = platform.join("a")
    for word in ("one", "two"):
        platform.send(agent.workspace_id, word)
    path = f"/workspaces/{agent.workspace_id}/activity"
    lost = platform.call(
        "GET", f"{path}?type=a2a_receive&since_id=018f0000-0000-7000-8000-000000000000", agent.load_token()
    )
    assert (lost.status_code, lost.json()["code"]) == (410, "cursor-lost")
    again = rows(platform, agent, "type=a2a_receive", own=True)
    assert [row["data"]["text"] for row in again] == ["one", "two"]
    assert lost.json()["oldest_id"] == again[0]["id"]
