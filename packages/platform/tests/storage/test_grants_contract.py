"""Access grants, as every store keeps them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from molecule_platform.ports.grants import AccessGrant

if TYPE_CHECKING:
    from molecule_platform.ports.storage import Transaction

    from .conftest import Store  # noqa: TID252

DAY = timedelta(days=1)


def made(store: Store, grant_id: str, **changes: Any) -> AccessGrant:
    now = store.ada.created_at
    facts: dict[str, Any] = {
        "id": grant_id,
        "org_id": store.org.id,
        "from_id": store.ada.id,
        "to_id": store.bob.id,
        "bidirectional": False,
        "expires_at": now + DAY,
        "reason": "they work together",
        "created_by": "user:ann",
        "created_at": now,
    }
    return AccessGrant(**facts | changes)


async def test_a_grant_holds_until_it_expires_or_is_revoked(store: Store) -> None:
    now = store.ada.created_at
    short, long = made(store, "g1"), made(store, "g2", expires_at=now + 3 * DAY)

    def work(tx: Transaction) -> list[Any]:
        tx.grants.insert(short)
        tx.grants.insert(long)
        first = tx.grants.living(store.org.id, now)
        later = tx.grants.living(store.org.id, now + 2 * DAY)
        ended = tx.grants.revoke(store.org.id, "g2", now)
        return [first, later, ended is not None and ended.revoked_at, tx.grants.living(store.org.id, now)]

    assert await store.storage.write(work) == [[short, long], [long], now, [short]]


async def test_only_the_organisation_s_own_living_grants_can_be_revoked(store: Store) -> None:
    now = store.ada.created_at

    def work(tx: Transaction) -> list[Any]:
        tx.grants.insert(made(store, "g1"))
        strange = [tx.grants.revoke("other", "g1", now), tx.grants.revoke(store.org.id, "g9", now)]
        return [*strange, tx.grants.revoke(store.org.id, "g1", now + 2 * DAY), tx.grants.living("other", now)]

    assert await store.storage.write(work) == [None, None, None, []]


async def test_a_grant_leads_forwards_and_when_it_says_so_backwards(store: Store) -> None:
    now = store.ada.created_at

    def work(tx: Transaction) -> list[frozenset[str]]:
        tx.grants.insert(made(store, "g1"))
        one_way = tx.workspaces.granted_from(store.bob.id, now)
        tx.grants.insert(made(store, "g2", bidirectional=True))
        forwards = tx.workspaces.granted_from(store.ada.id, now)
        return [one_way, forwards, tx.workspaces.granted_from(store.bob.id, now)]

    back, there = frozenset({store.ada.id}), frozenset({store.bob.id})
    assert await store.storage.write(work) == [frozenset(), there, back]
