"""The operator's hand: create, pause, resume and remove, with everything below."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain import credentials
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.workspaces import WorkspaceFilter
from molecule_platform.services.events.subscriptions import VisibleEvents
from molecule_platform.services.support.audit_log import AuditActor
from molecule_platform.services.workspaces.workspace_creation import NewWorkspace

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

Of = Callable[[Workspace], Principal]


async def family(rig: Rig) -> tuple[Workspace, Workspace, Workspace, Workspace]:
    lead = await rig.agent("Lead")
    ada = await rig.agent("Ada", parent=lead)
    leaf = await rig.agent("Leaf", parent=ada)
    return lead, ada, leaf, await rig.agent("Other")


async def statuses(rig: Rig, *several: Workspace) -> list[str]:
    return [(await rig.workspace(workspace.id)).status for workspace in several]


async def test_a_new_workspace_waits_for_its_agent_with_a_token_secrets_and_an_event(rig: Rig) -> None:
    created = await rig.created("Ada", role="maths", secrets={"KEY": "hush"})
    workspace = await rig.workspace(created.workspace.id)
    assert (workspace.status, workspace.tier, workspace.delivery_mode) == ("awaiting_agent", 2, "poll")
    assert workspace.awareness_namespace == f"workspace:{workspace.id}"
    token = await rig.storage.read(lambda tx: tx.tokens.by_hash(credentials.digest(created.auth_token)))
    assert token is not None
    assert await rig.secrets.values(AuditActor("user:admin", "r1"), workspace) == {"KEY": "hush"}
    assert await rig.events() == ["WORKSPACE_AWAITING_AGENT"]


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        ({"name": "  "}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"name": "a{b}"}, "name"),
        ({"name": "a", "role": "r\n"}, "role"),
        ({"name": "a", "runtime": "r" * 101}, "runtime"),
        ({"name": "a", "visibility": "secret"}, "visibility"),
        ({"name": "a", "tier": 0}, "tier"),
        ({"name": "a", "max_concurrent_tasks": 0}, "max_concurrent_tasks"),
        ({"name": "a", "budget_limit": -1}, "budget_limit"),
        ({"name": "a", "secrets": {"1": "x"}}, "key"),
        ({"name": "a", "model": "m" * 101}, "model"),
        ({"name": "a", "url": "http://agent.example/\0"}, "url"),
        ({"name": "a", "workspace_dir": "/etc"}, "workspace_dir"),
        ({"name": "a", "workspace_access": "all"}, "workspace_access"),
        ({"name": "a", "delivery_mode": "push"}, "delivery_mode"),
        ({"name": "a", "hibernation_idle_minutes": -1}, "hibernation_idle_minutes"),
    ],
)
async def test_a_field_that_breaks_its_rule_is_named_and_nothing_is_created(
    rig: Rig, refuses: Refuses, plan: dict[str, Any], field: str
) -> None:
    refusal = await refuses(
        rig.lifecycle_services.creation.create(NewWorkspace(**plan), rig.admin), "invalid-request"
    )
    assert refusal.extras["field"] == field
    assert await rig.storage.read(lambda tx: tx.workspaces.in_org(rig.org.id, WorkspaceFilter(1))) == []
    assert await rig.events() == []


async def test_a_workspace_that_the_platform_would_have_to_start_is_refused_where_nothing_starts_it(
    rig: Rig, refuses: Refuses
) -> None:
    creation = rig.new_lives(None).creation
    refusal = await refuses(
        creation.create(NewWorkspace(name="Ada", runtime="llm"), rig.admin), "no-provisioner"
    )
    assert "external:true" in refusal.sentence
    assert await rig.storage.read(lambda tx: tx.workspaces.in_org(rig.org.id, WorkspaceFilter(1))) == []


@pytest.mark.parametrize("case", ["unknown", "removed"])
async def test_a_parent_must_be_there(rig: Rig, refuses: Refuses, case: str) -> None:
    parent = await rig.agent("Lead")
    if case == "removed":
        await rig.lifecycle.remove(parent, confirmed=False)
    plan = NewWorkspace(name="Ada", parent_id=parent.id if case == "removed" else "nobody")
    await refuses(rig.lifecycle_services.creation.create(plan, rig.admin), "workspace-not-found")


async def test_a_pause_reaches_everything_below_and_nothing_beside(rig: Rig) -> None:
    lead, ada, leaf, other = await family(rig)
    await rig.lifecycle.pause(leaf)
    assert await rig.lifecycle.pause(lead) == 2
    assert await statuses(rig, lead, ada, leaf, other) == ["paused", "paused", "paused", "online"]
    assert (await rig.events()).count("WORKSPACE_PAUSED") == 3


async def test_mail_for_a_paused_workspace_is_accepted_waits_and_is_handed_out_after_the_resume(
    rig: Rig,
) -> None:
    ada = await rig.agent()
    await rig.lifecycle.pause(ada)
    receipt = await rig.send(ada)
    assert await rig.lease(ada) == []
    await rig.lifecycle.resume(ada)
    assert [item["message_id"] for item in await rig.lease(ada)] == [receipt.message.id]


@pytest.mark.parametrize("kind", ["inbox", "cursor"])
async def test_a_pause_gives_back_what_the_agent_held_at_no_cost(rig: Rig, kind: str) -> None:
    ada = await rig.agent()
    message = (await rig.send(ada)).message
    await (rig.lease(ada) if kind == "inbox" else rig.at_cursor(ada, message))
    await rig.lifecycle.pause(ada)
    waiting = await rig.message(message.id)
    assert (waiting.status, waiting.attempts, waiting.lease_kind) == ("accepted", 0, None)


async def test_a_resume_waits_for_each_agent_s_next_heartbeat(rig: Rig) -> None:
    lead, ada, leaf, _ = await family(rig)
    await rig.lifecycle.pause(lead)
    assert await rig.lifecycle.resume(lead) == ["awaiting_agent"] * 3
    assert await statuses(rig, lead, ada, leaf) == ["awaiting_agent"] * 3
    assert (await rig.events()).count("WORKSPACE_RESUMED") == 3


async def test_only_what_is_paused_and_under_no_paused_parent_resumes(rig: Rig, refuses: Refuses) -> None:
    lead, ada, _, other = await family(rig)
    await rig.lifecycle.pause(lead)
    await refuses(rig.lifecycle.resume(ada), "parent-paused")
    await refuses(rig.lifecycle.resume(other), "not-found")


async def test_removing_a_parent_first_says_what_it_takes_along(rig: Rig, refuses: Refuses) -> None:
    lead, ada, leaf, _ = await family(rig)
    refusal = await refuses(rig.lifecycle.remove(lead, confirmed=False), "confirmation-required")
    assert refusal.extras["children"] == [{"id": w.id, "name": w.name} for w in (ada, leaf)]
    assert refusal.extras["children_count"] == 2
    assert await statuses(rig, lead, ada, leaf) == ["online"] * 3


async def test_a_removal_takes_the_subtree_its_tokens_and_its_addresses(rig: Rig) -> None:
    lead, ada, leaf, other = await family(rig)
    token = (await rig.created("Kid", parent=leaf)).auth_token
    assert (await rig.lifecycle.remove(lead, confirmed=True)).removed == 4
    assert await statuses(rig, lead, ada, leaf, other) == ["removed"] * 3 + ["online"]
    ended = await rig.storage.read(lambda tx: tx.tokens.by_hash(credentials.digest(token)))
    assert ended is not None
    assert ended.revoke_reason == "workspace-removed"
    assert (await rig.workspace(lead.id)).removed_at == rig.clock.now()


async def test_the_sender_of_an_open_message_learns_that_its_target_is_gone(rig: Rig) -> None:
    ada = await rig.agent()
    waiting = [(await rig.send(ada)).message for _ in range(2)]
    await rig.lease(ada, limit=1)
    asking = [asyncio.ensure_future(rig.delivery.outcome(message.id, 30)) for message in waiting]
    await rig.lifecycle.remove(ada, confirmed=False)
    for ended in await asyncio.gather(*asking):
        assert (ended.status, (ended.error or {})["code"]) == ("cancelled", "workspace-removed")


async def test_a_second_removal_at_the_same_moment_is_told_that_it_came_late(
    rig: Rig, refuses: Refuses
) -> None:
    ada = await rig.agent()
    await rig.lifecycle.remove(ada, confirmed=False)
    await refuses(rig.lifecycle.remove(ada, confirmed=False), "workspace-removed")


async def test_nothing_is_accepted_for_a_removed_workspace(rig: Rig, refuses: Refuses) -> None:
    ada = await rig.agent()
    await rig.lifecycle.remove(ada, confirmed=False)
    await refuses(rig.send(ada), "workspace-removed")


async def test_an_external_workspace_may_come_with_the_address_of_its_agent_and_waits_for_its_first_word(
    rig: Rig, refuses: Refuses
) -> None:
    created = (await rig.created("Ada", url="http://agent.example/")).workspace
    assert (created.status, created.delivery_mode, created.url) == (
        "awaiting_agent",
        "push",
        "http://agent.example/",
    )
    await refuses(rig.created("Eve", url="http://10.0.0.1/"), "invalid-url")
    refusal = await refuses(rig.created("Eve", runtime="llm", url="http://agent.example/"), "invalid-request")
    assert refusal.extras["field"] == "url"


async def test_the_model_of_a_new_workspace_is_kept_as_its_secret(rig: Rig) -> None:
    created = await rig.created("Ada", model="fast-one")
    assert await rig.secrets.model(AuditActor("user:admin", "r1"), created.workspace) == "fast-one"


async def test_only_the_administrator_gives_the_largest_tier(rig: Rig, refuses: Refuses) -> None:
    owner = Principal("user:ann", rig.org.id, frozenset({"org"}), "ann", "owner")
    refusal = await refuses(
        rig.lifecycle_services.creation.create(NewWorkspace("Ada", tier=4), owner), "scope-required"
    )
    assert refusal.extras["required"] == ["admin"]
    assert (
        await rig.lifecycle_services.creation.create(NewWorkspace("Ada", tier=4), rig.admin)
    ).workspace.tier == 4


async def test_a_purge_erases_what_was_said_and_known_and_leaves_a_tombstone(rig: Rig) -> None:
    created = await rig.created("Ada", role="maths", secrets={"KEY": "hush"})
    ada = created.workspace
    message = (await rig.send(ada, "a secret word")).message
    await rig.lifecycle.remove(ada, confirmed=False, purge=True)
    stone = await rig.workspace(ada.id)
    assert (stone.status, stone.org_id, stone.removed_at) == ("removed", rig.org.id, rig.clock.now())
    assert (stone.name, stone.role, stone.agent_card) == ("", "", None)
    token = await rig.storage.read(lambda tx: tx.tokens.by_hash(credentials.digest(created.auth_token)))
    assert token is not None
    assert (token.revoke_reason, token.name) == ("workspace-removed", "")
    assert await rig.rows(ada) == []
    assert await rig.storage.read(lambda tx: tx.secrets.all_of(rig.org.id, ada.id)) == []
    ended = await rig.message(message.id)
    assert (ended.status, ended.body) == ("cancelled", b"{}")
    assert "WORKSPACE_AWAITING_AGENT" not in await rig.events()
    assert "WORKSPACE_REMOVED" in await rig.events()


@pytest.mark.parametrize("purge", [False, True])
async def test_the_end_of_a_workspace_is_seen_by_who_could_reach_it(
    rig: Rig, principal_of: Callable[[Workspace], Principal], purge: bool
) -> None:
    lead, ada, leaf, other = await family(rig)
    gone = await rig.agent("Gone", parent=ada)
    await rig.lifecycle.remove(gone, confirmed=False, purge=purge)
    events = await rig.storage.read(lambda tx: tx.events.after(0, 1000))
    ended = [event for event in events if event.event_type == "WORKSPACE_REMOVED"]
    several = (lead, ada, leaf, other)
    saw = [bool(await VisibleEvents(rig.storage, rig.clock, principal_of(one)).of(ended)) for one in several]
    assert saw == [True, True, True, False]


async def test_an_agent_that_does_not_stop_is_removed_named_and_stopped_later(rig: Rig) -> None:
    ada = (await rig.created("Ada", runtime="llm")).workspace
    rig.provisioner.stop_problems = ["it hangs"] * 2
    removal = await rig.lifecycle.remove(ada, confirmed=False)
    assert (removal.removed, removal.stop_failures) == (1, [ada.id])
    assert (await rig.workspace(ada.id)).removed
    rig.provisioner.running.add(ada.id)
    rig.provisioner.stop_problems = []
    await rig.lifecycle_services.process_check.tick()
    assert rig.provisioner.running == set()
