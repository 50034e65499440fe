"""Tokens: nobody gives away what they no longer hold, and nothing outlives what it was made with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain import credentials, principals
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.services.identity.authentication import PresentedCredential
from molecule_platform.services.identity.login import Invitation
from molecule_platform.services.identity.members import MemberChange, MemberService
from molecule_platform.services.identity.tokens import (
    IssuedToken,
    NewTokenRequest,
    TokenService,
)
from molecule_platform.services.workspaces.registration import RegistrationRequest
from molecule_platform.services.workspaces.workspace_creation import NewWorkspace

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

HOUR = timedelta(hours=1)
READER = NewTokenRequest("reader", ("org.read", "org.tokens", "org.impersonate"))
Uses = Callable[["Rig", TokenService, Principal, Workspace], Awaitable[Any]]


@pytest.fixture
def tokens(rig: Rig) -> TokenService:
    return rig.tokens


@pytest.fixture
async def eve(rig: Rig) -> Principal:
    """One of two owners, so that she may leave."""
    for name in ("eve", "ann"):
        await rig.storage.write(
            lambda tx, name=name: tx.people.put_member(name, rig.org.id, "owner", rig.clock.now())
        )
    return replace(rig.admin, text="user:eve", scopes=principals.ROLE_SCOPES["owner"])


@pytest.fixture
def people(rig: Rig) -> MemberService:
    return MemberService(rig.storage, rig.clock)


async def ends_of(rig: Rig, *minted: IssuedToken) -> list[str | None]:
    """Why each of these tokens has ended."""
    kept = [await rig.storage.read(lambda tx, one=one: tx.tokens.get(one.token.id)) for one in minted]
    return [None if token is None else token.revoke_reason for token in kept]


async def shown(rig: Rig, minted: IssuedToken) -> Principal:
    return await rig.identity.authenticate(PresentedCredential(bearer=minted.secret))


async def signed_in(rig: Rig, bearer: str) -> Principal:
    session = (await rig.login.with_token(bearer)).token
    return await rig.identity.authenticate(PresentedCredential(session=session))


async def rotates(_rig: Rig, tokens: TokenService, principal: Principal, workspace: Workspace) -> None:
    await tokens.rotate(principal, workspace, timedelta(0))


async def mints(_rig: Rig, tokens: TokenService, principal: Principal, workspace: Workspace) -> None:
    await tokens.mint_for_workspace(principal, workspace, NewTokenRequest("again"))


async def test_a_token_that_was_revoked_a_moment_ago_is_not_exchanged_for_another(
    rig: Rig, tokens: TokenService, refuses: Refuses
) -> None:
    ada = await rig.agent()
    minted = await tokens.mint_for_workspace(rig.admin, ada, NewTokenRequest("ci"))
    admitted = await shown(rig, minted)
    await tokens.revoke(rig.admin, ada, minted.token.id)
    for use in (rotates, mints):
        await refuses(use(rig, tokens, admitted, ada), "token-revoked")
    kept = [token.id for token in await tokens.of_workspace(ada)]
    await refuses(tokens.revoke(admitted, ada, kept[0]), "token-revoked")


async def mints_for_the_org(_rig: Rig, tokens: TokenService, principal: Principal, _ada: Workspace) -> None:
    await tokens.mint_for_org(principal, NewTokenRequest("again", ("org.read",)))


async def invites(rig: Rig, _tokens: TokenService, principal: Principal, _ada: Workspace) -> None:
    await rig.login.invite(principal, Invitation("eve", "viewer"), "r")


@pytest.mark.parametrize("by_session", [False, True])
@pytest.mark.parametrize("use", [mints, mints_for_the_org, invites])
async def test_an_organisation_s_token_that_was_revoked_a_moment_ago_gives_nothing_away(
    rig: Rig, tokens: TokenService, refuses: Refuses, use: Uses, by_session: bool
) -> None:
    ada = await rig.agent()
    minted = await tokens.mint_for_org(rig.admin, READER)
    admitted = await (signed_in(rig, minted.secret) if by_session else shown(rig, minted))
    await tokens.revoke(rig.admin, None, minted.token.id)
    await refuses(use(rig, tokens, admitted, ada), "token-revoked")


async def test_no_token_outlives_the_one_that_a_session_was_exchanged_for(
    rig: Rig, tokens: TokenService, refuses: Refuses
) -> None:
    ends = rig.clock.now() + HOUR
    short = await tokens.mint_for_org(rig.admin, NewTokenRequest("short", READER.scopes, ends))
    for minter in (await shown(rig, short), await signed_in(rig, short.secret)):
        assert (await tokens.mint_for_org(minter, READER)).token.expires_at == ends
        longer = NewTokenRequest("long", READER.scopes, ends + HOUR)
        await refuses(tokens.mint_for_org(minter, longer), "invalid-request")


async def test_no_token_outlives_one_that_was_rotated_after_it_was_let_in(
    rig: Rig, tokens: TokenService
) -> None:
    ada = await rig.agent()
    old = await tokens.mint_for_workspace(rig.admin, ada, NewTokenRequest("ci"))
    admitted = await shown(rig, old)
    await tokens.rotate(admitted, ada, HOUR)
    further = await tokens.mint_for_workspace(admitted, ada, NewTokenRequest("more"))
    assert further.token.expires_at == rig.clock.now() + HOUR


async def test_the_tokens_of_people_and_of_the_administrator_need_not_end(
    rig: Rig, tokens: TokenService
) -> None:
    code, _ = await rig.login.new_code("ann", "owner", rig.org.id)
    session = (await rig.login.with_code(code)).token
    ann = await rig.identity.authenticate(PresentedCredential(session=session))
    for minter in (ann, rig.admin):
        assert (await tokens.mint_for_org(minter, READER)).token.expires_at is None


async def test_whoever_acts_as_a_workspace_rotates_no_token_and_loses_none(
    rig: Rig, tokens: TokenService, refuses: Refuses
) -> None:
    ada = await rig.agent()
    minted = await tokens.mint_for_org(rig.admin, NewTokenRequest("actor", ("org.impersonate",)))
    acting = await rig.authority.acting_as(await shown(rig, minted), ada.id, "r")
    await refuses(tokens.rotate(acting, ada, timedelta(0)), "forbidden")
    assert (await shown(rig, minted)).may("org.impersonate")


async def test_what_is_minted_while_acting_as_a_workspace_ends_with_the_actor_s_token(
    rig: Rig, tokens: TokenService
) -> None:
    ada, ends = await rig.agent(), rig.clock.now() + HOUR
    minted = await tokens.mint_for_org(rig.admin, NewTokenRequest("actor", ("org.impersonate",), ends))
    acting = await rig.authority.acting_as(await shown(rig, minted), ada.id, "r")
    further = await tokens.mint_for_workspace(acting, ada, NewTokenRequest("ci", ("ws.send",)))
    assert further.token.expires_at == ends


async def test_a_token_is_rotated_for_its_own_workspace_only(
    rig: Rig, tokens: TokenService, refuses: Refuses
) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob")
    minted = await tokens.mint_for_workspace(rig.admin, ada, NewTokenRequest("ci"))
    await refuses(tokens.rotate(await shown(rig, minted), bob, timedelta(0)), "forbidden")


async def token_with(rig: Rig, *scopes: str) -> Principal:
    return await shown(rig, await rig.tokens.mint_for_org(rig.admin, NewTokenRequest("t", scopes)))


@pytest.mark.parametrize("scopes", [("org.tokens",), sorted(principals.ROLE_SCOPES["admin"])])
async def test_the_right_to_tokens_alone_gives_none_that_acts_as_a_workspace(
    rig: Rig, tokens: TokenService, refuses: Refuses, scopes: tuple[str, ...]
) -> None:
    ada, minter = await rig.agent(), await token_with(rig, *scopes)
    for refused in (
        tokens.mint_for_workspace(minter, ada, NewTokenRequest("t")),
        tokens.mint_for_workspace(minter, ada, NewTokenRequest("t", ("ws.send",))),
        tokens.new_enrolment(minter, ada, HOUR),
    ):
        refusal = await refuses(refused, "scope-required")
        assert refusal.extras["required"] == ["org.impersonate"]


async def test_what_a_workspace_knows_is_passed_on_only_with_the_right_to_secrets(
    rig: Rig, tokens: TokenService, refuses: Refuses
) -> None:
    ada, minter = await rig.agent(), await token_with(rig, "org.tokens", "org.impersonate")
    for scope in ("workspace", "ws", "ws.secrets", "ws.secrets.read"):
        await refuses(
            tokens.mint_for_workspace(minter, ada, NewTokenRequest("t", (scope,))), "scope-required"
        )
    minted = await tokens.mint_for_workspace(minter, ada, NewTokenRequest("t"))
    assert minted.token.scopes == sorted(principals.IMPERSONATED_SCOPES)
    _secret, issued = await tokens.new_enrolment(minter, ada, HOUR)
    assert issued.scopes == sorted(principals.IMPERSONATED_SCOPES)
    knowing = await token_with(rig, "org.tokens", "org.impersonate", "org.secrets")
    assert (await tokens.mint_for_workspace(knowing, ada, NewTokenRequest("t"))).token.scopes == ["workspace"]


async def test_an_enrolment_token_yields_no_more_and_for_no_longer_than_its_issuer_has(
    rig: Rig, tokens: TokenService, refuses: Refuses
) -> None:
    ada, ends = await rig.agent(), rig.clock.now() + HOUR
    wish = NewTokenRequest("t", ("org.tokens", "org.impersonate"), ends)
    issuer = await shown(rig, await tokens.mint_for_org(rig.admin, wish))
    secret, issued = await tokens.new_enrolment(issuer, ada, 2 * HOUR)
    assert issued.expires_at == ends
    first = RegistrationRequest(ada.id, {"name": "Ada"}, enrolment_token=secret)
    joined = await rig.registration().register(first, None)
    again = RegistrationRequest(ada.id, {"name": "Ada"}, recovery_secret=joined.recovery_secret)
    recovered = await rig.registration().register(again, None)
    for came in (joined, recovered):
        digest = credentials.digest(came.auth_token or "")
        token = await rig.storage.read(lambda tx, digest=digest: tx.tokens.by_hash(digest))
        assert token is not None
        assert (token.scopes, token.expires_at) == (sorted(principals.IMPERSONATED_SCOPES), ends)
    rig.clock.advance(3600)
    late = RegistrationRequest(ada.id, {"name": "Ada"}, recovery_secret=recovered.recovery_secret)
    await refuses(rig.registration().register(late, None), "enrolment-invalid")


@pytest.mark.parametrize("claims", [False, True])
async def test_whoever_creates_a_workspace_without_the_right_to_secrets_does_not_read_them_there(
    rig: Rig, claims: bool
) -> None:
    creator = await token_with(rig, "org.write")
    made = await rig.lifecycle_services.creation.create(NewWorkspace("Ada"), creator)
    token = made.auth_token
    if claims:
        came = await rig.registration().register(
            RegistrationRequest(made.workspace.id, {"name": "Ada"}), None
        )
        token = came.auth_token or ""
    principal = await rig.identity.authenticate(PresentedCredential(bearer=token))
    assert principal.may("ws.send")
    assert not principal.may("ws.secrets.read")


async def test_tokens_of_a_person_end_with_the_person_and_agents_keep_theirs(
    rig: Rig, tokens: TokenService, people: MemberService, eve: Principal
) -> None:
    created = await rig.lifecycle_services.creation.create(NewWorkspace("Ada"), eve)
    minter = await tokens.mint_for_org(eve, NewTokenRequest("t", ("org",)))
    further = await tokens.mint_for_org(await shown(rig, minter), NewTokenRequest("t", ("org.read",)))
    by_session = await tokens.mint_for_org(
        await signed_in(rig, minter.secret), NewTokenRequest("t", ("org.read",))
    )
    of_ada = await tokens.mint_for_workspace(eve, created.workspace, NewTokenRequest("t"))
    enrolment, _ = await tokens.new_enrolment(eve, created.workspace, HOUR)
    await people.remove(rig.admin, "eve", "r")
    assert await ends_of(rig, minter, further, by_session, of_ada) == ["minter-ended"] * 4
    digest = credentials.digest(enrolment)
    now = rig.clock.now()
    assert await rig.storage.read(lambda tx: tx.tokens.enrolment(created.workspace.id, digest, now)) is None
    assert (await rig.identity.authenticate(PresentedCredential(bearer=created.auth_token))).may("ws.send")


async def test_a_token_ends_with_the_person_at_its_root_however_it_was_come_by(
    rig: Rig, tokens: TokenService, people: MemberService, eve: Principal
) -> None:
    ada = (await rig.lifecycle_services.creation.create(NewWorkspace("Ada"), eve)).workspace
    between = await tokens.mint_for_org(eve, NewTokenRequest("t", ("org",)))
    through_revoked = await tokens.mint_for_org(
        await shown(rig, between), NewTokenRequest("t", ("org.read",))
    )
    await tokens.revoke(eve, None, between.token.id)
    of_ada = await tokens.mint_for_workspace(eve, ada, NewTokenRequest("t"))
    by_itself = await tokens.mint_for_workspace(await shown(rig, of_ada), ada, NewTokenRequest("t"))
    rotated = await tokens.rotate(await shown(rig, of_ada), ada, timedelta(0))
    await people.remove(rig.admin, "eve", "r")
    assert await ends_of(rig, through_revoked, by_itself, rotated) == ["minter-ended"] * 3


async def test_an_agent_that_rotates_its_token_keeps_it_when_the_creator_leaves(
    rig: Rig, tokens: TokenService, people: MemberService, eve: Principal
) -> None:
    created = await rig.lifecycle_services.creation.create(NewWorkspace("Ada"), eve)
    own = await rig.identity.authenticate(PresentedCredential(bearer=created.auth_token))
    rotated = await tokens.rotate(own, created.workspace, timedelta(0))
    await people.remove(rig.admin, "eve", "r")
    assert (await shown(rig, rotated)).may("ws.send")


async def test_a_lower_role_ends_the_tokens_that_are_above_it(
    rig: Rig, tokens: TokenService, people: MemberService, eve: Principal
) -> None:
    ada = await rig.agent()
    low = await tokens.mint_for_org(eve, NewTokenRequest("low", ("org.read",)))
    high = await tokens.mint_for_org(eve, NewTokenRequest("high", ("org.write",)))
    acting = await tokens.mint_for_workspace(eve, ada, NewTokenRequest("acting", ("ws.send",)))
    await people.change(rig.admin, "eve", MemberChange(role="viewer"), "r")
    assert await ends_of(rig, low, high, acting) == [None, "minter-ended", "minter-ended"]
