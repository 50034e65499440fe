"""Organisations, people, login codes and sessions: their verbs, on every store."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.domain.credentials import LoginCode, Session
from molecule_platform.domain.people import Person
from molecule_platform.ports.people import Org
from molecule_platform.ports.storage import Transaction

if TYPE_CHECKING:
    from packages.platform.tests.storage.conftest import Store

MINUTE = timedelta(minutes=1)


def another(store: Store, slug: str) -> Org:
    return Org(f"org-{slug}", slug, slug.upper(), store.org.created_at + MINUTE)


# Organisations


async def test_an_organisation_is_found_by_id_and_by_slug(store: Store) -> None:
    def work(tx: Transaction) -> list[Any]:
        named = [tx.people.org_named(name) for name in (store.org.id, "default", "x")]
        return [tx.people.org(store.org.id), *named, tx.people.org("default")]

    assert await store.storage.read(work) == [store.org, store.org, store.org, None, None]


async def test_the_first_organisation_stays_the_first_under_another_name(store: Store) -> None:
    renamed = replace(store.org, slug="zebra", name="Zebra")

    def work(tx: Transaction) -> tuple[Org | None, list[str], list[str]]:
        tx.people.insert_org(another(store, "acme"))
        tx.people.update_org(renamed)
        slugs = [org.slug for org in tx.people.orgs("", 10)]
        return tx.people.first_org(), slugs, [org.slug for org in tx.people.orgs("acme", 1)]

    assert await store.storage.write(work) == (renamed, ["acme", "zebra"], ["zebra"])


# People


async def test_a_member_keeps_the_role_it_has_and_a_new_one_gets_the_role_it_is_given(store: Store) -> None:
    now = store.ada.created_at

    def work(tx: Transaction) -> list[Person]:
        return [tx.people.put_member("ann", store.org.id, role, now) for role in ("viewer", "owner")]

    ann = Person("ann", store.org.id, "viewer", now)
    assert await store.storage.write(work) == [ann, ann]
    with pytest.raises(Exception, match=r"(?i)check constraint|role_known"):
        await store.storage.write(lambda tx: tx.people.put_member("bert", store.org.id, "king", now))


async def test_what_one_organisation_makes_of_somebody_another_does_not_see(store: Store) -> None:
    now, other = store.ada.created_at, another(store, "acme")

    def work(tx: Transaction) -> list[Person | None]:
        tx.people.insert_org(other)
        here = tx.people.put_member("ann", store.org.id, "viewer", now)
        tx.people.put_member("ann", other.id, "owner", now + MINUTE)
        tx.people.update_member(replace(here, role="member", disabled=True, last_login_at=now))
        return [tx.people.member("ann", org_id) for org_id in (store.org.id, other.id, "unknown")]

    assert await store.storage.write(work) == [
        Person("ann", store.org.id, "member", now, disabled=True, last_login_at=now),
        Person("ann", other.id, "owner", now + MINUTE),
        None,
    ]


async def test_members_come_by_name_and_owners_that_are_disabled_do_not_count(store: Store) -> None:
    now = store.ada.created_at

    def work(tx: Transaction) -> tuple[list[str], list[str], list[int]]:
        for name in ("cleo", "ann", "bert"):
            tx.people.put_member(name, store.org.id, "owner", now)
        counted = [tx.people.owners(store.org.id)]
        tx.people.update_member(Person("ann", store.org.id, "owner", now, disabled=True))
        tx.people.update_member(Person("bert", store.org.id, "admin", now))
        counted.append(tx.people.owners(store.org.id))
        everyone = [person.name for person in tx.people.members(store.org.id, "", 10)]
        return everyone, [person.name for person in tx.people.members(store.org.id, "ann", 1)], counted

    assert await store.storage.write(work) == (["ann", "bert", "cleo"], ["bert"], [3, 1])


async def test_a_user_goes_with_the_last_membership_and_comes_back_as_somebody_new(store: Store) -> None:
    now, other = store.ada.created_at, another(store, "acme")

    def work(tx: Transaction) -> list[bool]:
        tx.people.insert_org(other)
        for org in (store.org, other):
            tx.people.put_member("ann", org.id, "owner", now)
        tx.people.set_platform_admin("ann", True)
        tx.people.remove_member("ann", store.org.id)
        still = tx.people.put_member("ann", store.org.id, "viewer", now)
        for org in (store.org, other):
            tx.people.remove_member("ann", org.id)
        again = tx.people.put_member("ann", store.org.id, "viewer", now)
        return [still.platform_admin, again.platform_admin]

    assert await store.storage.write(work) == [True, False]


async def test_the_administrator_is_one_wherever_it_becomes_a_member(store: Store) -> None:
    now = store.ada.created_at
    admin = await store.storage.write(lambda tx: tx.people.put_member("admin", store.org.id, "viewer", now))
    assert admin.platform_admin


# Login codes and sessions


async def test_a_login_code_is_spent_once_and_in_time(store: Store) -> None:
    now = store.ada.created_at
    codes = [LoginCode(name, store.org.id, "ann", "member", now, now + MINUTE) for name in ("c1", "c2")]

    def work(tx: Transaction) -> list[LoginCode | None]:
        for code in codes:
            tx.people.insert_code(code)
        use = tx.people.use_code
        return [use("c1", now), use("c1", now), use("c2", now + MINUTE), use("unknown", now)]

    assert await store.storage.write(work) == [replace(codes[0], used_at=now), None, None, None]


async def test_a_session_slides_and_ends(store: Store) -> None:
    now = store.ada.created_at
    session = Session("s1", store.org.id, "ann", "member", ["org.read"], now, now + MINUTE, now)

    def work(tx: Transaction) -> list[Session | None]:
        people = tx.people
        people.insert_session(session)
        fresh = people.session("s1")
        people.seen_session("s1", now + MINUTE, now + 2 * MINUTE)
        people.revoke_session("s1", now + MINUTE)
        return [fresh, people.session("s1"), people.session("unknown")]

    slid = replace(session, seen_at=now + MINUTE, expires_at=now + 2 * MINUTE, revoked_at=now + MINUTE)
    assert await store.storage.write(work) == [session, slid, None]


@pytest.mark.parametrize("everywhere", [False, True])
async def test_sign_ins_end_in_one_organisation_or_in_all(store: Store, everywhere: bool) -> None:
    now, other = store.ada.created_at, another(store, "acme")

    def work(tx: Transaction) -> list[bool]:
        tx.people.insert_org(other)
        for user, org in (("ann", store.org), ("ann", other), ("bert", store.org)):
            place = f"{user}-{org.slug}"
            tx.people.insert_session(Session(place, org.id, user, "member", [], now, now + MINUTE, now))
            tx.people.insert_code(LoginCode(place, org.id, user, "member", now, now + MINUTE))
        tx.people.end_sign_ins("ann", now, None if everywhere else store.org.id)
        good: list[bool] = []
        for place in ("ann-default", "ann-acme", "bert-default"):
            session = tx.people.session(place)
            assert session is not None
            code = tx.people.use_code(place, now)
            assert (session.revoked_at is None) == (code is not None)
            good.append(code is not None)
        return good

    assert await store.storage.write(work) == [False, not everywhere, True]
