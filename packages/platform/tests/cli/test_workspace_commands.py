"""`molecule workspace`, against a real platform."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
import requests

if TYPE_CHECKING:
    from packages.platform.tests.cli.conftest import Platform

Molecule = Callable[..., Any]


@pytest.fixture
def create(at_house: Molecule) -> Callable[..., dict[str, Any]]:
    def make(name: str = "", *flags: str) -> dict[str, Any]:
        name = name or f"w-{uuid4()}"
        made = at_house("workspace", "create", name, *flags, "--json")
        assert made.code == 0, made.err
        return made.json() | {"name": name}

    return make


def test_create_shows_the_token_once_and_how_an_agent_joins(at_house: Molecule) -> None:
    shown = at_house("workspace", "create", f"newcomer-{uuid4()}", "--role", "says hello")
    assert shown.code == 0
    assert "token" in shown.out
    assert "RemoteAgentClient" in shown.out
    assert "shown this once" in shown.out


def test_create_keeps_the_connection_in_a_new_file_for_oneself(at_house: Molecule, tmp_path: Path) -> None:
    name, file = f"newcomer-{uuid4()}", tmp_path / "mine.json"
    shown = at_house("workspace", "create", name, "--output", str(file))
    assert shown.code == 0, shown.err
    kept = json.loads(file.read_text())
    assert (kept["name"], set(kept)) == (name, {"workspace_id", "name", "platform_url", "auth_token"})
    assert file.stat().st_mode & 0o777 == 0o600
    assert kept["auth_token"] not in shown.out
    assert 'from_connection("mine.json")' in shown.out
    again = at_house("workspace", "create", f"other-{uuid4()}", "--output", str(file))
    assert (again.code, "is there already" in again.err) == (2, True)
    assert json.loads(file.read_text()) == kept
    hosted = at_house("workspace", "create", "h", "--runtime", "echo", "--output", str(tmp_path / "no.json"))
    assert (hosted.code, "run elsewhere" in hosted.err) == (2, True)
    refused = at_house("workspace", "create", "", "--output", str(tmp_path / "no.json"))
    assert (refused.code, (tmp_path / "no.json").exists()) == (1, False)


def test_a_workspace_is_found_by_its_id_and_by_its_name(
    at_house: Molecule, create: Callable[..., dict[str, Any]]
) -> None:
    made = create()
    by_name = at_house("workspace", "show", made["name"], "--json").json()
    by_id = at_house("workspace", "show", made["id"].upper(), "--json").json()
    assert by_name["id"] == by_id["id"] == made["id"]
    assert by_name["status"] == "awaiting_agent"


def test_show_tells_of_a_card_s_signature_only_when_it_has_one(
    at_house: Molecule, platform: Platform, create: Callable[..., dict[str, Any]]
) -> None:
    made = create()
    assert "signature" not in at_house("workspace", "show", made["id"]).out
    signature = {"protected": "eyJhbGciOiJFUzI1NiJ9", "signature": "c2lnbmVk"}
    body = {"id": made["id"], "agent_card": {"name": "Ada", "signatures": [signature]}}
    answer = requests.post(f"{platform.url}/registry/register", json=body, timeout=30)
    assert answer.json()["card_signature"] == "unverified"
    assert "private, signature unverified" in at_house("workspace", "show", made["id"]).out


def test_a_name_that_nobody_has_says_where_to_look(at_house: Molecule) -> None:
    failed = at_house("workspace", "show", "nobody")
    assert failed.code == 1
    assert failed.err == (
        "molecule: no workspace is named 'nobody': `molecule workspace list` shows them all\n"
    )


def test_a_name_that_two_have_asks_for_a_path_or_an_id(
    at_house: Molecule, create: Callable[..., dict[str, Any]]
) -> None:
    lead = create()
    first = create()
    second = create(first["name"], "--parent", lead["id"])
    failed = at_house("workspace", "show", first["name"], "--json")
    assert (failed.code, failed.out) == (1, "")
    told = json.loads(failed.err)
    assert told["code"] == "ambiguous-name"
    assert f"{first['name']} ({first['id']})" in told["error"]
    path = f"{lead['name']}/{first['name']}"
    assert f"{path} ({second['id']})" in told["error"]
    assert at_house("workspace", "show", path, "--json").json()["id"] == second["id"]


def test_a_path_is_found_by_its_end_unless_it_is_a_whole_one(
    at_house: Molecule, create: Callable[..., dict[str, Any]]
) -> None:
    def found(wanted: str) -> str:
        return at_house("workspace", "show", wanted, "--json").json()["id"]

    top, lead = create(), create()
    deeper = create(lead["name"], "--parent", top["id"])
    writer = create("", "--parent", lead["id"])
    other = create(writer["name"], "--parent", deeper["id"])
    assert found(f"{lead['name']}/{writer['name']}") == writer["id"]
    assert found(f"{top['name']}/{lead['name']}/{writer['name']}".upper()) == other["id"]
    last = create("", "--parent", deeper["id"])
    assert found(f"{lead['name']}/{last['name']}") == last["id"]
    assert found(last["name"].upper()) == last["id"]
    unknown = at_house("workspace", "show", f"nobody/{last['name']}")
    assert (unknown.code, "no workspace is named" in unknown.err) == (1, True)


def test_the_list_shows_children_below_their_parent(
    at_house: Molecule, create: Callable[..., dict[str, Any]]
) -> None:
    parent = create()
    child = create("", "--parent", parent["name"])
    lines = at_house("workspace", "list").out.splitlines()
    above = next(number for number, line in enumerate(lines) if parent["id"] in line)
    assert child["id"] in lines[above + 1]
    assert lines[above + 1].startswith(f"   {child['name']}")


def test_pause_and_resume_tell_what_they_took_along(
    at_house: Molecule, create: Callable[..., dict[str, Any]]
) -> None:
    parent = create()
    create("", "--parent", parent["id"])
    paused = at_house("workspace", "pause", parent["name"])
    assert paused.out.startswith(f"{parent['name']} is paused, and 1 below it.")
    assert at_house("workspace", "show", parent["id"], "--json").json()["status"] == "paused"
    resumed = at_house("workspace", "resume", parent["id"], "--json").json()
    assert resumed == {"id": parent["id"], "status": "awaiting_agent", "resumed_count": 2}


def test_resume_of_what_is_not_paused_is_the_platforms_refusal(
    at_house: Molecule, create: Callable[..., dict[str, Any]]
) -> None:
    made = create()
    failed = at_house("workspace", "resume", made["id"], "--json")
    assert failed.code == 1
    told = json.loads(failed.err)
    assert told["code"] == "not-found"
    assert told["status"] == 404
    assert "is not paused" in told["error"]


def test_delete_without_yes_says_what_it_takes_along_and_removes_nothing(
    at_house: Molecule, create: Callable[..., dict[str, Any]]
) -> None:
    parent = create()
    child = create("", "--parent", parent["id"])
    refused = at_house("workspace", "delete", parent["id"])
    assert refused.code == 1
    assert f"along with 1 workspace below it ({child['name']})" in refused.err
    assert "--yes" in refused.err
    told = json.loads(at_house("workspace", "delete", parent["id"], "--json").err)
    assert told["code"] == "confirmation-required"
    assert told["children"] == [{"id": child["id"], "name": child["name"]}]
    assert at_house("workspace", "show", child["id"]).code == 0


def test_delete_with_yes_removes_the_subtree(
    at_house: Molecule, create: Callable[..., dict[str, Any]]
) -> None:
    parent = create()
    child = create("", "--parent", parent["id"])
    gone = at_house("workspace", "delete", parent["name"], "--yes", "--json").json()
    assert gone == {"id": parent["id"], "status": "removed", "cascade_deleted": 1}
    assert json.loads(at_house("workspace", "show", child["id"], "--json").err)["code"] == "workspace-removed"


def test_delete_names_the_messages_it_cancels(
    at_house: Molecule, create: Callable[..., dict[str, Any]]
) -> None:
    made = create()
    assert at_house("send", made["id"], "hello", "--no-wait").code == 0
    assert "cancels 1 waiting message." in at_house("workspace", "delete", made["id"]).err


def test_enrol_makes_a_token_that_is_used_once(
    at_house: Molecule, create: Callable[..., dict[str, Any]]
) -> None:
    made = create()
    enrolled = at_house("workspace", "enrol", made["name"], "--ttl", "60", "--json").json()
    assert len(enrolled["enrolment_token"]) >= 43
    refused = at_house("workspace", "enrol", made["name"], "--ttl", "0")
    assert refused.code == 1
    assert "ttl_seconds" in refused.err


def test_a_workspace_is_changed_and_moved(at_house: Molecule, create: Callable[..., dict[str, Any]]) -> None:
    parent, child = create(), create()
    moved = at_house("workspace", "update", child["name"], "--parent", parent["name"], "--role", "below")
    assert moved.out == f"{child['name']} is changed.\n"
    row = at_house("workspace", "show", child["id"], "--json").json()
    assert (row["parent_id"], row["role"]) == (parent["id"], "below")
    up = ("--root", "--isolated", "--max-concurrent", "3", "--visibility", "public")
    assert at_house("workspace", "update", child["id"], *up, "--name", f"n-{child['name']}").code == 0
    row = at_house("workspace", "show", child["id"], "--json").json()
    assert (row["parent_id"], row["isolated"], row["max_concurrent_tasks"]) == (None, True, 3)
    assert (row["visibility"], row["role"], row["name"]) == ("public", "below", f"n-{child['name']}")
    assert "from all others" in at_house("workspace", "show", child["id"]).out


def test_a_change_that_says_nothing_or_two_things_is_misuse(
    at_house: Molecule, create: Callable[..., dict[str, Any]]
) -> None:
    made = create()
    assert at_house("workspace", "update", made["id"]).code == 2
    assert at_house("workspace", "update", made["id"], "--root", "--parent", made["id"]).code == 2
    cycle = at_house("workspace", "update", made["id"], "--parent", made["id"], "--json")
    assert (cycle.code, json.loads(cycle.err)["code"]) == (1, "parent-cycle")


def test_the_list_is_narrowed_by_status_parent_words_and_removal(
    at_house: Molecule, create: Callable[..., dict[str, Any]]
) -> None:
    parent = create()
    child = create("", "--parent", parent["id"])
    at_house("workspace", "pause", child["id"])

    def listed(*flags: str) -> list[str]:
        return [row["id"] for row in at_house("workspace", "list", *flags, "--json").json()]

    assert listed("--parent", parent["name"]) == [child["id"]]
    assert listed("--parent", parent["name"], "--status", "paused") == [child["id"]]
    assert listed("--query", parent["name"]) == [parent["id"]]
    at_house("workspace", "delete", child["id"], "--yes")
    assert listed("--query", child["name"]) == []
    assert listed("--query", child["name"], "--removed") == [child["id"]]
    assert "No workspace fits" in at_house("workspace", "list", "--query", child["name"]).out
    assert at_house("workspace", "show", child["name"], "--removed", "--json").json()["status"] == "removed"


def test_a_removed_workspace_can_be_purged_later_by_its_id(
    at_house: Molecule, create: Callable[..., dict[str, Any]]
) -> None:
    made = create()
    assert "erases all that is kept" in at_house("workspace", "delete", made["id"], "--purge").err
    assert at_house("workspace", "delete", made["id"], "--yes").out == f"{made['name']} is removed.\n"
    purged = at_house("workspace", "delete", made["id"], "--yes", "--purge", "--json").json()
    assert purged["status"] == "purged"


def test_an_agent_elsewhere_is_asked_to_restart_and_cannot_be_put_to_sleep(
    at_house: Molecule, create: Callable[..., dict[str, Any]]
) -> None:
    made = create()
    assert "asked to start again" in at_house("workspace", "restart", made["id"]).out
    assert "external" in at_house("workspace", "hibernate", made["id"]).err
    assert made["name"] in at_house("workspace", "wake", made["id"]).out


def test_what_the_platform_starts_itself_is_said_to_start(molecule: Molecule, scripted: Any) -> None:
    row = {"id": "w1", "name": "own"}
    scripted.on("/workspaces", [row])
    scripted.on("/workspaces/w1/restart", {"status": "provisioning", "config_dir": "x"})
    scripted.on("/workspaces/w1/hibernate", {"status": "hibernated"})
    scripted.on("/workspaces/w1/wake", {"status": "provisioning"}, 202)
    at = ("--url", scripted.url)
    assert molecule("workspace", "restart", "own", "--reset", *at).out.startswith("own starts again")
    assert "own sleeps" in molecule("workspace", "hibernate", "own", "--force", *at).out
    assert "own wakes up" in molecule("workspace", "wake", "own", *at).out
    assert "/workspaces/w1/hibernate?force=true" in [path for _method, path, _headers in scripted.asked]


def test_the_state_of_a_removed_workspace_is_told_as_its_agent_hears_it(
    at_house: Molecule, create: Callable[..., dict[str, Any]]
) -> None:
    made = create()
    assert at_house("workspace", "state", made["name"], "--json").json()["deleted"] is False
    at_house("workspace", "delete", made["id"], "--yes")
    told = json.loads(at_house("workspace", "state", made["id"], "--json").err)
    assert (told["deleted"], told["status"]) == (True, 404)


def test_peers_and_address_are_those_of_the_tree(
    at_house: Molecule, platform: Any, create: Callable[..., dict[str, Any]]
) -> None:
    parent = create()
    child = create("", "--parent", parent["id"])
    below = at_house("workspace", "peers", parent["name"], "--relation", "child", "--json").json()
    assert [row["id"] for row in below] == [child["id"]]
    assert child["name"] in at_house("workspace", "peers", parent["name"], "--query", child["name"]).out
    assert "may call nobody that fits" in at_house("workspace", "peers", child["id"], "--query", "zzz").out
    assert f"{platform.url}/agents/{child['id']}/" in at_house("workspace", "address", child["name"]).out


def test_agents_are_found_by_their_name_role_and_status(
    at_house: Molecule, create: Callable[..., dict[str, Any]]
) -> None:
    made = create("", "--role", f"Keeper of {uuid4()}")
    found = at_house("agent", "search", made["name"], "--status", "awaiting_agent", "--json").json()
    assert [agent["id"] for agent in found["agents"]] == [made["id"]]
    assert made["name"] in at_house("agent", "search", made["name"]).out
    card = at_house("agent", "card", made["name"])
    assert f"/agents/{made['id']}" in card.out
    assert "JSONRPC 1.0" in card.out
    assert "No agent fits" in at_house("agent", "search", made["name"], "--status", "online").out
    assert "There are more" in at_house("agent", "search", "--limit", "1").out
