"""Identity comes from a credential; what a request says of itself is only checked against it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain import credentials
from molecule_platform.domain.authorisation import ANY, org_with, peer_with, self_with
from molecule_platform.domain.credentials import Token
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.people import Org
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.identity import authentication
from molecule_platform.services.identity.authentication import (
    AuthenticationService,
    EndedWithWorkspace,
    PresentedCredential,
)

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Eventually
    from packages.platform.tests.services.conftest import Refuses, Rig

Of = Callable[[Workspace], Principal]
ADMIN_TOKEN = "the-administrator-s-token"


async def issue(rig: Rig, name: str, **more: Any) -> Token:
    token = Token(
        id=name,
        org_id=rig.org.id,
        kind="org",
        token_hash=credentials.digest(name),
        prefix=name[:8],
        scopes=["org.read"],
        created_by="user:admin",
        created_at=rig.clock.now(),
        **more,
    )
    await rig.storage.write(lambda tx: tx.tokens.insert(token))
    return token


async def bearer(rig: Rig, token: str) -> Principal:
    return await rig.identity.authenticate(PresentedCredential(bearer=token))


async def test_the_administrator_s_token_is_the_administrator(rig: Rig) -> None:
    admin = await bearer(rig, ADMIN_TOKEN)
    assert (admin.text, admin.is_admin, admin.org_id) == ("user:admin", True, rig.org.id)


async def test_a_workspace_s_token_is_its_workspace(rig: Rig) -> None:
    created = await rig.created()
    principal = await bearer(rig, created.auth_token)
    assert principal.workspace_id == created.workspace.id
    assert principal.may("ws.inbox")
    assert not principal.may("org.read")


async def test_an_organisation_s_token_has_its_own_scopes_and_no_more(rig: Rig) -> None:
    await issue(rig, "token-one")
    principal = await bearer(rig, "token-one")
    assert (principal.text, sorted(principal.scopes)) == ("org-token:token-one", ["org.read"])


@pytest.mark.parametrize(
    "presented",
    [PresentedCredential(), PresentedCredential(bearer="made up"), PresentedCredential(session="made up")],
)
async def test_no_credential_and_an_unknown_one_are_refused(
    rig: Rig, refuses: Refuses, presented: PresentedCredential
) -> None:
    known = presented.bearer or presented.session
    refusal = await refuses(
        rig.identity.authenticate(presented), "invalid-token" if known else "unauthenticated"
    )
    assert refusal.status == 401


async def test_a_token_ends_at_its_time(rig: Rig, refuses: Refuses) -> None:
    await issue(rig, "token-one", expires_at=rig.clock.now() + timedelta(seconds=60))
    await bearer(rig, "token-one")
    rig.clock.advance(60)
    await refuses(bearer(rig, "token-one"), "token-expired")


def revoke(rig: Rig, tx: Transaction) -> None:
    tx.tokens.revoke("token-one", rig.clock.now(), "by hand")
    tx.signal("credentials")


async def test_a_revoked_token_is_refused_at_once_where_the_bell_is_heard(
    rig: Rig, refuses: Refuses, eventually: Eventually
) -> None:
    await issue(rig, "token-one")
    await bearer(rig, "token-one")
    await bearer(rig, "token-one")

    await rig.storage.write(partial(revoke, rig))
    await eventually(lambda: not rig.identity._tokens)
    await refuses(bearer(rig, "token-one"), "token-revoked")


async def test_a_token_that_is_revoked_while_its_use_is_written_down_is_not_remembered(
    rig: Rig, refuses: Refuses
) -> None:
    await issue(rig, "token-one")
    await asyncio.gather(bearer(rig, "token-one"), rig.storage.write(partial(revoke, rig)))
    await refuses(bearer(rig, "token-one"), "token-revoked")


async def test_a_token_that_another_replica_revoked_is_refused_once_it_is_looked_up_again(
    rig: Rig, refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "CACHED_SECONDS", 0.0)
    one_of_many = AuthenticationService(
        rig.storage, rig.signals, rig.clock, "admin-token", rig.org.id, shared=True
    )
    await issue(rig, "token-one")
    await one_of_many.authenticate(PresentedCredential(bearer="token-one"))
    await rig.storage.write(lambda tx: tx.tokens.revoke("token-one", rig.clock.now(), "elsewhere"))
    await refuses(one_of_many.authenticate(PresentedCredential(bearer="token-one")), "token-revoked")


async def test_the_token_of_a_removed_workspace_says_that_it_was_removed(rig: Rig, refuses: Refuses) -> None:
    created = await rig.created()
    await rig.lifecycle.remove(created.workspace, confirmed=False)
    refusal = await refuses(bearer(rig, created.auth_token), "token-revoked")
    assert isinstance(refusal, EndedWithWorkspace)
    assert (refusal.workspace_id, refusal.extras) == (created.workspace.id, {})


async def test_the_last_use_of_a_token_is_written_at_most_once_a_minute(rig: Rig) -> None:
    await issue(rig, "token-one")
    for _ in range(3):
        await bearer(rig, "token-one")
        rig.clock.advance(59)

    async def last_used() -> Any:
        found = await rig.storage.read(lambda tx: tx.tokens.by_hash(credentials.digest("token-one")))
        assert found is not None
        return found.last_used_at

    assert await last_used() == rig.clock.now() - timedelta(seconds=59)


# Sessions


async def session_of(rig: Rig, user: str = "ann", role: str = "member") -> str:
    code, _ = await rig.login.new_code(user, role, rig.org.id)
    return (await rig.login.with_code(code)).token


async def test_a_login_code_becomes_a_session_of_its_user_once(rig: Rig, refuses: Refuses) -> None:
    code, _ = await rig.login.new_code("ann", "member", rig.org.id)
    signed_in = await rig.login.with_code(code)
    principal = await rig.identity.authenticate(PresentedCredential(session=signed_in.token))
    assert (principal.text, principal.role) == ("user:ann", "member")
    assert sorted(principal.scopes) == ["org.approve", "org.read", "org.send"]
    await refuses(rig.login.with_code(code), "invalid-token")


async def test_a_login_code_lives_fifteen_minutes(rig: Rig, refuses: Refuses) -> None:
    code, expires_at = await rig.login.new_code("ann", "member", rig.org.id)
    assert expires_at == rig.clock.now() + timedelta(minutes=15)
    rig.clock.advance(900)
    refusal = await refuses(rig.login.with_code(code), "invalid-token")
    assert "molecule login-url" in refusal.sentence


async def test_the_administrator_s_link_gives_the_administrator_s_scopes(rig: Rig) -> None:
    token = await session_of(rig, "admin", "owner")
    assert (await rig.identity.authenticate(PresentedCredential(session=token))).is_admin


async def test_a_session_slides_for_twelve_hours_and_ends_after_seven_days(
    rig: Rig, refuses: Refuses
) -> None:
    token = await session_of(rig)
    for _ in range(15):
        rig.clock.advance(11 * 3600)
        await rig.identity.authenticate(PresentedCredential(session=token))
    rig.clock.advance(3 * 3600)
    await refuses(rig.identity.authenticate(PresentedCredential(session=token)), "token-expired")


async def test_an_idle_session_ends_after_twelve_hours(rig: Rig, refuses: Refuses) -> None:
    token = await session_of(rig)
    rig.clock.advance(12 * 3600)
    await refuses(rig.identity.authenticate(PresentedCredential(session=token)), "token-expired")


async def test_signing_out_ends_the_session_at_once(rig: Rig, refuses: Refuses) -> None:
    token = await session_of(rig)
    await rig.login.sign_out(token)
    await refuses(rig.identity.authenticate(PresentedCredential(session=token)), "token-revoked")


async def test_a_token_is_exchanged_for_a_session_with_no_more_than_its_scopes(
    rig: Rig, refuses: Refuses
) -> None:
    await issue(rig, "token-one")
    signed_in = await rig.login.with_token("token-one")
    principal = await rig.identity.authenticate(PresentedCredential(session=signed_in.token))
    assert sorted(principal.scopes) == ["org.read"]
    assert (await rig.login.with_token(ADMIN_TOKEN)).session.user == "admin"
    await refuses(rig.login.with_token("made up"), "invalid-token")


async def test_a_session_of_the_administrator_s_token_ends_when_the_token_is_changed(
    rig: Rig, refuses: Refuses
) -> None:
    token = (await rig.login.with_token(ADMIN_TOKEN)).token
    assert (await rig.identity.authenticate(PresentedCredential(session=token))).is_admin
    changed = AuthenticationService(
        rig.storage, rig.signals, rig.clock, "another-token-of-the-house", rig.org.id
    )
    await refuses(changed.authenticate(PresentedCredential(session=token)), "token-revoked")


async def test_a_session_that_somebody_else_was_given_proves_nothing_for_another(
    rig: Rig, refuses: Refuses
) -> None:
    one = (await rig.login.with_token(ADMIN_TOKEN)).session
    forged = replace(one, token_hash=credentials.digest("made up"))
    await rig.storage.write(lambda tx: tx.people.insert_session(forged))
    await refuses(rig.identity.authenticate(PresentedCredential(session="made up")), "token-revoked")


async def test_a_workspace_s_token_signs_nobody_in(rig: Rig, refuses: Refuses) -> None:
    created = await rig.created()
    await refuses(rig.login.with_token(created.auth_token), "forbidden")


async def test_a_bearer_decides_also_when_a_session_is_shown_too(rig: Rig, refuses: Refuses) -> None:
    token = await session_of(rig)
    await refuses(
        rig.identity.authenticate(PresentedCredential(bearer="made up", session=token)), "invalid-token"
    )


# What a request says of itself


async def test_naming_one_s_own_workspace_changes_nothing_naming_another_is_a_mismatch(
    rig: Rig, principal_of: Of, refuses: Refuses
) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob")
    assert await rig.authority.acting_as(principal_of(ada), ada.id.upper(), "r") == principal_of(ada)
    await refuses(rig.authority.acting_as(principal_of(ada), bob.id, "r"), "identity-mismatch")


@pytest.mark.parametrize("named", ["system:scheduler", "webhook:github", "channel:slack:1", "test:x"])
async def test_nobody_may_call_itself_a_part_of_the_house(rig: Rig, refuses: Refuses, named: str) -> None:
    await refuses(rig.authority.acting_as(rig.admin, named, "r"), "forged-identity")


async def test_acting_as_a_workspace_needs_the_scope_for_it_and_stays_in_the_organisation(
    rig: Rig, refuses: Refuses
) -> None:
    ada = await rig.agent()
    person = Principal("user:ann", rig.org.id, frozenset({"org.read"}), "ann")
    await refuses(rig.authority.acting_as(person, ada.id, "r"), "scope-required")
    acting = await rig.authority.acting_as(
        replace(person, scopes=frozenset({"org.impersonate"})), ada.id, "r"
    )
    assert (acting.workspace_id, acting.may("ws.send")) == (ada.id, True)
    assert not acting.may("ws.secrets.read")
    [deed] = await rig.storage.read(lambda tx: tx.audit.newest(rig.org.id, 10))
    assert (deed.principal, deed.action, deed.object) == ("user:ann", "act-as", acting.text)
    stranger = Principal("user:eve", "org-two", frozenset({"org.impersonate"}), "eve")
    await refuses(rig.authority.acting_as(stranger, ada.id, "r"), "workspace-not-found")


# Deny by default


async def test_an_object_of_another_organisation_does_not_exist(rig: Rig, refuses: Refuses) -> None:
    ada = await rig.agent()
    stranger = Principal("user:eve", "org-two", frozenset({"org"}), "eve")
    await refuses(rig.authority.authorize(stranger, (org_with("org.read"),), ada.id), "workspace-not-found")
    assert (await rig.authority.authorize(rig.admin, (org_with("org.read"),), ada.id)).workspace == ada


async def test_an_administrator_of_another_organisation_is_still_the_administrator(rig: Rig) -> None:
    await rig.storage.write(lambda tx: tx.people.insert_org(Org("org-two", "two", "Two", rig.clock.now())))
    ada = await rig.agent()
    elsewhere = replace(rig.admin, org_id="org-two")
    assert (await rig.authority.authorize(elsewhere, (org_with("org.read"),), ada.id)).workspace == ada


async def test_the_tree_decides_who_is_a_peer(rig: Rig, principal_of: Of, refuses: Refuses) -> None:
    lead = await rig.agent("Lead")
    ada, bob = await rig.agent("Ada", parent=lead), await rig.agent("Bob", parent=lead)
    leaf = await rig.agent("Leaf", parent=bob)
    rules = (peer_with("ws.send"),)
    assert (await rig.authority.authorize(principal_of(ada), rules, bob.id)).by == rules[0]
    refusal = await refuses(rig.authority.authorize(principal_of(leaf), rules, ada.id), "hierarchy-denied")
    assert refusal.extras["rule"] == "denied"
    await rig.changed(bob, isolated=True)
    refusal = await refuses(rig.authority.authorize(principal_of(ada), rules, bob.id), "hierarchy-denied")
    assert refusal.extras["rule"] == "isolated"


async def test_a_removed_workspace_is_gone_for_its_peers_and_operators(
    rig: Rig, principal_of: Of, refuses: Refuses
) -> None:
    ada, bob = await rig.agent("Ada"), await rig.agent("Bob")
    await rig.lifecycle.remove(ada, confirmed=False)
    await refuses(
        rig.authority.authorize(principal_of(bob), (peer_with("ws.send"),), ada.id), "workspace-removed"
    )
    refusal = await refuses(
        rig.authority.authorize(rig.admin, (org_with("org.read"),), ada.id), "workspace-removed"
    )
    assert refusal.extras["removed_at"] == "2026-05-02T12:00:00.000Z"
    assert await rig.authority.presence(ada.id) == "gone"
    assert await rig.authority.presence("unknown") == "gone"


async def test_a_route_without_a_workspace_asks_only_for_its_rule(
    rig: Rig, principal_of: Of, refuses: Refuses
) -> None:
    ada = await rig.agent()
    assert (await rig.authority.authorize(principal_of(ada), (ANY,), None)).workspace is None
    await refuses(rig.authority.authorize(principal_of(ada), (org_with("org.read"),), None), "forbidden")
    await refuses(rig.authority.authorize(principal_of(ada), (self_with(""),), None), "forbidden")
