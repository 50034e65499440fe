"""Finding one another over HTTP: lists in pages, peers as old clients read them, the search for agents."""

from typing import Any
from uuid import uuid4

import pytest

from tests.spec.platforms import Platform, Start

SUMS = {"name": "Counter", "skills": [{"id": "sums", "name": "Sums", "tags": ["maths"]}]}


def pages(platform: Platform, path: str, token: str | None = None) -> list[list[dict[str, Any]]]:
    """The pages of a list, by the header that leads on."""
    found: list[list[dict[str, Any]]] = []
    cursor = ""
    while True:
        answer = platform.call("GET", f"{path}&cursor={cursor}", token)
        assert answer.status_code == 200, answer.text
        found.append(answer.json())
        cursor = answer.headers.get("X-Next-Cursor", "")
        if not cursor:
            return found


def test_t12_an_old_client_s_peers_are_whole_rows_with_the_platform_s_addresses(platform: Platform) -> None:
    lead = platform.join("lead")
    polling = platform.join("polling", lead.workspace_id, role="writes things")
    offline = platform.create("offline", lead.workspace_id, claimable=False)
    token = lead.load_token()
    for query in ("", "?q=", "?q=OFF", "?q=writes"):
        rows: list[dict[str, Any]] = platform.ok("GET", f"/registry/{lead.workspace_id}/peers{query}", token)
        assert type(rows) is list
        for row in rows:
            assert isinstance(row["role"], str)
            assert type(row["tier"]) is int
            assert isinstance(row["agent_card"], dict)
            assert row["url"] == f"{platform.url}/workspaces/{row['id']}/a2a"
    assert {peer.name for peer in lead.get_peers()} == {"polling", "offline"}
    assert [
        row["name"] for row in platform.ok("GET", f"/registry/{lead.workspace_id}/peers?q=off", token)
    ] == ["offline"]
    for peer in (polling.workspace_id, offline["id"]):
        assert lead.discover_peer(peer) == f"{platform.url}/workspaces/{peer}/a2a"


def test_lists_come_in_pages_that_hold_everyone_once(platform: Platform) -> None:
    lead = platform.join("lead")
    for number in range(5):
        platform.create(f"w{number}", lead.workspace_id, claimable=False)
    token = lead.load_token()
    for who in (None, token):
        found = pages(platform, "/workspaces?limit=2", who)
        assert [len(page) for page in found] == [2, 2, 2]
        assert [row for page in found for row in page] == platform.ok("GET", "/workspaces", who)
    found = pages(platform, f"/registry/{lead.workspace_id}/peers?limit=2", token)
    assert [len(page) for page in found] == [2, 2, 1]
    whole = platform.call("GET", f"/registry/{lead.workspace_id}/peers", token)
    assert ([row for page in found for row in page], "X-Next-Cursor" in whole.headers) == (
        whole.json(),
        False,
    )


def test_the_administrator_narrows_the_list(platform: Platform) -> None:
    lead = platform.join("lead", role="Leads")
    child = platform.create("child", lead.workspace_id)["id"]
    gone = platform.create("gone")["id"]
    platform.ok("DELETE", f"/workspaces/{gone}")
    asked = {
        "?status=online": ["lead"],
        f"?parent_id={lead.workspace_id.upper()}": ["child"],
        "?q=lEAd": ["lead"],
        "?include_removed=true&status=removed": ["gone"],
        "": ["lead", "child"],
    }
    for query, names in asked.items():
        assert [row["name"] for row in platform.ok("GET", f"/workspaces{query}")] == names
    assert child


@pytest.mark.parametrize(
    ("path", "code", "field"),
    [
        ("/workspaces?cursor=no", "invalid-request", "cursor"),
        ("/workspaces?status=asleep", "invalid-request", "status"),
        ("/workspaces?parent_id=no", "invalid-id", None),
        ("/registry/agents?cursor=no", "invalid-request", "cursor"),
        ("/registry/agents?status=asleep", "invalid-request", "status"),
        ("/registry/agents?limit=many", "invalid-request", "limit"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(
    platform: Platform, path: str, code: str, field: str | None
) -> None:
    answer = platform.call("GET", path)
    assert (answer.status_code, answer.json()["code"], answer.json().get("field")) == (400, code, field)


def test_agents_are_found_by_what_their_cards_say(platform: Platform) -> None:
    counter = platform.create("Ada")
    body = {"id": counter["id"], "agent_card": SUMS}
    platform.ok("POST", "/registry/register", counter["connection"]["auth_token"], json=body)
    platform.join("Sums")
    platform.join("Other")
    found = platform.ok("GET", "/registry/agents?q=sums")
    assert [(row["name"], row["score"]) for row in found["agents"]] == [("Sums", 8), ("Ada", 6)]
    assert found["agents"][1]["card"] == SUMS
    assert (found["problems"], found["next_cursor"]) == ([], None)
    narrowed = platform.ok("GET", "/registry/agents?tag=poetry&tag=MATHS&status=paused&status=online")
    assert [row["name"] for row in narrowed["agents"]] == ["Ada"]
    first = platform.ok("GET", "/registry/agents?limit=2")
    rest = platform.ok("GET", f"/registry/agents?limit=2&cursor={first['next_cursor']}")
    assert [row["name"] for page in (first, rest) for row in page["agents"]] == ["Ada", "Other", "Sums"]


def test_a_search_that_found_the_same_is_not_sent_again(platform: Platform) -> None:
    platform.join("Ada")
    first = platform.call("GET", "/registry/agents")
    asked = {"If-None-Match": f'"other", W/{first.headers["ETag"]}'}
    again = platform.call("GET", "/registry/agents", headers=asked)
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", first.headers["ETag"])
    platform.join("Bob")
    assert platform.call("GET", "/registry/agents", headers=asked).status_code == 200


def test_with_open_enrolment_an_unknown_agent_joins_and_reaches_nobody(configured: Start) -> None:
    platform = configured(MOLECULE_OPEN_ENROLMENT="true")
    platform.join("Ada")
    stranger = platform.client("8d1b6b7e-2f0e-4d57-9b0a-1c6f2d3e4f50", agent_card={"name": "Stranger"})
    stranger.register()
    assert stranger.get_peers() == []
    row = platform.ok("GET", f"/workspaces/{stranger.workspace_id}")
    assert (row["name"], row["isolated"], row["parent_id"], row["status"]) == (
        "Stranger",
        True,
        None,
        "online",
    )


def test_an_organisation_is_a_wall(platform: Platform) -> None:
    there = {"X-Molecule-Org-Id": platform.ok("POST", "/orgs", json={"name": f"Second {uuid4()}"})["slug"]}
    ours = platform.join("Ours")
    theirs = platform.ok("POST", "/workspaces", json={"name": "Theirs", "external": True}, headers=there)
    ours_token, their_id = ours.load_token(), theirs["id"]
    listed = platform.ok("GET", "/workspaces", ours_token) + ours_peers(
        platform, ours.workspace_id, ours_token
    )
    assert [row["name"] for row in listed] == ["Ours"]
    assert [row["name"] for row in platform.ok("GET", "/registry/agents", ours_token)["agents"]] == ["Ours"]
    unknown_id = "8d1b6b7e-2f0e-4d57-9b0a-1c6f2d3e4f50"
    for method, path in (
        ("GET", "/workspaces/{}"),
        ("GET", "/registry/discover/{}"),
        ("GET", "/registry/{}/peers"),
        ("GET", "/workspaces/{}/activity"),
        ("GET", "/workspaces/{}/secrets"),
        ("GET", "/workspaces/{}/tokens"),
        ("POST", "/workspaces/{}/pause"),
        ("POST", "/workspaces/{}/a2a"),
        ("DELETE", "/workspaces/{}"),
    ):
        answers = [
            platform.call(method, path.format(one), ours_token, json={}) for one in (their_id, unknown_id)
        ]
        bodies = [
            answer.text.replace(one, "ID").replace(answer.headers["X-Request-Id"], "REQUEST")
            for answer, one in zip(answers, (their_id, unknown_id), strict=True)
        ]
        assert [answer.status_code for answer in answers] == [404, 404], path
        assert bodies[0] == bodies[1]
    asked = {"caller": ours.workspace_id, "target": their_id}
    explained = platform.ok("GET", "/access/explain", ours_token, params=asked)
    assert (explained["allowed"], explained["target"]["name"]) == (False, "unknown")


def ours_peers(platform: Platform, workspace_id: str, token: str | None) -> list[dict[str, Any]]:
    return platform.ok("GET", f"/registry/{workspace_id}/peers", token)
