"""People and organisations: nobody decides over more than they may do, and an owner always stays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from molecule_platform.domain import principals
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.principals import Principal
from molecule_platform.services.identity.authentication import PresentedCredential
from molecule_platform.services.identity.login import Invitation
from molecule_platform.services.identity.members import MemberChange, MemberService
from molecule_platform.services.identity.organisations import OrganisationService

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig


@pytest.fixture
def people(rig: Rig) -> MemberService:
    return MemberService(rig.storage, rig.clock)


@pytest.fixture
def orgs(rig: Rig) -> OrganisationService:
    return OrganisationService(rig.storage, rig.clock)


async def joined(rig: Rig, name: str, role: str, org: str | None = None) -> Principal:
    """Somebody who was invited and has signed in."""
    return await rig.identity.authenticate(
        PresentedCredential(session=await session_of(rig, name, role, org))
    )


async def session_of(rig: Rig, name: str, role: str, org: str | None = None) -> str:
    code, _ = await rig.login.invite(rig.admin, Invitation(name, role, org), "r")
    return (await rig.login.with_code(code)).token


# Inviting


async def test_nobody_gets_a_link_of_somebody_who_may_do_more(rig: Rig, refuses: Refuses) -> None:
    await joined(rig, "ann", "owner")
    clerk = await joined(rig, "bert", "admin")
    refusal = await refuses(rig.login.invite(clerk, Invitation("ann", "viewer"), "r"), "scope-required")
    assert refusal.extras["required"] == ["org"]
    await refuses(rig.login.invite(clerk, Invitation("admin", "viewer"), "r"), "scope-required")
    assert await rig.storage.read(lambda tx: tx.people.member("admin", rig.org.id)) is None
    await rig.login.invite(clerk, Invitation("cleo", "member"), "r")


async def test_an_invitation_names_the_inviter_s_organisation_or_for_the_administrator_any(
    rig: Rig, orgs: OrganisationService, refuses: Refuses
) -> None:
    acme = await orgs.create("Acme", None)
    ann = await joined(rig, "ann", "owner", "acme")
    assert (ann.org_id, ann.role) == (acme.id, "owner")
    await rig.login.invite(ann, Invitation("bert", "member", acme.id), "r")
    await refuses(rig.login.invite(ann, Invitation("bert", "member", rig.org.slug), "r"), "not-found")
    await refuses(rig.login.invite(rig.admin, Invitation("bert", "member", "nowhere"), "r"), "not-found")


# Changing and removing


async def test_a_change_ends_the_sessions_and_links_of_before_and_only_here(
    rig: Rig, people: MemberService, orgs: OrganisationService, refuses: Refuses
) -> None:
    await orgs.create("Acme", None)
    here, there = await session_of(rig, "ann", "admin"), await session_of(rig, "ann", "owner", "acme")
    link, _ = await rig.login.invite(rig.admin, Invitation("ann", "viewer"), "r")
    await people.change(rig.admin, "ann", MemberChange(role="viewer"), "r")
    await refuses(rig.identity.authenticate(PresentedCredential(session=here)), "token-revoked")
    await refuses(rig.login.with_code(link), "invalid-token")
    assert (await rig.identity.authenticate(PresentedCredential(session=there))).role == "owner"
    again = await joined(rig, "ann", "owner")
    assert (again.role, sorted(again.scopes)) == ("viewer", ["org.read"])


async def test_a_change_that_changes_nothing_ends_no_session(rig: Rig, people: MemberService) -> None:
    session = await session_of(rig, "ann", "owner")
    await people.change(rig.admin, "ann", MemberChange(role="owner", disabled=False), "r")
    assert await rig.identity.authenticate(PresentedCredential(session=session))


async def test_who_is_disabled_cannot_sign_in_until_that_is_undone(
    rig: Rig, people: MemberService, refuses: Refuses
) -> None:
    session = await session_of(rig, "ann", "member")
    await people.change(rig.admin, "ann", MemberChange(disabled=True), "r")
    await refuses(rig.identity.authenticate(PresentedCredential(session=session)), "token-revoked")
    await refuses(rig.login.invite(rig.admin, Invitation("ann", "member"), "r"), "conflict")
    code, _ = await rig.login.new_code("ann", "member", rig.org.id)
    refusal = await refuses(rig.login.with_code(code), "invalid-token")
    assert (refusal.status, "ann is disabled" in refusal.sentence) == (401, True)
    await people.change(rig.admin, "ann", MemberChange(disabled=False), "r")
    assert (await joined(rig, "ann", "member")).name == "ann"


async def test_who_is_removed_is_signed_out_and_no_longer_listed(
    rig: Rig, people: MemberService, refuses: Refuses
) -> None:
    session = await session_of(rig, "ann", "member")
    await people.remove(rig.admin, "ann", "r")
    await refuses(rig.identity.authenticate(PresentedCredential(session=session)), "token-revoked")
    assert await people.listing(rig.admin, "", 10) == []
    await refuses(people.remove(rig.admin, "ann", "r"), "not-found")


async def test_signing_in_is_remembered_in_that_organisation_alone(
    rig: Rig, people: MemberService, orgs: OrganisationService
) -> None:
    acme = await orgs.create("Acme", None)
    await joined(rig, "ann", "member")
    await rig.login.invite(rig.admin, Invitation("ann", "viewer", "acme"), "r")
    [here] = await people.listing(rig.admin, "", 10)
    [there] = await people.listing(replace(rig.admin, org_id=acme.id), "", 10)
    assert (here.role, here.last_login_at) == ("member", rig.clock.now())
    assert (there.role, there.last_login_at) == ("viewer", None)


async def test_nobody_changes_or_removes_somebody_who_may_do_more(
    rig: Rig, people: MemberService, refuses: Refuses
) -> None:
    await joined(rig, "ann", "owner")
    clerk = await joined(rig, "bert", "admin")
    await joined(rig, "cleo", "member")
    await refuses(people.change(clerk, "ann", MemberChange(role="viewer"), "r"), "scope-required")
    await refuses(people.remove(clerk, "ann", "r"), "scope-required")
    await refuses(people.change(clerk, "cleo", MemberChange(role="owner"), "r"), "scope-required")
    await people.change(clerk, "cleo", MemberChange(role="admin"), "r")


async def test_people_of_another_organisation_are_not_found(
    rig: Rig, people: MemberService, orgs: OrganisationService, refuses: Refuses
) -> None:
    await orgs.create("Acme", None)
    ann = await joined(rig, "ann", "owner", "acme")
    await joined(rig, "bert", "viewer")
    unknown = await refuses(people.remove(ann, "nobody", "r"), "not-found")
    other = await refuses(people.remove(ann, "bert", "r"), "not-found")
    assert other.sentence == unknown.sentence.replace("nobody", "bert")
    await refuses(people.change(ann, "bert", MemberChange(role="owner"), "r"), "not-found")


async def test_who_invited_changed_and_removed_somebody_is_written_down(
    rig: Rig, people: MemberService
) -> None:
    await rig.login.invite(rig.admin, Invitation("ann", "member"), "r-1")
    await people.change(rig.admin, "ann", MemberChange(role="member"), "r-2")
    await people.change(rig.admin, "ann", MemberChange(role="admin"), "r-3")
    await people.remove(rig.admin, "ann", "r-4")
    deeds = await rig.storage.read(lambda tx: tx.audit.newest(rig.org.id, 10))
    assert [(deed.action, deed.object, deed.request_id) for deed in reversed(deeds)] == [
        ("user.invite", "user:ann", "r-1"),
        ("user.change", "user:ann", "r-3"),
        ("user.delete", "user:ann", "r-4"),
    ]
    assert {deed.principal for deed in deeds} == {"user:admin"}


# The platform's administrators


async def test_only_an_administrator_makes_another_and_that_ends_every_sign_in(
    rig: Rig, people: MemberService, orgs: OrganisationService, refuses: Refuses
) -> None:
    await orgs.create("Acme", None)
    ann = await joined(rig, "ann", "owner")
    await refuses(people.change(ann, "ann", MemberChange(platform_admin=True), "r"), "scope-required")
    there = await session_of(rig, "ann", "viewer", "acme")
    held, _ = await rig.login.invite(rig.admin, Invitation("ann", "viewer", "acme"), "r")
    await people.change(rig.admin, "ann", MemberChange(platform_admin=True), "r")
    await refuses(rig.identity.authenticate(PresentedCredential(session=there)), "token-revoked")
    await refuses(rig.login.with_code(held), "invalid-token")
    raised = await joined(rig, "ann", "viewer", "acme")
    assert raised.scopes == principals.ADMIN_SCOPES
    await people.change(rig.admin, "ann", MemberChange(platform_admin=False), "r")
    assert (await joined(rig, "ann", "owner")).scopes == principals.ROLE_SCOPES["owner"]


async def test_an_owner_has_no_power_over_an_administrator_in_the_own_organisation(
    rig: Rig, people: MemberService, refuses: Refuses
) -> None:
    await joined(rig, "admin", "owner")
    ann = await joined(rig, "ann", "owner")
    for attempt in (
        people.change(ann, "admin", MemberChange(disabled=True), "r"),
        people.remove(ann, "admin", "r"),
    ):
        await refuses(attempt, "scope-required")
    refused = people.change(rig.admin, "admin", MemberChange(platform_admin=False), "r")
    assert "own token" in (await refuses(refused, "conflict")).sentence


# The last owner


@pytest.mark.parametrize("change", [MemberChange(role="admin"), MemberChange(disabled=True), None])
async def test_the_last_owner_can_be_neither_demoted_nor_disabled_nor_removed(
    rig: Rig, people: MemberService, refuses: Refuses, change: MemberChange | None
) -> None:
    await joined(rig, "ann", "owner")
    await joined(rig, "bert", "owner")

    def attempt(name: str) -> Awaitable[object]:
        if change is None:
            return people.remove(rig.admin, name, "r")
        return people.change(rig.admin, name, change, "r")

    await attempt("ann")
    await refuses(attempt("bert"), "conflict")
    await people.change(rig.admin, "bert", MemberChange(disabled=False), "r")


async def test_of_two_owners_who_leave_at_once_one_stays(rig: Rig, people: MemberService) -> None:
    ann, bert = await joined(rig, "ann", "owner"), await joined(rig, "bert", "owner")
    outcomes = await asyncio.gather(
        people.remove(ann, "bert", "r"),
        people.change(bert, "ann", MemberChange(role="viewer"), "r"),
        return_exceptions=True,
    )
    refused = [outcome for outcome in outcomes if isinstance(outcome, ApiError)]
    assert [refusal.code for refusal in refused] == ["conflict"]
    assert await rig.storage.read(lambda tx: tx.people.owners(rig.org.id)) == 1


# Organisations


async def test_an_organisation_gets_a_slug_from_its_name_and_no_two_have_the_same(
    orgs: OrganisationService, rig: Rig, refuses: Refuses
) -> None:
    made = await orgs.create("Café Zürich & Söhne", None)
    assert made.slug == "cafe-zurich-sohne"
    assert await orgs.show(rig.admin, made.slug) == await orgs.show(rig.admin, made.id) == made
    await refuses(orgs.create("Cafe Zurich Sohne!", None), "already-exists")
    await refuses(orgs.create("日本", None), "invalid-request")
    await refuses(orgs.create("  ", "x"), "invalid-request")


@pytest.mark.parametrize("slug", ["", "-a", "A", "a_b", "a" * 64, "01890000-0000-7000-8000-000000000000"])
async def test_a_slug_is_short_plain_and_no_id(
    orgs: OrganisationService, refuses: Refuses, slug: str
) -> None:
    refusal = await refuses(orgs.create("x", slug), "invalid-request")
    assert refusal.extras["field"] == "slug"


async def test_an_organisation_is_renamed_and_keeps_its_id(
    orgs: OrganisationService, rig: Rig, refuses: Refuses
) -> None:
    acme = await orgs.create("Acme", None)
    renamed = await orgs.change(rig.admin, "acme", "Apex", "apex")
    assert renamed == replace(acme, name="Apex", slug="apex")
    await refuses(orgs.show(rig.admin, "acme"), "not-found")
    await refuses(orgs.change(rig.admin, "apex", None, "default"), "already-exists")
    assert await orgs.change(rig.admin, acme.id, None, None) == renamed


async def test_from_inside_only_the_own_organisation_exists(
    orgs: OrganisationService, rig: Rig, refuses: Refuses
) -> None:
    acme = await orgs.create("Acme", None)
    ann = await joined(rig, "ann", "viewer", "acme")
    assert await orgs.listing(ann, "", 10) == [await orgs.show(ann, "acme")] == [acme]
    assert await orgs.listing(ann, "acme", 10) == []
    other, unknown = [await refuses(orgs.show(ann, named), "not-found") for named in ("default", "nowhere")]
    assert other.sentence == unknown.sentence
    assert [org.slug for org in await orgs.listing(rig.admin, "", 10)] == ["acme", "default"]


async def test_the_administrator_acts_in_the_organisation_that_a_request_names(
    orgs: OrganisationService, rig: Rig, refuses: Refuses
) -> None:
    acme = await orgs.create("Acme", None)
    for named in ("acme", acme.id):
        assert (await rig.authority.check_org(rig.admin, named)).org_id == acme.id
    assert await rig.authority.check_org(rig.admin, None) == rig.admin
    await refuses(rig.authority.check_org(rig.admin, "nowhere"), "not-found")
    ann = await joined(rig, "ann", "owner", "acme")
    assert await rig.authority.check_org(ann, "acme") == ann
    await refuses(rig.authority.check_org(ann, "default"), "not-found")
