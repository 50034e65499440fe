"""Changing a workspace: by itself, by its operators, and its place in the tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

Of = Callable[[Workspace], Principal]

OWN: dict[str, Any] = {"role": "maths", "collapsed": True, "x": 1.5, "y": -2.0}
OPERATORS: dict[str, Any] = {
    "name": "Eve",
    "tier": 3,
    "workspace_dir": "/srv/ada",
    "workspace_access": "read_only",
    "max_concurrent_tasks": 4,
    "visibility": "public",
    "isolated": True,
    "hibernation_idle_minutes": 5,
}


async def change(rig: Rig, workspace: Workspace, by: Principal, **wanted: Any) -> bool:
    return await rig.lifecycle_services.changes.apply(workspace, wanted, by)


async def updates(rig: Rig) -> list[dict[str, Any]]:
    events = await rig.storage.read(lambda tx: tx.events.after(0, 10_000))
    return [event.payload for event in events if event.event_type == "WORKSPACE_UPDATED"]


@pytest.mark.parametrize(("name", "value"), list(OWN.items()))
async def test_a_workspace_changes_what_is_its_own(rig: Rig, principal_of: Of, name: str, value: Any) -> None:
    ada = await rig.agent()
    await change(rig, ada, principal_of(ada), **{name: value})
    assert getattr(await rig.workspace(ada.id), name) == value
    assert await updates(rig) == [{name: value}]


@pytest.mark.parametrize(
    ("name", "value"), [*OPERATORS.items(), ("parent_id", None), ("runtime", "llm"), ("budget_limit", 1)]
)
async def test_a_workspace_is_refused_what_would_set_it_free_and_nothing_of_its_wish_is_done(
    rig: Rig, principal_of: Of, refuses: Refuses, name: str, value: Any
) -> None:
    ada = await rig.agent(parent=await rig.agent("Lead"))
    wish = {"role": "boss", name: value}
    refusal = await refuses(change(rig, ada, principal_of(ada), **wish), "forbidden")
    assert name in refusal.sentence
    assert await rig.workspace(ada.id) == ada


@pytest.mark.parametrize(("name", "value"), [*OWN.items(), *OPERATORS.items()])
async def test_an_operator_changes_everything(rig: Rig, name: str, value: Any) -> None:
    ada = await rig.agent()
    await change(rig, ada, rig.admin, **{name: value})
    assert getattr(await rig.workspace(ada.id), name) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", " "),
        ("name", "a|b"),
        ("role", "r" * 1001),
        ("tier", 5),
        ("workspace_dir", "/etc/x"),
        ("workspace_access", "all"),
        ("max_concurrent_tasks", 0),
        ("visibility", "secret"),
        ("hibernation_idle_minutes", -1),
        ("delivery_mode", "pigeon"),
        ("delivery_mode", "push"),
        ("runtime", "llm"),
    ],
)
async def test_one_bad_field_and_nothing_changes(rig: Rig, refuses: Refuses, name: str, value: Any) -> None:
    ada = await rig.agent()
    wish = {"x": 7.0, name: value}
    refusal = await refuses(change(rig, ada, rig.admin, **wish), "invalid-request")
    assert refusal.extras["field"] == name
    assert await rig.workspace(ada.id) == ada
    assert await updates(rig) == []


async def test_saying_nothing_new_changes_nothing_and_tells_nobody(rig: Rig) -> None:
    ada = await rig.agent()
    assert await change(rig, ada, rig.admin) is False
    assert await change(rig, ada, rig.admin, name=ada.name, tier=ada.tier) is False
    assert await rig.workspace(ada.id) == ada
    assert await updates(rig) == []


@pytest.mark.parametrize(("runtime", "needed"), [("llm", True), ("external", False)])
async def test_what_is_read_at_the_start_needs_a_restart_where_we_start_it(
    rig: Rig, runtime: str, needed: bool
) -> None:
    ada = (await rig.created("Ada", runtime=runtime)).workspace
    assert await change(rig, ada, rig.admin, tier=3) is needed
    assert await change(rig, ada, rig.admin, name="Eve") is False


async def test_a_move_takes_the_subtree_along_and_changes_who_reaches_whom_at_once(rig: Rig) -> None:
    lead, other = await rig.agent("Lead"), await rig.agent("Other")
    ada = await rig.agent("Ada", parent=lead)
    leaf = await rig.agent("Leaf", parent=ada)
    await change(rig, ada, rig.admin, parent_id=other.id, name="Moved")
    moved = await rig.workspace(ada.id)
    assert (moved.parent_id, moved.name) == (other.id, "Moved")
    above = await rig.storage.read(lambda tx: tx.workspaces.ancestors(leaf.id))
    assert above == [ada.id, other.id]
    await change(rig, moved, rig.admin, parent_id=None)
    assert await rig.storage.read(lambda tx: tx.workspaces.ancestors(leaf.id)) == [ada.id]


async def test_nobody_stands_below_itself(rig: Rig, refuses: Refuses) -> None:
    lead = await rig.agent("Lead")
    ada = await rig.agent("Ada", parent=lead)
    leaf = await rig.agent("Leaf", parent=ada)
    for below in (lead, ada, leaf):
        await refuses(change(rig, lead, rig.admin, parent_id=below.id, x=9.0), "parent-cycle")
    assert await rig.workspace(lead.id) == lead


async def test_a_new_parent_must_be_there_and_of_the_same_organisation(rig: Rig, refuses: Refuses) -> None:
    ada, gone = await rig.agent(), await rig.agent("Gone")
    await rig.lifecycle.remove(gone, confirmed=False)
    for parent in (gone.id, "nobody"):
        await refuses(change(rig, ada, rig.admin, parent_id=parent), "workspace-not-found")
