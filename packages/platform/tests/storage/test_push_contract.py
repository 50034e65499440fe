"""Push configs and the outbox, on every store: one row for each event, in order, held by one at a time."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy.exc import IntegrityError

from molecule_platform.domain.push import LEASE, Notification, PushConfig
from molecule_platform.domain.tasks import Task, TaskKey
from molecule_platform.ports.storage import Transaction

if TYPE_CHECKING:
    from packages.platform.tests.storage.conftest import Store

ME, OTHER = "replica-one", "replica-two"


def key_of(store: Store, task_id: str = "t1", tenant: str = "") -> TaskKey:
    return TaskKey(store.ada.id, tenant, task_id)


def config(store: Store, own_id: str = "own-1", **changes: Any) -> PushConfig:
    defaults: dict[str, Any] = {
        "id": own_id,
        "org_id": store.org.id,
        "workspace_id": store.ada.id,
        "tenant": "",
        "task_id": "t1",
        "config_id": f"config-{own_id}",
        "owner": "user:ann",
        "dialect": "1.0",
        "url": "https://hook.example/",
        "config": {"more": [1, None]},
        "created_at": store.ada.created_at,
    }
    return PushConfig(**(defaults | changes))


def task(store: Store, task_id: str = "t1") -> Task:
    at = store.ada.created_at
    return Task(store.ada.id, "", task_id, store.org.id, "user:ann", "c1", "m1", "working", at, at)


async def test_a_config_is_kept_whole_and_put_over_itself(store: Store) -> None:
    first = config(store, secret_sealed="line", failures=3, disabled_at=store.ada.created_at)
    again = config(store, url="https://other.example/", dialect="0.3")

    def work(tx: Transaction) -> tuple[PushConfig | None, PushConfig | None, PushConfig | None]:
        tx.push_configs.put(first)
        kept = tx.push_configs.get(first.id)
        tx.push_configs.put(again)
        return kept, tx.push_configs.get(first.id), tx.push_configs.get("nobody")

    assert await store.storage.write(work) == (first, again, None)


async def test_configs_belong_to_one_task_of_one_tenant(store: Store) -> None:
    mine = [config(store, "own-1"), config(store, "own-2", disabled_at=store.ada.created_at)]
    others = [
        config(store, "own-3", task_id="t2"),
        config(store, "own-4", tenant="north"),
        config(store, "own-5", workspace_id=store.bob.id),
    ]

    def work(tx: Transaction) -> tuple[list[PushConfig], int, int]:
        for one in (*mine, *others):
            tx.push_configs.put(one)
        live, elsewhere = tx.push_configs.live(key_of(store)), tx.push_configs.live(key_of(store, "t9"))
        return tx.push_configs.of_task(key_of(store)), live, elsewhere

    assert await store.storage.write(work) == (mine, 1, 0)


async def test_two_configs_of_a_task_cannot_share_a_name(store: Store) -> None:
    def work(tx: Transaction) -> None:
        for own_id in ("own-1", "own-2"):
            tx.push_configs.put(config(store, own_id, config_id="same"))

    with pytest.raises(IntegrityError):
        await store.storage.write(work)


async def test_what_is_sealed_is_paged_by_id(store: Store) -> None:
    def work(tx: Transaction) -> list[list[str]]:
        for number in range(5):
            line = None if number == 2 else "line"
            tx.push_configs.put(config(store, f"own-{number}", secret_sealed=line))
        pages = [tx.push_configs.sealed(after, 2) for after in ("", "own-1", "own-4")]
        return [[one.id for one in page] for page in pages]

    assert await store.storage.write(work) == [["own-0", "own-1"], ["own-3", "own-4"], []]


async def test_old_configs_go_once_their_task_is_gone(store: Store) -> None:
    at = store.ada.created_at
    old, new = config(store, "own-1", task_id="gone"), config(store, "own-2", task_id="to-come")
    watched = config(store, "own-3", task_id="t1")

    def work(tx: Transaction) -> tuple[int, list[bool]]:
        tx.tasks.insert(task(store))
        for one in (old, watched):
            tx.push_configs.put(one)
        tx.push_configs.put(config(store, new.id, task_id="to-come", created_at=at + timedelta(hours=2)))
        tx.outbox.add(old.task_key, 1, 2, at)
        pruned = tx.push_configs.prune(at + timedelta(hours=1), 10)
        return pruned, [tx.push_configs.get(one.id) is not None for one in (old, new, watched)]

    assert await store.storage.write(work) == (1, [False, True, True])
    assert not await store.storage.read(lambda tx: tx.outbox.is_due(at))


async def told(store: Store, *configs: PushConfig, last: int = 3) -> None:
    def work(tx: Transaction) -> None:
        for one in configs:
            tx.push_configs.put(one)
        tx.outbox.add(key_of(store), 1, last, store.ada.created_at)

    await store.storage.write(work)


async def taken(store: Store, at: Any, owner: str = ME, limit: int = 10) -> list[Notification]:
    return await store.storage.write(lambda tx: tx.outbox.lease(owner, at, at + LEASE, limit))


async def test_each_live_config_has_a_row_for_each_event(store: Store) -> None:
    at = store.ada.created_at

    def work(tx: Transaction) -> list[int]:
        tx.push_configs.put(config(store, "own-1"))
        tx.push_configs.put(config(store, "own-2"))
        tx.push_configs.put(config(store, "own-3", disabled_at=at))
        return [
            tx.outbox.add(key_of(store), 1, 3, at),
            tx.outbox.add(key_of(store), 4, 4, at),
            tx.outbox.add(key_of(store, "t9"), 1, 3, at),
            tx.outbox.clear("own-1"),
            tx.outbox.clear("own-2"),
            tx.outbox.clear("own-3"),
        ]

    # Of each config the first can be told at once; what comes later waits behind it.
    assert await store.storage.write(work) == [2, 0, 0, 4, 4, 0]


async def test_of_each_config_only_the_first_event_is_due(store: Store) -> None:
    at = store.ada.created_at
    await told(store, config(store, "own-1"), config(store, "own-2"))
    assert await store.storage.read(lambda tx: tx.outbox.is_due(at))
    assert not await store.storage.read(lambda tx: tx.outbox.is_due(at - timedelta(seconds=1)))
    found = await taken(store, at)
    assert sorted((one.push_config_id, one.seq, one.attempts) for one in found) == [
        ("own-1", 1, 0),
        ("own-2", 1, 0),
    ]
    assert len({one.id for one in found}) == 2
    assert await taken(store, at) == []


async def test_what_came_later_waits_behind_what_is_there(store: Store) -> None:
    at = store.ada.created_at
    await told(store, config(store), last=1)
    await store.storage.write(lambda tx: tx.outbox.add(key_of(store), 2, 3, at))
    seen: list[int] = []
    while found := await taken(store, at):
        [one] = found
        seen.append(one.seq)
        assert await store.storage.write(lambda tx, one=one: tx.outbox.done(one, ME, at))
    assert seen == [1, 2, 3]


async def test_no_more_is_taken_than_asked_and_the_longest_due_first(store: Store) -> None:
    at = store.ada.created_at

    def work(tx: Transaction) -> None:
        for number in (2, 0, 1):
            tx.push_configs.put(config(store, f"own-{number}", task_id=f"t{number}"))
            tx.outbox.add(key_of(store, f"t{number}"), 1, 1, at + timedelta(seconds=number))

    await store.storage.write(work)
    first = await taken(store, at + timedelta(seconds=5), limit=2)
    assert sorted(one.push_config_id for one in first) == ["own-0", "own-1"]


async def test_the_next_of_one_config_is_taken_when_it_is_due(store: Store) -> None:
    at = store.ada.created_at
    await told(store, config(store, "own-1"), config(store, "own-2"))

    def work(tx: Transaction) -> list[int | None]:
        seen: list[int | None] = []
        for _ in range(4):
            one = tx.outbox.lease_of("own-1", ME, at, at + LEASE)
            seen.append(None if one is None else one.seq)
            assert tx.outbox.lease_of("own-1", ME, at, at + LEASE) is None
            if one is not None:
                tx.outbox.done(one, ME, at)
        return seen

    assert await store.storage.write(work) == [1, 2, 3, None]


async def test_a_failed_try_blocks_what_is_behind_it_until_its_time(store: Store) -> None:
    at = store.ada.created_at
    await told(store, config(store))
    [first] = await taken(store, at)
    again = at + timedelta(seconds=60)
    assert await store.storage.write(lambda tx: tx.outbox.retry(first, ME, again))
    assert await taken(store, again - timedelta(seconds=1)) == []
    [second] = await taken(store, again)
    assert (second.id, second.seq, second.attempts) == (first.id, 1, 1)


async def test_what_is_given_back_was_never_taken(store: Store) -> None:
    at = store.ada.created_at
    await told(store, config(store))
    [first] = await taken(store, at)
    assert await store.storage.write(lambda tx: tx.outbox.release(first, ME, at))
    assert await taken(store, at, OTHER) == [first]


async def test_a_lease_that_ran_out_belongs_to_who_takes_it_next(store: Store) -> None:
    at = store.ada.created_at
    await told(store, config(store))
    [held] = await taken(store, at)
    assert await taken(store, at + LEASE - timedelta(seconds=1), OTHER) == []
    later = at + LEASE
    [same] = await taken(store, later, OTHER)
    assert same == held

    def too_late(tx: Transaction) -> list[bool]:
        return [
            tx.outbox.done(held, ME, later),
            tx.outbox.retry(held, ME, later),
            tx.outbox.release(held, ME, later),
        ]

    assert await store.storage.write(too_late) == [False, False, False]
    assert await store.storage.write(lambda tx: tx.outbox.done(same, OTHER, later))


async def test_what_a_config_was_to_be_told_goes_with_it(store: Store) -> None:
    at = store.ada.created_at
    await told(store, config(store, "own-1"), config(store, "own-2"))
    [*held] = await taken(store, at)
    await store.storage.write(lambda tx: tx.push_configs.delete("own-1"))
    mine = next(one for one in held if one.push_config_id == "own-1")
    assert not await store.storage.write(lambda tx: tx.outbox.done(mine, ME, at))
    assert await store.storage.write(lambda tx: tx.outbox.clear("own-2")) == 3


async def test_the_key_of_a_sealed_config_is_in_use(store: Store) -> None:
    line = "fedcba9876543210.nonce.text"
    await store.storage.write(lambda tx: tx.push_configs.put(config(store, secret_sealed=line)))
    assert "fedcba9876543210" in await store.storage.read(lambda tx: tx.secrets.key_ids())
