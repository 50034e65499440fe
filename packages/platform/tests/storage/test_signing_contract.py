"""The platform's own keys, on every store: what is retired, destroyed and forgotten."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from molecule_platform.ports.signing import SigningKey
from molecule_platform.ports.storage import Transaction

if TYPE_CHECKING:
    from packages.platform.tests.storage.conftest import Store

SEAL = "0123456789abcdef"


def keys_of(store: Store) -> list[SigningKey]:
    """Three keys, the newest first."""
    now = store.ada.created_at
    return [
        SigningKey(f"k{age}", "EdDSA", {"kty": "OKP"}, f"{SEAL}.sealed-{age}", now - timedelta(days=age))
        for age in range(3)
    ]


async def test_a_retired_key_keeps_its_private_half_until_that_is_destroyed(store: Store) -> None:
    keys, now = keys_of(store), store.ada.created_at

    def work(tx: Transaction) -> list[SigningKey]:
        for key in keys:
            tx.signing.insert(key)
        tx.signing.retire("k1", now)
        tx.signing.retire("k2", now)
        tx.signing.destroy("k2")
        return tx.signing.all()

    assert await store.storage.write(work) == [
        keys[0],
        replace(keys[1], retired_at=now),
        replace(keys[2], retired_at=now, private_sealed=""),
    ]


async def test_what_was_destroyed_needs_no_key_any_more(store: Store) -> None:
    def work(tx: Transaction) -> list[bool]:
        tx.signing.insert(keys_of(store)[0])
        before = SEAL in tx.secrets.key_ids()
        tx.signing.destroy("k0")
        return [before, bool(tx.secrets.key_ids() & {SEAL, ""})]

    assert await store.storage.write(work) == [True, False]


async def test_private_halves_and_then_whole_keys_are_forgotten_in_batches(store: Store) -> None:
    now = store.ada.created_at
    later = now + timedelta(days=1)

    def work(tx: Transaction) -> list[object]:
        for key in keys_of(store):
            tx.signing.insert(key)
        for kid in ("k1", "k2"):
            tx.signing.retire(kid, now)
        destroyed = [tx.retention.private_halves(later, 1) for _ in range(3)]
        left = [bool(key.private_sealed) for key in tx.signing.all()]
        early = tx.retention.signing_keys(now, 10)
        forgotten = [tx.retention.signing_keys(later, 1) for _ in range(3)]
        return [destroyed, left, early, forgotten, [key.kid for key in tx.signing.all()]]

    expected = [[1, 1, 0], [True, False, False], 0, [1, 1, 0], ["k0"]]
    assert await store.storage.write(work) == expected
