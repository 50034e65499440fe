"""`molecule workspace`, against a real platform."""

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

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


def test_a_workspace_is_found_by_its_id_and_by_its_name(
    at_house: Molecule, create: Callable[..., dict[str, Any]]
) -> None:
    made = create()
    by_name = at_house("workspace", "show", made["name"], "--json").json()
    by_id = at_house("workspace", "show", made["id"].upper(), "--json").json()
    assert by_name["id"] == by_id["id"] == made["id"]
    assert by_name["status"] == "awaiting_agent"


def test_a_name_that_nobody_has_says_where_to_look(at_house: Molecule) -> None:
    failed = at_house("workspace", "show", "nobody")
    assert failed.code == 1
    assert failed.err == (
        "molecule: no workspace is named 'nobody': `molecule workspace list` shows them all\n"
    )


def test_a_name_that_two_have_asks_for_an_id(
    at_house: Molecule, create: Callable[..., dict[str, Any]]
) -> None:
    first = create()
    second = create(first["name"])
    failed = at_house("workspace", "show", first["name"], "--json")
    assert failed.code == 1
    assert failed.out == ""
    told = json.loads(failed.err)
    assert told["code"] == "ambiguous-name"
    assert first["id"] in told["error"]
    assert second["id"] in told["error"]


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
