"""What workspaces have, and what organisations pinned, allow and trust; on every store."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from molecule_platform.domain.plugins import STATES
from molecule_platform.ports.plugins import InstalledPlugin, PinnedSource, PublisherKey, RevokedList
from molecule_platform.ports.storage import Transaction

if TYPE_CHECKING:
    from packages.platform.tests.storage.conftest import Store


def plugin(store: Store, name: str = "tools", state: str = "recorded") -> InstalledPlugin:
    at = store.ada.created_at
    return InstalledPlugin(
        workspace_id=store.ada.id,
        org_id=store.org.id,
        name=name,
        version="1.0.0",
        source=f"local://{name}",
        resolved_ref=f"local://{name}",
        sha256="a" * 64,
        signer="",
        state=state,
        about={"tags": ["x"], "runtimes": None},
        ledger={"warnings": []},
        created_at=at,
        installed_at=at,
    )


def pin(store: Store, resolved: str) -> PinnedSource:
    at = store.ada.created_at
    source, digests = "github://acme/tools", ("a" * 64, "b" * 64, "c" * 64)
    return PinnedSource(
        store.org.id, source, resolved, "branch", "tools", "1.0.0", *digests, ["0123456789abcdef"], at, at
    )


@pytest.mark.parametrize("state", STATES)
async def test_a_plugin_is_kept_whole_in_any_state(store: Store, state: str) -> None:
    mine = plugin(store, state=state)
    await store.storage.write(lambda tx: tx.plugins.put(mine))
    assert await store.storage.read(lambda tx: tx.plugins.get(store.ada.id, "tools")) == mine
    assert await store.storage.read(lambda tx: tx.plugins.get(store.bob.id, "tools")) is None


async def test_a_newer_version_takes_the_place_of_the_older_and_keeps_its_first_day(store: Store) -> None:
    first = plugin(store)
    later = first.installed_at + timedelta(days=1)
    second = replace(first, version="2.0.0", created_at=later, installed_at=later)

    def work(tx: Transaction) -> list[InstalledPlugin]:
        tx.plugins.put(plugin(store, "zeta"))
        tx.plugins.put(first)
        tx.plugins.put(second)
        return tx.plugins.installed(store.ada.id)

    found = await store.storage.write(work)
    assert found == [replace(second, created_at=first.created_at), plugin(store, "zeta")]


async def test_a_plugin_is_forgotten_once(store: Store) -> None:
    await store.storage.write(lambda tx: tx.plugins.put(plugin(store)))
    gone = [await store.storage.write(lambda tx: tx.plugins.delete(store.ada.id, "tools")) for _ in range(2)]
    assert gone == [True, False]


async def test_a_workspace_that_is_erased_leaves_no_plugin(store: Store) -> None:
    await store.storage.write(lambda tx: tx.plugins.put(plugin(store)))
    await store.storage.write(lambda tx: tx.upkeep.erase(store.ada.id))
    assert await store.storage.read(lambda tx: tx.plugins.installed(store.ada.id)) == []


async def test_a_source_is_pinned_to_the_last_thing_it_was_pinned_to(store: Store) -> None:
    def work(tx: Transaction) -> list[str | None]:
        found: list[str | None] = []
        for commit in (None, "1" * 40, "2" * 40):
            if commit is not None:
                tx.plugins.pin(pin(store, commit))
            row = tx.plugins.pinned(store.org.id, "github://acme/tools")
            found.append(None if row is None else row.resolved)
        return found

    assert await store.storage.write(work) == [None, "1" * 40, "2" * 40]
    assert await store.storage.read(lambda tx: tx.plugins.pin_count(store.org.id)) == 1
    assert await store.storage.read(lambda tx: tx.plugins.pinned(store.org.id, "github://acme/other")) is None
    assert await store.storage.read(lambda tx: tx.plugins.pinned(store.org.id, "github://acme/tools")) == pin(
        store, "2" * 40
    )


async def test_allowlist_and_keys_are_written_anew_in_their_order(store: Store) -> None:
    now, org = store.ada.created_at, store.org.id
    keys = [PublisherKey("b" * 16, "ed25519:b", "Bob", ["b-*"]), PublisherKey("a" * 16, "ed25519:a", "Ada")]

    def work(tx: Transaction) -> None:
        tx.plugins.put_allowlist(org, ["old"], "user:admin", now)
        tx.plugins.put_allowlist(org, ["z", "a"], "user:admin", now)
        tx.plugins.put_keys(org, [*reversed(keys)], now)
        tx.plugins.put_keys(org, keys, now)

    await store.storage.write(work)
    assert await store.storage.read(lambda tx: tx.plugins.allowlist(org)) == ["z", "a"]
    assert await store.storage.read(lambda tx: tx.plugins.keys(org)) == keys
    assert await store.storage.read(lambda tx: tx.plugins.keys("another")) == []


async def test_the_newest_list_of_what_was_revoked_counts(store: Store) -> None:
    assert await store.storage.read(lambda tx: tx.plugins.revocations()) is None
    lists = [RevokedList(n, store.ada.created_at, "user:admin", {"keys": [n]}) for n in (1, 12, 9)]
    for one in lists:
        await store.storage.write(lambda tx, one=one: tx.plugins.put_revocations(one))
    assert await store.storage.read(lambda tx: tx.plugins.revocations()) == lists[1]
