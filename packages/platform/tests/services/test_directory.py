"""Finding one another: exactly whom the tree allows, and never an agent's own address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain import cursors
from molecule_platform.domain.access import Relation
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.people import Org
from molecule_platform.services.workspaces import directory
from molecule_platform.services.workspaces.directory import DirectoryPage, DirectoryQuery

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

Of = Callable[[Workspace], Principal]
BASE = "http://platform"


async def family(rig: Rig) -> dict[str, Workspace]:
    lead = await rig.agent("Lead", role="leads")
    ada = await rig.agent("Ada", "http://agent:9", parent=lead)
    bob = await rig.agent("Bob", parent=lead)
    leaf = await rig.agent("Leaf", parent=ada)
    return {"lead": lead, "ada": ada, "bob": bob, "leaf": leaf}


async def peers_of(
    rig: Rig, workspace: Workspace, relation: Relation | None = None, **asked: Any
) -> list[dict[str, Any]]:
    return (await rig.directory.peers(workspace, BASE, DirectoryQuery(**asked), relation)).rows


async def rows_for(rig: Rig, principal: Principal, **asked: Any) -> list[dict[str, Any]]:
    return (await rig.directory.listing(principal, DirectoryQuery(**asked))).rows


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
    peers = await peers_of(rig, (await family(rig))[who])
    assert {peer["name"]: peer["relation"] for peer in peers} == expected
    assert all(peer["url"] == f"{BASE}/workspaces/{peer['id']}/a2a" for peer in peers)
    assert "http://agent:9" not in repr(peers)


async def test_a_removed_or_isolated_workspace_is_nobody_s_peer(rig: Rig) -> None:
    members = await family(rig)
    await rig.lifecycle.remove(members["bob"], confirmed=True)
    await rig.changed(members["leaf"], isolated=True)
    assert [peer["name"] for peer in await peers_of(rig, members["lead"])] == ["Ada"]
    assert await peers_of(rig, await rig.workspace(members["leaf"].id)) == []


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
    rig: Rig, query: str | None, relation: Relation | None, names: list[str]
) -> None:
    members = await family(rig)
    await rig.changed(members["bob"], agent_card={"skills": [{"name": "Sums"}, "odd", {"name": None}]})
    found = await peers_of(rig, members["ada"], relation, q=query)
    assert sorted(peer["name"] for peer in found) == names


async def test_a_card_that_was_never_given_is_an_empty_object(rig: Rig) -> None:
    members = await family(rig)
    await rig.changed(members["bob"], agent_card=None)
    found = await peers_of(rig, members["ada"], q="Bob")
    assert (found[0]["agent_card"], found[0]["role"]) == ({}, "")


async def test_operators_list_everyone_and_a_workspace_itself_and_its_peers(
    rig: Rig, principal_of: Of
) -> None:
    members = await family(rig)
    everyone = await rows_for(rig, rig.admin)
    assert {row["name"] for row in everyone} == {"Lead", "Ada", "Bob", "Leaf"}
    mine = await rows_for(rig, principal_of(members["leaf"]))
    assert {row["name"]: "url" in row for row in mine} == {"Lead": False, "Ada": False, "Leaf": True}


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({"status": "paused"}, {"Bob"}),
        ({"q": "le"}, {"Lead", "Leaf"}),
        ({"include_removed": True, "status": "removed"}, {"Gone"}),
        ({"status": "removed"}, set[str]()),
    ],
)
async def test_a_list_is_narrowed_by_what_is_asked(rig: Rig, wanted: dict[str, Any], names: set[str]) -> None:
    members = await family(rig)
    await rig.lifecycle.pause(members["bob"])
    await rig.lifecycle.remove(await rig.agent("Gone"), confirmed=False)
    assert {row["name"] for row in await rows_for(rig, rig.admin, **wanted)} == names


async def test_a_list_of_one_parent_s_children(rig: Rig) -> None:
    members = await family(rig)
    found = await rows_for(rig, rig.admin, parent_id=members["lead"].id)
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


# Pages


@pytest.mark.parametrize("asked", [{}, {"q": "a"}])
async def test_the_pages_of_a_list_hold_everyone_once_in_the_order_of_creation(
    rig: Rig, principal_of: Of, asked: dict[str, Any]
) -> None:
    lead = await rig.agent("Lead a")
    for number in range(7):
        rig.clock.advance(number % 2)
        await rig.agent(f"a{number}", parent=lead)
        await rig.agent(f"b{number}", parent=lead)
    for principal in (rig.admin, principal_of(lead)):
        whole = await rows_for(rig, principal, **asked)
        assert whole == sorted(whole, key=lambda row: (row["created_at"], row["id"]))
        pages = [await rig.directory.listing(principal, DirectoryQuery(limit=3, **asked))]
        while cursor := pages[-1].next_cursor:
            pages.append(
                await rig.directory.listing(principal, DirectoryQuery(limit=3, cursor=cursor, **asked))
            )
        assert [row for page in pages for row in page.rows] == whole
        assert {len(page.rows) for page in pages[:-1]} == {3}


async def test_the_pages_of_peers_hold_each_once(rig: Rig) -> None:
    lead = await rig.agent("Lead")
    names = {(await rig.agent(f"a{number}", parent=lead)).name for number in range(5)}
    first = await rig.directory.peers(lead, BASE, DirectoryQuery(limit=3))
    assert first.next_cursor is not None
    second = await rig.directory.peers(lead, BASE, DirectoryQuery(limit=3, cursor=first.next_cursor))
    assert (len(first.rows), len(second.rows), second.next_cursor) == (3, 2, None)
    assert {row["name"] for page in (first, second) for row in page.rows} == names


async def test_a_page_that_ends_with_the_last_row_names_no_next(rig: Rig) -> None:
    await rig.agent()
    assert (await rig.directory.listing(rig.admin, DirectoryQuery(limit=1))).next_cursor is None


@pytest.mark.parametrize(
    "cursor",
    [
        "not base64 at all!",
        "AAAA",
        "W10",
        cursors.written("yesterday", "id"),
        cursors.written("2026-05-02T12:00:00", "id"),
        cursors.written("2026-05-02T12:00:00+00:00"),
        cursors.written("9999-12-31T23:59:59-14:00", "id"),
        cursors.written("2026-05-02T12:00:00Z", "\0"),
        cursors.written("2026-05-02T12:00:00Z", "\ud800"),
        "x" * 50_000,
    ],
)
async def test_a_cursor_that_no_page_gave_is_refused(rig: Rig, refuses: Refuses, cursor: str) -> None:
    refused = await refuses(
        rig.directory.listing(rig.admin, DirectoryQuery(limit=3, cursor=cursor)), "invalid-request"
    )
    assert refused.extras["field"] == "cursor"


# Organisations


async def test_nobody_sees_anything_of_another_organisation(rig: Rig, principal_of: Of) -> None:
    ours = await rig.agent("Ours")
    other = Org("org-two", "two", "Second", rig.clock.now())
    theirs = replace(ours, id="00000000-0000-4000-8000-000000000001", org_id=other.id, name="Theirs")
    await rig.storage.write(lambda tx: (tx.people.insert_org(other), tx.workspaces.insert(theirs)))
    owner = replace(rig.admin, text="user:olga", org_id=other.id, scopes=frozenset({"org"}))
    for principal in (owner, principal_of(theirs)):
        assert [row["name"] for row in await rows_for(rig, principal)] == ["Theirs"]
    assert [row["name"] for row in await rows_for(rig, principal_of(ours))] == ["Ours"]
    assert await rig.directory.peers(ours, BASE, DirectoryQuery()) == DirectoryPage([])
