"""Tickets: whoever asks for one opens a stream with it, once, within a minute, as themselves."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain import credentials
from molecule_platform.domain.principals import Principal
from molecule_platform.ports.people import Org
from molecule_platform.services.identity.authentication import PresentedCredential
from molecule_platform.services.identity.stream_tickets import StreamTickets

if TYPE_CHECKING:
    from packages.platform.tests.services.conftest import Refuses, Rig

ADMIN_TOKEN = "the-administrator-s-token"
SignIn = Callable[["Rig"], Coroutine[Any, Any, PresentedCredential]]


async def the_administrator(_rig: Rig) -> PresentedCredential:
    return PresentedCredential(bearer=ADMIN_TOKEN)


async def a_workspace(rig: Rig) -> PresentedCredential:
    return PresentedCredential(bearer=(await rig.created()).auth_token)


async def a_person(rig: Rig) -> PresentedCredential:
    code, _ = await rig.login.new_code("ann", "viewer", rig.org.id)
    return PresentedCredential(session=(await rig.login.with_code(code)).token)


async def mint(rig: Rig, principal: Principal) -> str:
    ticket, expires_at = await StreamTickets(rig.storage, rig.clock).mint(principal)
    assert (expires_at - rig.clock.now()).total_seconds() == 60
    return ticket


@pytest.mark.parametrize("sign_in", [the_administrator, a_workspace, a_person])
async def test_a_ticket_is_good_once_and_stands_for_whoever_asked_for_it(
    rig: Rig, refuses: Refuses, sign_in: SignIn
) -> None:
    minter = await rig.identity.authenticate(await sign_in(rig))
    ticket = await mint(rig, minter)
    assert await rig.identity.authenticate(PresentedCredential(ticket=ticket)) == minter
    await refuses(rig.identity.authenticate(PresentedCredential(ticket=ticket)), "invalid-token")


async def test_a_ticket_is_good_for_a_minute(rig: Rig, refuses: Refuses) -> None:
    minter = await rig.identity.authenticate(PresentedCredential(bearer=ADMIN_TOKEN))
    ticket = await mint(rig, minter)
    rig.clock.advance(60)
    await refuses(rig.identity.authenticate(PresentedCredential(ticket=ticket)), "invalid-token")


async def test_a_made_up_ticket_is_none(rig: Rig, refuses: Refuses) -> None:
    await refuses(
        rig.identity.authenticate(PresentedCredential(ticket=credentials.new_token())), "invalid-token"
    )


async def test_a_ticket_is_worth_no_more_than_what_it_was_made_with(rig: Rig, refuses: Refuses) -> None:
    signed_in = await a_person(rig)
    ticket = await mint(rig, await rig.identity.authenticate(signed_in))
    await rig.login.sign_out(signed_in.session or "")
    await refuses(rig.identity.authenticate(PresentedCredential(ticket=ticket)), "token-revoked")


async def test_a_credential_is_asked_for_again_by_its_digest_and_shown_nowhere(rig: Rig) -> None:
    presented = await a_workspace(rig)
    principal = await rig.identity.authenticate(presented)
    assert await rig.identity.again(principal.credential) == principal
    assert principal.credential == f"token:{credentials.digest(presented.bearer or '')}"
    assert principal.credential not in repr(principal)


async def test_a_made_up_ticket_costs_no_write(
    rig: Rig, refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def write(_work: object) -> None:
        raise AssertionError("something was written")

    monkeypatch.setattr(rig.storage, "write", write)
    await refuses(rig.identity.authenticate(PresentedCredential(ticket="made up")), "invalid-token")


async def test_a_ticket_opens_in_the_organisation_in_which_it_was_asked_for(rig: Rig) -> None:
    elsewhere = Org("org-two", "two", "Two", rig.clock.now())
    await rig.storage.write(lambda tx: tx.people.insert_org(elsewhere))
    minter = await rig.authority.check_org(rig.admin, "two")
    opened = await rig.identity.authenticate(PresentedCredential(ticket=await mint(rig, minter)))
    assert opened.org_id == "org-two"


async def test_whoever_acts_as_a_workspace_gets_no_ticket_that_would_open_as_somebody_else(
    rig: Rig, refuses: Refuses
) -> None:
    ada = await rig.agent()
    acting = await rig.authority.acting_as(rig.admin, ada.id, "r")
    await refuses(mint(rig, acting), "forbidden")
