"""Leases on loops and first requests under keys, as every store keeps them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from molecule_platform.ports.idempotency import IdempotentRequest

if TYPE_CHECKING:
    from .conftest import Store  # noqa: TID252

MINUTE = timedelta(minutes=1)
OVER = timedelta(seconds=-1)


async def test_a_loop_belongs_to_one_replica_until_its_lease_is_over(store: Store) -> None:
    write = store.storage.write
    assert await write(lambda tx: tx.loops.claim("sweep", "one", MINUTE)) == 1
    assert await write(lambda tx: tx.loops.claim("sweep", "two", MINUTE)) is None
    assert await write(lambda tx: tx.loops.claim("other", "two", MINUTE)) == 1


async def test_its_owner_keeps_a_loop_and_its_fence(store: Store) -> None:
    write = store.storage.write
    for _ in range(3):
        assert await write(lambda tx: tx.loops.claim("sweep", "one", MINUTE)) == 1


async def test_the_fence_grows_with_every_new_owner(store: Store) -> None:
    write = store.storage.write
    fences = [
        await write(lambda tx, owner=owner: tx.loops.claim("sweep", owner, OVER))
        for owner in ("one", "two", "one", "three")
    ]
    assert fences == [1, 2, 3, 4]


async def test_a_replica_that_stops_lets_go_at_once(store: Store) -> None:
    write = store.storage.write
    await write(lambda tx: tx.loops.claim("sweep", "one", MINUTE))
    await write(lambda tx: tx.loops.release("one"))
    assert await write(lambda tx: tx.loops.claim("sweep", "two", MINUTE)) == 2


def attempt(store: Store, **changes: object) -> IdempotentRequest:
    now = store.ada.created_at
    facts: dict[str, object] = {
        "scope": "ann POST /workspaces",
        "key": "k1",
        "body_hash": "h",
        "replica": "one",
        "created_at": now,
        "expires_at": now + MINUTE,
    }
    return IdempotentRequest(**facts | changes)  # pyright: ignore[reportArgumentType]


async def test_an_attempt_is_found_by_scope_and_key_with_its_outcome(store: Store) -> None:
    first, now = attempt(store), store.ada.created_at
    await store.storage.write(lambda tx: tx.attempts.begin(first))
    assert await store.storage.read(lambda tx: tx.attempts.get(first.scope, first.key, now)) == first
    await store.storage.write(lambda tx: tx.attempts.abandon(first.scope, first.key))
    left = await store.storage.read(lambda tx: tx.attempts.get(first.scope, first.key, now))
    assert left == replace(first, replica="")
    until = now + 2 * MINUTE
    await store.storage.write(lambda tx: tx.attempts.finish(first.scope, first.key, 201, "sealed", until))
    ended = await store.storage.read(lambda tx: tx.attempts.get(first.scope, first.key, now + MINUTE))
    assert ended is not None
    assert (ended.status, ended.answer_sealed) == (201, "sealed")
    assert await store.storage.read(lambda tx: tx.attempts.get("bob POST /workspaces", "k1", now)) is None


async def test_an_attempt_that_expired_or_came_to_nothing_leaves_the_key_free(store: Store) -> None:
    first, now = attempt(store), store.ada.created_at
    await store.storage.write(lambda tx: tx.attempts.begin(first))
    later = now + MINUTE
    assert await store.storage.read(lambda tx: tx.attempts.get(first.scope, first.key, later)) is None
    again = attempt(store, body_hash="other", expires_at=later + MINUTE)
    await store.storage.write(lambda tx: tx.attempts.begin(again))
    assert await store.storage.read(lambda tx: tx.attempts.get(first.scope, first.key, later)) == again
    await store.storage.write(lambda tx: tx.attempts.forget(first.scope, first.key))
    assert await store.storage.read(lambda tx: tx.attempts.get(first.scope, first.key, now)) is None
