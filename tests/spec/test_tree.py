"""The tree is the firewall: whom an agent sees and may call."""

from typing import NamedTuple

import pytest

from molecule_agent import RemoteAgentClient, errors
from tests.spec.platforms import Platform


class Family(NamedTuple):
    """A lead with two children, and a stranger below another root."""

    lead: RemoteAgentClient
    researcher: RemoteAgentClient
    writer: RemoteAgentClient
    stranger: RemoteAgentClient


@pytest.fixture
def family(platform: Platform) -> Family:
    lead = platform.join("lead")
    researcher = platform.join("researcher", lead.workspace_id)
    writer = platform.join("writer", lead.workspace_id, role="writes")
    other = platform.join("other")
    stranger = platform.join("stranger", other.workspace_id)
    return Family(lead, researcher, writer, stranger)


def test_peers_are_exactly_those_the_tree_allows(platform: Platform, family: Family) -> None:
    lead, researcher, writer, stranger = family
    assert {peer.name for peer in researcher.get_peers()} == {"lead", "writer"}
    assert {peer.name for peer in lead.get_peers()} == {"researcher", "writer", "other"}
    assert {peer.name for peer in stranger.get_peers()} == {"other"}
    assert writer.workspace_id in {peer.id for peer in researcher.get_peers()}


def test_peer_rows_have_the_shape_that_clients_rely_on(platform: Platform, family: Family) -> None:
    _lead, researcher, _writer, _stranger = family
    rows = platform.ok("GET", f"/registry/{researcher.workspace_id}/peers?q=LEAD")
    assert [row["name"] for row in rows] == ["lead"]
    row = rows[0]
    assert row["role"] == ""
    assert isinstance(row["tier"], int)
    assert row["agent_card"] == {"name": "lead", "skills": []}
    assert row["url"] == f"{platform.url}/workspaces/{row['id']}/a2a"
    assert row["relation"] == "parent"


def test_discovery_gives_only_addresses_of_the_platform(platform: Platform, family: Family) -> None:
    lead, researcher, _writer, _stranger = family
    found = platform.ok("GET", f"/registry/discover/{lead.workspace_id}", token=researcher.load_token())
    assert found["url"] == f"{platform.url}/workspaces/{lead.workspace_id}/a2a"
    assert researcher.discover_peer(lead.workspace_id) == found["url"]


def test_a_stranger_is_refused_with_the_reason(platform: Platform, family: Family) -> None:
    _lead, researcher, _writer, stranger = family
    with pytest.raises(errors.AccessDeniedError) as refused:
        stranger.call_peer(researcher.workspace_id, "hi", prefer_direct=False)
    assert refused.value.code == "hierarchy-denied"
    answer = platform.send(researcher.workspace_id, "hi", token=stranger.load_token())
    assert answer.status_code == 403
    body = answer.json()
    assert body["error"]["code"] == -32600
    info = body["error"]["data"][0]
    assert (info["reason"], info["domain"]) == ("HIERARCHY_DENIED", "molecule.ai")
    assert info["metadata"]["rule"] == "denied"
    assert "different parents" in body["error"]["message"]
    assert body["id"] == "1"


def test_a_workspace_token_never_acts_for_another(platform: Platform, family: Family) -> None:
    lead, researcher, _writer, _stranger = family
    beat = {"workspace_id": lead.workspace_id}
    answer = platform.call("POST", "/registry/heartbeat", token=researcher.load_token(), json=beat)
    assert (answer.status_code, answer.json()["code"]) == (403, "identity-mismatch")
    header = {"X-Workspace-ID": lead.workspace_id}
    answer = platform.send(lead.workspace_id, "x", token=researcher.load_token(), headers=header)
    assert (answer.status_code, answer.json()["code"]) == (403, "identity-mismatch")
    answer = platform.send(lead.workspace_id, "x", headers={"X-Workspace-ID": "system:scheduler"})
    assert answer.json()["code"] == "forged-identity"


def test_peers_see_a_reduced_row(platform: Platform, family: Family) -> None:
    lead, researcher, _writer, _stranger = family
    mine = platform.ok("GET", f"/workspaces/{researcher.workspace_id}", token=researcher.load_token())
    theirs = platform.ok("GET", f"/workspaces/{lead.workspace_id}", token=researcher.load_token())
    assert set(mine) - set(theirs) == {
        "budget_limit",
        "monthly_spend",
        "current_task",
        "last_sample_error",
        "workspace_dir",
        "url",
    }
    listed = platform.ok("GET", "/workspaces", token=researcher.load_token())
    assert {row["name"] for row in listed} == {"lead", "researcher", "writer"}
