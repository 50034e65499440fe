"""Finding one another: exactly whom the tree allows, and never an agent's own address."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.services import directory

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Rig

Of = Callable[[Workspace], Principal]
BASE = "http://platform"


async def family(rig: Rig) -> dict[str, Workspace]:
    lead = await rig.agent("Lead", role="leads")
    ada = await rig.agent("Ada", "http://agent:9", parent=lead)
    bob = await rig.agent("Bob", parent=lead)
    leaf = await rig.agent("Leaf", parent=ada)
    return {"lead": lead, "ada": ada, "bob": bob, "leaf": leaf}


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        ("lead", {"Ada": "child", "Bob": "child", "Leaf": "descendant"}),
        ("ada", {"Lead": "parent", "Bob": "sibling", "Leaf": "child"}),
        ("leaf", {"Lead": "ancestor", "Ada": "parent"}),
    ],
)
async def test_the_peers_of_a_workspace_are_those_it_may_call_with_their_relation(
    rig: Rig, who: str, expected: dict[str, str]
) -> None:
    peers = await rig.directory.peers((await family(rig))[who], BASE, None, None)
    assert {peer["name"]: peer["relation"] for peer in peers} == expected
    assert all(peer["url"] == f"{BASE}/workspaces/{peer['id']}/a2a" for peer in peers)
    assert "http://agent:9" not in repr(peers)


async def test_a_removed_or_isolated_workspace_is_nobody_s_peer(rig: Rig) -> None:
    members = await family(rig)
    await rig.lifecycle.remove(members["bob"], confirmed=True)
    await rig.changed(members["leaf"], isolated=True)
    assert [peer["name"] for peer in await rig.directory.peers(members["lead"], BASE, None, None)] == ["Ada"]


@pytest.mark.parametrize(
    ("query", "relation", "names"),
    [
        ("LEA", None, ["Lead", "Leaf"]),
        ("leads", None, ["Lead"]),
        ("sums", None, ["Bob"]),
        (None, "child", ["Leaf"]),
    ],
)
async def test_peers_are_found_by_name_role_skill_and_relation(
    rig: Rig, query: str | None, relation: str | None, names: list[str]
) -> None:
    members = await family(rig)
    await rig.changed(members["bob"], agent_card={"skills": [{"name": "Sums"}, "odd", {"name": None}]})
    found = await rig.directory.peers(members["ada"], BASE, query, relation)
    assert sorted(peer["name"] for peer in found) == names


async def test_a_card_that_was_never_given_is_an_empty_object(rig: Rig) -> None:
    members = await family(rig)
    await rig.changed(members["bob"], agent_card=None)
    found = await rig.directory.peers(members["ada"], BASE, "Bob", None)
    assert (found[0]["agent_card"], found[0]["role"]) == ({}, "")


async def test_operators_list_everyone_and_a_workspace_itself_and_its_peers(
    rig: Rig, principal_of: Of
) -> None:
    members = await family(rig)
    everyone = await rig.directory.listing(rig.admin, {})
    assert {row["name"] for row in everyone} == {"Lead", "Ada", "Bob", "Leaf"}
    mine = await rig.directory.listing(principal_of(members["leaf"]), {})
    assert {row["name"]: "url" in row for row in mine} == {"Lead": False, "Ada": False, "Leaf": True}


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({"status": "paused"}, {"Bob"}),
        ({"q": "le"}, {"Lead", "Leaf"}),
        ({"include_removed": "true", "status": "removed"}, {"Gone"}),
    ],
)
async def test_a_list_is_narrowed_by_what_is_asked(rig: Rig, wanted: dict[str, str], names: set[str]) -> None:
    members = await family(rig)
    await rig.lifecycle.pause(members["bob"])
    await rig.lifecycle.remove(await rig.agent("Gone"), confirmed=False)
    assert {row["name"] for row in await rig.directory.listing(rig.admin, wanted)} == names


async def test_a_list_of_one_parent_s_children(rig: Rig) -> None:
    members = await family(rig)
    found = await rig.directory.listing(rig.admin, {"parent_id": members["lead"].id})
    assert {row["name"] for row in found} == {"Ada", "Bob"}


async def test_a_row_counts_the_mail_that_waits_and_hides_from_peers_what_is_not_theirs(
    rig: Rig, principal_of: Of
) -> None:
    members = await family(rig)
    await rig.send(members["bob"])
    whole = await rig.directory.row(rig.admin, members["bob"])
    peers = await rig.directory.row(principal_of(members["ada"]), members["bob"])
    assert (whole["pending"], peers["pending"]) == (1, 1)
    assert set(whole) - set(peers) >= {"url", "budget_limit"}


async def test_the_state_tells_an_agent_whether_to_go_on(rig: Rig) -> None:
    ada = await rig.agent()
    await rig.send(ada)
    await rig.lifecycle.pause(ada)
    assert await rig.directory.state(await rig.workspace(ada.id)) == {
        "workspace_id": ada.id,
        "status": "paused",
        "paused": True,
        "deleted": False,
        "pending": 1,
        "needs_restart": False,
    }


@pytest.mark.parametrize("status", ["online", "paused", "offline", "hibernated", "awaiting_agent"])
async def test_discovery_always_leads_through_the_platform(rig: Rig, status: str) -> None:
    ada = await rig.changed(await rig.agent(url="http://agent:9"), status=status)
    assert directory.discovered(ada, BASE) == {
        "id": ada.id,
        "name": "Ada",
        "url": f"{BASE}/workspaces/{ada.id}/a2a",
        "status": status,
        "delivery_mode": "push",
        "agent_url": f"{BASE}/agents/{ada.id}/",
        "card_url": f"{BASE}/agents/{ada.id}/.well-known/agent-card.json",
    }


async def test_the_delivery_mode_of_nobody_is_poll(rig: Rig) -> None:
    assert await rig.directory.delivery_mode("unknown") == "poll"
    assert await rig.directory.delivery_mode((await rig.agent(url="http://agent")).id) == "push"
