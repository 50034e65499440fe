"""Changing workspaces: who may change what, and what a move does to the firewall."""

from typing import Any

import pytest
import requests

from tests.spec.platforms import Platform

OWN: dict[str, Any] = {"role": "maths", "collapsed": True, "x": 1.5, "y": -2.0}
OPERATORS: dict[str, Any] = {
    "name": "eve",
    "tier": 3,
    "workspace_dir": "/srv/ada",
    "workspace_access": "read_write",
    "max_concurrent_tasks": 4,
    "visibility": "public",
    "isolated": True,
}


def change(platform: Platform, workspace_id: str, token: str | None = None, **body: Any) -> requests.Response:
    return platform.call("PATCH", f"/workspaces/{workspace_id}", token, json=body)


def test_a_workspace_changes_its_own_fields_and_an_operator_all(platform: Platform) -> None:
    client = platform.join("a")
    path = f"/workspaces/{client.workspace_id}"
    assert platform.ok("PATCH", path, client.load_token(), json=OWN) == {"status": "updated"}
    assert platform.ok("PATCH", path, json=OPERATORS) == {"status": "updated"}
    row = platform.ok("GET", path)
    assert {name: row[name] for name in OWN | OPERATORS} == OWN | OPERATORS
    events = platform.ok("GET", "/events?type=WORKSPACE_UPDATED")
    assert [event["payload"] for event in reversed(events)] == [OWN, OPERATORS]


@pytest.mark.parametrize(
    "field", ["name", "tier", "parent_id", "isolated", "visibility", "budget_limit", "runtime"]
)
def test_a_workspace_cannot_set_itself_free(platform: Platform, field: str) -> None:
    lead = platform.join("lead")
    client = platform.join("a", lead.workspace_id)
    before = platform.ok("GET", f"/workspaces/{client.workspace_id}")
    value: Any = {**OPERATORS, "parent_id": None, "budget_limit": 1, "runtime": "llm"}[field]
    answer = change(platform, client.workspace_id, client.load_token(), role="boss", **{field: value})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert platform.ok("GET", f"/workspaces/{client.workspace_id}") == before


def test_peers_and_readers_change_nothing(platform: Platform) -> None:
    one, other = platform.join("one"), platform.join("other")
    assert change(platform, one.workspace_id, other.load_token(), name="x").status_code == 403
    assert change(platform, one.workspace_id, "", name="x").status_code == 401


def test_a_bad_field_is_named_and_a_good_one_beside_it_is_not_kept(platform: Platform) -> None:
    one = platform.create("one")["id"]
    answer = change(platform, one, name="eve", tier=9)
    assert (answer.status_code, answer.json()["field"]) == (400, "tier")
    assert platform.ok("GET", f"/workspaces/{one}")["name"] == "one"
    assert change(platform, one, parent_id="no-uuid").json()["code"] == "invalid-id"
    assert change(platform, one, unknown_field=1).json() == {"status": "updated"}
    assert change(platform, one).json() == {"status": "updated"}


def test_a_move_changes_who_reaches_whom_at_once(platform: Platform) -> None:
    lead, other = platform.join("lead"), platform.join("other")
    child = platform.join("child", lead.workspace_id)
    leaf = platform.join("leaf", child.workspace_id)
    assert {peer.name for peer in leaf.get_peers()} == {"lead", "child"}
    assert change(platform, child.workspace_id, parent_id=other.workspace_id).status_code == 200
    assert {peer.name for peer in leaf.get_peers()} == {"other", "child"}
    answer = platform.send(leaf.workspace_id, "hi", token=lead.load_token())
    assert answer.status_code == 403
    assert change(platform, child.workspace_id, parent_id=None).status_code == 200
    assert {peer.name for peer in child.get_peers()} == {"lead", "other", "leaf"}


def test_nobody_is_moved_below_itself_or_below_somebody_unknown(platform: Platform) -> None:
    lead = platform.create("lead")["id"]
    child = platform.create("child", lead)["id"]
    leaf = platform.create("leaf", child)["id"]
    for below in (lead, child, leaf):
        answer = change(platform, lead, parent_id=below)
        assert (answer.status_code, answer.json()["code"]) == (409, "parent-cycle")
    answer = change(platform, lead, parent_id="00000000-0000-4000-8000-000000000000")
    assert (answer.status_code, answer.json()["code"]) == (404, "workspace-not-found")
