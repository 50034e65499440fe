"""Tokens: nobody gives away what they no longer hold, and nothing outlives what it was made with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.services.identity import Presented
from molecule_platform.services.login import Invitation
from molecule_platform.services.tokens import Minted, Tokens, TokenWish

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

HOUR = timedelta(hours=1)
READER = TokenWish("reader", ("org.read", "org.tokens"))
Uses = Callable[["Rig", Tokens, Principal, Workspace], Awaitable[Any]]


@pytest.fixture
def tokens(rig: Rig) -> Tokens:
    return Tokens(rig.storage, rig.clock)


async def shown(rig: Rig, minted: Minted) -> Principal:
    return await rig.identity.authenticate(Presented(bearer=minted.secret))


async def signed_in(rig: Rig, bearer: str) -> Principal:
    session = (await rig.login.with_token(bearer)).token
    return await rig.identity.authenticate(Presented(session=session))


async def rotates(_rig: Rig, tokens: Tokens, principal: Principal, workspace: Workspace) -> None:
    await tokens.rotate(principal, workspace, timedelta(0))


async def mints(_rig: Rig, tokens: Tokens, principal: Principal, workspace: Workspace) -> None:
    await tokens.mint_for_workspace(principal, workspace, TokenWish("again"))


async def test_a_token_that_was_revoked_a_moment_ago_is_not_exchanged_for_another(
    rig: Rig, tokens: Tokens, refuses: Refuses
) -> None:
    ada = await rig.agent()
    minted = await tokens.mint_for_workspace(rig.admin, ada, TokenWish("ci"))
    admitted = await shown(rig, minted)
    await tokens.revoke(rig.admin, ada, minted.token.id)
    for use in (rotates, mints):
        await refuses(use(rig, tokens, admitted, ada), "token-revoked")
    kept = [token.id for token in await tokens.of_workspace(ada)]
    await refuses(tokens.revoke(admitted, ada, kept[0]), "token-revoked")


async def mints_for_the_org(_rig: Rig, tokens: Tokens, principal: Principal, _ada: Workspace) -> None:
    await tokens.mint_for_org(principal, TokenWish("again", ("org.read",)))


async def invites(rig: Rig, _tokens: Tokens, principal: Principal, _ada: Workspace) -> None:
    await rig.login.invite(principal, Invitation("eve", "viewer"), "r")


@pytest.mark.parametrize("by_session", [False, True])
@pytest.mark.parametrize("use", [mints, mints_for_the_org, invites])
async def test_an_organisation_s_token_that_was_revoked_a_moment_ago_gives_nothing_away(
    rig: Rig, tokens: Tokens, refuses: Refuses, use: Uses, by_session: bool
) -> None:
    ada = await rig.agent()
    minted = await tokens.mint_for_org(rig.admin, READER)
    admitted = await (signed_in(rig, minted.secret) if by_session else shown(rig, minted))
    await tokens.revoke(rig.admin, None, minted.token.id)
    await refuses(use(rig, tokens, admitted, ada), "token-revoked")


async def test_no_token_outlives_the_one_that_a_session_was_exchanged_for(
    rig: Rig, tokens: Tokens, refuses: Refuses
) -> None:
    ends = rig.clock.now() + HOUR
    short = await tokens.mint_for_org(rig.admin, TokenWish("short", READER.scopes, ends))
    for minter in (await shown(rig, short), await signed_in(rig, short.secret)):
        assert (await tokens.mint_for_org(minter, READER)).token.expires_at == ends
        longer = TokenWish("long", READER.scopes, ends + HOUR)
        await refuses(tokens.mint_for_org(minter, longer), "invalid-request")


async def test_no_token_outlives_one_that_was_rotated_after_it_was_let_in(rig: Rig, tokens: Tokens) -> None:
    ada = await rig.agent()
    old = await tokens.mint_for_workspace(rig.admin, ada, TokenWish("ci"))
    admitted = await shown(rig, old)
    await tokens.rotate(admitted, ada, HOUR)
    further = await tokens.mint_for_workspace(admitted, ada, TokenWish("more"))
    assert further.token.expires_at == rig.clock.now() + HOUR


async def test_the_tokens_of_people_and_of_the_administrator_need_not_end(rig: Rig, tokens: Tokens) -> None:
    code, _ = await rig.login.new_code("ann", "owner", rig.org.id)
    session = (await rig.login.with_code(code)).token
    ann = await rig.identity.authenticate(Presented(session=session))
    for minter in (ann, rig.admin):
        assert (await tokens.mint_for_org(minter, READER)).token.expires_at is None


async def test_whoever_acts_as_a_workspace_rotates_no_token_and_loses_none(
    rig: Rig, tokens: Tokens, refuses: Refuses
) -> None:
    ada = await rig.agent()
    minted = await tokens.mint_for_org(rig.admin, TokenWish("actor", ("org.impersonate",)))
    acting = await rig.authority.acting_as(await shown(rig, minted), ada.id, "r")
    await refuses(tokens.rotate(acting, ada, timedelta(0)), "forbidden")
    assert (await shown(rig, minted)).may("org.impersonate")


async def test_what_is_minted_while_acting_as_a_workspace_ends_with_the_actor_s_token(
    rig: Rig, tokens: Tokens
) -> None:
    ada, ends = await rig.agent(), rig.clock.now() + HOUR
    minted = await tokens.mint_for_org(rig.admin, TokenWish("actor", ("org.impersonate",), ends))
    acting = await rig.authority.acting_as(await shown(rig, minted), ada.id, "r")
    further = await tokens.mint_for_workspace(acting, ada, TokenWish("ci", ("ws.send",)))
    assert further.token.expires_at == ends


async def test_a_token_is_rotated_for_its_own_workspace_only(
    rig: Rig, tokens: Tokens, refuses: Refuses
) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob")
    minted = await tokens.mint_for_workspace(rig.admin, ada, TokenWish("ci"))
    await refuses(tokens.rotate(await shown(rig, minted), bob, timedelta(0)), "forbidden")
