"""Searching agents: whom the caller may reach, the best first, in pages that neither repeat nor skip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_OID, UUID, uuid5

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molecule_platform.domain import cursors
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.people import Org
from molecule_platform.services.workspaces.agent_search import AgentQuery, AgentSearch

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

Of = Callable[[Workspace], Principal]
BASE = "http://platform"
SUMS = {"skills": [{"name": "Sums", "tags": ["maths"]}], "capabilities": {"streaming": True}}


async def found(rig: Rig, principal: Principal | None = None, **question: Any) -> dict[str, Any]:
    paging = {name: question.pop(name, default) for name, default in (("limit", 10), ("cursor", None))}
    asked = AgentQuery(**question)
    return await AgentSearch(rig.storage, rig.clock).find(
        principal or rig.admin, asked, base_url=BASE, **paging
    )


async def names(rig: Rig, principal: Principal | None = None, **question: Any) -> list[str]:
    return [agent["name"] for agent in (await found(rig, principal, **question))["agents"]]


async def team(rig: Rig) -> dict[str, Workspace]:
    lead = await rig.agent("Lead", role="Manager")
    ada = await rig.changed(await rig.agent("Ada", parent=lead), agent_card=SUMS)
    sums = await rig.agent("Sums", parent=lead)
    odd = await rig.changed(await rig.agent("Odd", parent=ada), agent_card={"skills": 7})
    return {"lead": lead, "ada": ada, "sums": sums, "odd": odd}


async def test_a_row_carries_the_card_and_only_the_platform_s_address(rig: Rig) -> None:
    ada = await rig.agent("Ada", "http://agent:9", role="counts")
    assert await found(rig, q="ada") == {
        "agents": [
            {
                "id": ada.id,
                "name": "Ada",
                "url": f"{BASE}/workspaces/{ada.id}/a2a",
                "card": {"name": "Ada"},
                "role": "counts",
                "status": "online",
                "score": 8,
            }
        ],
        "problems": [],
        "next_cursor": None,
    }


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ({}, ["Ada", "Lead", "Sums"]),
        ({"q": "sums"}, ["Sums", "Ada"]),
        ({"q": "maths"}, ["Ada"]),
        ({"tags": ("poetry", "MATHS")}, ["Ada"]),
        ({"tags": ("poetry",)}, []),
        ({"skill": "SUMS"}, ["Ada"]),
        ({"capability": "streaming"}, ["Ada"]),
        ({"role": "manager"}, ["Lead"]),
        ({"role": "man"}, []),
        ({"statuses": ("paused", "online")}, ["Ada", "Lead", "Sums"]),
        ({"statuses": ("paused",)}, []),
        ({"q": "sums", "skill": "sums"}, ["Ada"]),
    ],
)
async def test_agents_are_found_by_all_that_is_asked_the_best_first(
    rig: Rig, question: dict[str, Any], expected: list[str]
) -> None:
    await team(rig)
    assert await names(rig, **question) == expected


async def test_a_card_that_cannot_be_read_is_named_once_and_not_dropped(rig: Rig) -> None:
    members = await team(rig)
    first = await found(rig, limit=1)
    assert first["problems"] == [{"id": members["odd"].id, "name": "Odd", "problem": "skills is not a list"}]
    second = await found(rig, limit=1, cursor=first["next_cursor"])
    assert (len(second["agents"]), second["problems"]) == (1, [])


async def test_a_workspace_finds_itself_and_whom_it_may_call(rig: Rig, principal_of: Of) -> None:
    members = await team(rig)
    stranger = await rig.agent("Stranger", parent=await rig.agent("Other"))
    assert await names(rig, principal_of(members["sums"])) == ["Ada", "Lead", "Sums"]
    assert await names(rig, principal_of(stranger)) == ["Other", "Stranger"]


async def test_a_removed_agent_and_another_organisation_s_are_not_found(rig: Rig) -> None:
    members = await team(rig)
    await rig.lifecycle.remove(members["sums"], confirmed=True)
    other = Org("org-two", "two", "Second", rig.clock.now())
    theirs = replace(members["lead"], id=str(UUID(int=7)), org_id=other.id, name="Theirs")
    await rig.storage.write(lambda tx: (tx.people.insert_org(other), tx.workspaces.insert(theirs)))
    assert await names(rig) == ["Ada", "Lead"]
    assert await names(rig, replace(rig.admin, org_id=other.id, scopes=frozenset({"org.read"}))) == ["Theirs"]


@pytest.mark.parametrize("scope", ["org.read", "org.send"])
async def test_whoever_may_read_or_call_the_organisation_may_search_it(rig: Rig, scope: str) -> None:
    await rig.agent("Ada")
    assert await names(rig, replace(rig.admin, scopes=frozenset({scope}))) == ["Ada"]


@pytest.mark.parametrize(
    "cursor",
    ["?", cursors.written("1", "a"), cursors.written("x", "a", "b"), cursors.written("1" * 5000, "a", "b")],
)
async def test_a_cursor_that_no_page_gave_is_refused(rig: Rig, refuses: Refuses, cursor: str) -> None:
    await refuses(found(rig, cursor=cursor), "invalid-request")


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    given_names=st.lists(st.sampled_from(["Ada", "ada", "Adam", "Éva", "bob"]), max_size=12),
    limit=st.integers(1, 5),
    q=st.sampled_from([None, "ada", "a"]),
)
async def test_pages_neither_repeat_nor_skip(
    rig: Rig, given_names: list[str], limit: int, q: str | None
) -> None:
    org = Org(f"org-{rig.clock.advance(1)}", f"{rig.clock.now()}", "Org", rig.clock.now())
    everyone = [
        Workspace(str(uuid5(NAMESPACE_OID, f"{org.id} {n}")), org.id, name, org.created_at, org.created_at)
        for n, name in enumerate(given_names)
    ]
    await rig.storage.write(
        lambda tx: (tx.people.insert_org(org), [tx.workspaces.insert(one) for one in everyone])
    )
    olga = replace(rig.admin, org_id=org.id)
    whole = (await found(rig, olga, q=q, limit=100))["agents"]
    ranks = [(-agent["score"], agent["name"], agent["id"]) for agent in whole]
    assert ranks == sorted(ranks)
    assert len(whole) == sum(q is None or q in name.casefold() for name in given_names)
    pages = [await found(rig, olga, q=q, limit=limit)]
    while pages[-1]["next_cursor"] is not None:
        pages.append(await found(rig, olga, q=q, limit=limit, cursor=pages[-1]["next_cursor"]))
    assert [agent for page in pages for agent in page["agents"]] == whole
    assert all(len(page["agents"]) == limit for page in pages[:-1])
