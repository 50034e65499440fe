"""The register decision table, line by line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from molecule_platform.domain import credentials
from molecule_platform.domain.authorisation import org_with
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.workspaces import WorkspaceFilter
from molecule_platform.services.identity.authentication import PresentedCredential
from molecule_platform.services.workspaces.directory import DirectoryQuery
from molecule_platform.services.workspaces.registration import RegistrationRequest, RegistrationResult

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

Of = Callable[[Workspace], Principal]
CARD = {"name": "Ada"}


async def join(rig: Rig, workspace: Workspace, *by: Principal, **more: Any) -> RegistrationResult:
    rules = {name: more.pop(name) for name in ("claim_on_register", "strict") if name in more}
    who = by[0] if by else None
    return await rig.registration(**rules).register(RegistrationRequest(workspace.id, CARD, **more), who)


async def test_its_own_token_applies_card_address_and_mode_and_mints_nothing(
    rig: Rig, principal_of: Of
) -> None:
    workspace = (await rig.created()).workspace
    membership = await join(rig, workspace, principal_of(workspace), url="http://agent:9", protocols=["1.0"])
    now = await rig.workspace(workspace.id)
    assert membership.applied
    assert (membership.auth_token, membership.recovery_secret) == (None, None)
    assert (now.url, now.delivery_mode, now.agent_card, now.protocols) == (
        "http://agent:9",
        "push",
        CARD,
        ["1.0"],
    )
    assert (now.status, now.claimed_at) == ("online", rig.clock.now())
    assert (await rig.events())[-1] == "WORKSPACE_ONLINE"


async def test_the_token_of_another_workspace_is_a_mismatch(
    rig: Rig, principal_of: Of, refuses: Refuses
) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob")
    await refuses(join(rig, ada, principal_of(bob)), "identity-mismatch")


async def test_nobody_s_workspace_is_claimed_by_the_first_who_asks(rig: Rig) -> None:
    created = await rig.created(claimable=True)
    membership = await join(rig, created.workspace)
    assert membership.applied
    assert membership.auth_token not in (None, created.auth_token)
    kept = await rig.storage.read(
        lambda tx: tx.tokens.by_hash(credentials.digest(membership.auth_token or ""))
    )
    assert kept is not None
    assert (kept.workspace_id, kept.scopes) == (created.workspace.id, ["workspace"])


@pytest.mark.parametrize("rules", [{"claim_on_register": False}, {}])
async def test_no_claim_is_possible_when_it_is_switched_off_or_too_late(
    rig: Rig, refuses: Refuses, rules: dict[str, bool]
) -> None:
    workspace = (await rig.created(claimable=True)).workspace
    if not rules:
        rig.clock.advance(86_400)
    refusal = await refuses(join(rig, workspace, **rules), "unauthenticated")
    assert f"molecule workspace enrol {workspace.id}" in refusal.sentence
    assert (await rig.workspace(workspace.id)).status == "awaiting_agent"


async def test_a_claimed_workspace_tells_a_stranger_that_nothing_changed(rig: Rig) -> None:
    workspace = (await rig.created(claimable=True)).workspace
    await join(rig, workspace)
    before = await rig.workspace(workspace.id)
    again = await join(rig, workspace, url="http://stranger")
    assert (again.applied, again.auth_token) == (False, None)
    assert await rig.workspace(workspace.id) == before


async def test_a_strict_platform_refuses_the_stranger(rig: Rig, refuses: Refuses) -> None:
    workspace = (await rig.created(claimable=True)).workspace
    await join(rig, workspace)
    await refuses(join(rig, workspace, strict=True), "unauthenticated")


async def test_using_the_token_of_its_creation_claims_a_workspace_having_it_does_not(rig: Rig) -> None:
    created = await rig.created(claimable=True)
    token = await rig.storage.read(lambda tx: tx.tokens.by_hash(credentials.digest(created.auth_token)))
    assert token is not None
    assert (await join(rig, created.workspace)).applied
    other = await rig.created("Bob", claimable=True)
    await rig.identity.authenticate(PresentedCredential(bearer=other.auth_token))
    assert not (await join(rig, other.workspace)).applied


async def test_a_recovery_secret_works_once_and_ends_the_token_it_came_with(
    rig: Rig, refuses: Refuses
) -> None:
    workspace = (await rig.created(claimable=True)).workspace
    first = await join(rig, workspace)
    proof = {"recovery_secret": first.recovery_secret}
    second = await join(rig, workspace, **proof)
    assert second.applied
    assert second.auth_token != first.auth_token
    assert second.recovery_secret != first.recovery_secret
    old = await rig.storage.read(lambda tx: tx.tokens.by_hash(credentials.digest(first.auth_token or "")))
    assert old is not None
    assert old.revoke_reason == "recovered"
    await refuses(join(rig, workspace, **proof), "enrolment-invalid")


async def test_an_enrolment_token_works_once_also_for_a_claimed_workspace(rig: Rig, refuses: Refuses) -> None:
    workspace = await rig.agent()
    proof, issued = await rig.tokens.new_enrolment(rig.admin, workspace, timedelta(seconds=60))
    assert (issued.expires_at - rig.clock.now()).total_seconds() == 60
    assert (await join(rig, workspace, enrolment_token=proof)).auth_token is not None
    await refuses(join(rig, workspace, enrolment_token=proof), "enrolment-invalid")


async def test_a_proof_that_is_late_wrong_or_another_s_is_refused(rig: Rig, refuses: Refuses) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob")
    late, _ = await rig.tokens.new_enrolment(rig.admin, ada, timedelta(seconds=60))
    others, _ = await rig.tokens.new_enrolment(rig.admin, bob, timedelta(seconds=6000))
    rig.clock.advance(60)
    for proof in (late, others, "made up"):
        await refuses(join(rig, ada, enrolment_token=proof), "enrolment-invalid")
    await refuses(join(rig, ada, recovery_secret="made up"), "enrolment-invalid")


@pytest.mark.parametrize(
    ("code", "more"),
    [
        ("enrolment-invalid", {"recovery_secret": "made up"}),
        ("enrolment-invalid", {"enrolment_token": "made up"}),
        ("unauthenticated", {"strict": True}),
        ("unauthenticated", {"claim_on_register": False}),
    ],
)
async def test_nobody_is_asked_on_behalf_of_a_stranger(
    rig: Rig, refuses: Refuses, monkeypatch: pytest.MonkeyPatch, code: str, more: dict[str, Any]
) -> None:
    judged: list[Any] = []

    async def judge(_workspace_id: str, card: dict[str, Any]) -> str:
        judged.append(card)
        return "verified"

    monkeypatch.setattr(rig, "judge_card", judge)
    workspace = (await rig.created(claimable=True)).workspace
    if "claim_on_register" not in more:
        await join(rig, workspace)
        judged.clear()
    await refuses(join(rig, workspace, url="http://agent:9", **more), code)
    assert judged == []


async def test_an_unknown_workspace_is_not_found_and_not_made(rig: Rig, refuses: Refuses) -> None:
    await refuses(
        rig.registration().register(RegistrationRequest(str(uuid4()), CARD), None), "workspace-not-found"
    )
    assert await rig.storage.read(lambda tx: tx.workspaces.in_org(rig.org.id, WorkspaceFilter(1))) == []


@pytest.mark.parametrize(
    ("card", "name"),
    [
        ({"name": " Ada "}, "Ada"),
        ({"name": "{Ada}"}, "agent-"),
        ({"name": 7}, "agent-"),
        ({}, "agent-"),
    ],
)
async def test_open_enrolment_makes_an_unknown_agent_an_isolated_root(
    rig: Rig, card: dict[str, Any], name: str
) -> None:
    bob = await rig.agent("Bob")
    application = RegistrationRequest(str(uuid4()), card)
    membership = await rig.registration(open_org_id=rig.org.id).register(application, None)
    made = await rig.workspace(application.workspace_id)
    assert membership.auth_token is not None
    assert made.name.startswith(name)
    assert (made.org_id, made.parent_id, made.isolated, made.status) == (rig.org.id, None, True, "online")
    told = ["WORKSPACE_AWAITING_AGENT", "WORKSPACE_CLAIMED", "WORKSPACE_ONLINE"]
    assert (await rig.events())[-3:] == told
    assert (await rig.directory.peers(bob, "http://platform", DirectoryQuery())).rows == []


async def test_open_enrolment_lets_nobody_in_with_another_s_token_or_a_made_up_proof(
    rig: Rig, principal_of: Of, refuses: Refuses
) -> None:
    bob = await rig.agent("Bob")
    joining = rig.registration(open_org_id=rig.org.id)
    await refuses(
        joining.register(RegistrationRequest(str(uuid4()), CARD), principal_of(bob)), "workspace-not-found"
    )
    with_proof = RegistrationRequest(str(uuid4()), CARD, enrolment_token="made up")
    await refuses(joining.register(with_proof, None), "enrolment-invalid")
    closed = rig.registration(open_org_id=rig.org.id, claim_on_register=False)
    await refuses(closed.register(RegistrationRequest(str(uuid4()), CARD), None), "unauthenticated")
    assert [
        one.place.id
        for one in await rig.storage.read(lambda tx: tx.workspaces.in_org(rig.org.id, WorkspaceFilter(9)))
    ] == [bob.id]


async def test_open_enrolment_claims_a_workspace_only_once(rig: Rig) -> None:
    joining = rig.registration(open_org_id=rig.org.id)
    application = RegistrationRequest(str(uuid4()), CARD)
    assert (await joining.register(application, None)).applied
    again = await joining.register(application, None)
    assert (again.applied, again.auth_token) == (False, None)


@pytest.mark.parametrize("own", [True, False])
async def test_a_removed_workspace_is_told_so(
    rig: Rig, principal_of: Of, refuses: Refuses, own: bool
) -> None:
    workspace = await rig.agent()
    await rig.lifecycle.remove(workspace, confirmed=False)
    who = [principal_of(workspace)] if own else []
    refusal = await refuses(join(rig, workspace, *who), "workspace-removed")
    assert refusal.extras["removed_at"] == "2026-05-02T12:00:00.000Z"


@pytest.mark.parametrize("status", ["paused", "hibernating", "hibernated"])
async def test_registering_never_undoes_an_operator_s_decision(
    rig: Rig, principal_of: Of, status: str
) -> None:
    workspace = await rig.changed(await rig.agent(), status=status)
    membership = await join(rig, workspace, principal_of(workspace))
    assert membership.workspace.status == status


@pytest.mark.parametrize(
    ("url", "asked", "mode", "kept"),
    [
        ("", None, "poll", ""),
        ("remote://laptop", None, "poll", ""),
        ("http://agent/a2a", None, "push", "http://agent/a2a"),
        ("https://agent/a2a", "push", "push", "https://agent/a2a"),
        ("https://agent/a2a", "poll", "poll", ""),
        ("", "push", "poll", ""),
    ],
)
async def test_the_address_decides_the_delivery_mode(
    rig: Rig, principal_of: Of, url: str, asked: str | None, mode: str, kept: str
) -> None:
    workspace = (await rig.created(claimable=True)).workspace
    now = (await join(rig, workspace, principal_of(workspace), url=url, delivery_mode=asked)).workspace
    assert (now.delivery_mode, now.url) == (mode, kept)


@pytest.mark.parametrize("url", ["ftp://agent", "agent:9", "http://10.0.0.1/a2a"])
async def test_an_address_that_cannot_be_called_is_refused_and_nothing_changes(
    rig: Rig, principal_of: Of, refuses: Refuses, url: str
) -> None:
    workspace = (await rig.created(claimable=True)).workspace
    await refuses(join(rig, workspace, principal_of(workspace), url=url), "invalid-url")
    assert (await rig.workspace(workspace.id)).status == "awaiting_agent"


async def test_an_unknown_delivery_mode_is_refused(rig: Rig, refuses: Refuses) -> None:
    workspace = (await rig.created(claimable=True)).workspace
    await refuses(join(rig, workspace, delivery_mode="pigeon"), "invalid-request")


async def test_a_dispatch_secret_is_sealed_for_its_place_and_kept_when_not_named_again(
    rig: Rig, principal_of: Of
) -> None:
    workspace = (await rig.created(claimable=True)).workspace
    await join(rig, workspace, principal_of(workspace), dispatch_secret="hush")
    sealed = (await rig.workspace(workspace.id)).dispatch_secret_sealed
    assert sealed == f"org-one|{workspace.id}|dispatch:hsuh"
    await join(rig, workspace, principal_of(workspace))
    assert (await rig.workspace(workspace.id)).dispatch_secret_sealed == sealed


async def test_registering_again_while_online_is_no_news(rig: Rig, principal_of: Of) -> None:
    workspace = await rig.agent()
    before = await rig.events()
    await join(rig, workspace, principal_of(workspace))
    assert await rig.events() == before


async def test_registering_again_with_another_card_while_online_announces_it(
    rig: Rig, principal_of: Of
) -> None:
    ada = await rig.agent()
    await rig.registration().register(RegistrationRequest(ada.id, {"name": "New"}), principal_of(ada))
    assert (await rig.events())[-1] == "AGENT_CARD_UPDATED"


async def test_coming_online_with_another_card_is_told_once(rig: Rig, principal_of: Of) -> None:
    ada = await rig.changed(await rig.agent(), status="offline")
    before = await rig.events()
    await rig.registration().register(RegistrationRequest(ada.id, {"name": "New"}), principal_of(ada))
    assert (await rig.events())[len(before) :] == ["WORKSPACE_ONLINE"]


async def test_a_new_card_is_kept_and_announced(rig: Rig) -> None:
    workspace = await rig.agent()
    await rig.registration().update_card(workspace, {"name": "Ada the second"})
    assert (await rig.workspace(workspace.id)).agent_card == {"name": "Ada the second"}
    assert (await rig.events())[-1] == "AGENT_CARD_UPDATED"


async def test_whoever_knew_the_old_card_sees_the_new_one(rig: Rig) -> None:
    ada = await rig.agent(url="http://agent/a2a")
    rules = (org_with("org.read"),)
    await rig.authority.authorize(rig.admin, rules, ada.id)
    await rig.registration().update_card(ada, {"name": "Ada", "version": "2"})
    seen = (await rig.authority.authorize(rig.admin, rules, ada.id)).workspace
    assert seen is not None
    assert seen.agent_card == {"name": "Ada", "version": "2"}
