"""What every store promises about transactions, on every store."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from molecule_platform.domain.events import Event
from molecule_platform.ports.storage import StorageDown, Transaction
from molecule_platform.storage.postgres import PostgresStorage

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Eventually, MakeMessage
    from packages.platform.tests.storage.conftest import Elsewhere, Store


class OwnProblem(Exception):
    """What a job of a test raises."""


def named(store: Store, name: str) -> Event:
    return Event(name, store.org.id, store.ada.id, {}, store.ada.created_at)


async def names_in(store: Store) -> list[str]:
    found = await store.storage.read(lambda tx: tx.events.after(0, 1000))
    return [event.event_type for event in found]


async def test_what_a_write_returned_is_seen_by_the_next_read(store: Store) -> None:
    for number in range(20):
        kept = await store.storage.write(lambda tx: tx.events.append(named(store, "X")))
        assert await store.storage.read(lambda tx: tx.events.last_id()) == kept, number


async def test_a_job_that_fails_is_undone_alone_and_its_caller_gets_its_own_problem(store: Store) -> None:
    def failing(tx: Transaction) -> None:
        tx.events.append(named(store, "UNDONE"))
        raise OwnProblem

    def working(tx: Transaction) -> None:
        tx.events.append(named(store, "KEPT"))

    jobs = [working, failing, working, failing, working]
    ended = await asyncio.gather(*(store.storage.write(job) for job in jobs), return_exceptions=True)
    assert [type(end) for end in ended] == [type(None), OwnProblem, type(None), OwnProblem, type(None)]
    assert await names_in(store) == ["KEPT"] * 3


async def test_a_broken_constraint_is_the_job_s_own_problem_and_spares_the_others(store: Store) -> None:
    jobs = [
        store.storage.write(lambda tx: tx.events.append(named(store, "BEFORE"))),
        store.storage.write(lambda tx: tx.workspaces.insert(store.ada)),
        store.storage.write(lambda tx: tx.events.append(named(store, "AFTER"))),
    ]
    ended = await asyncio.gather(*jobs, return_exceptions=True)
    assert isinstance(ended[1], Exception)
    assert not isinstance(ended[1], StorageDown)
    assert await names_in(store) == ["BEFORE", "AFTER"]


async def test_bells_ring_after_the_commit_each_once_and_never_for_a_failed_job(
    store: Store, eventually: Eventually
) -> None:
    def good(tx: Transaction) -> None:
        assert store.rang == []
        tx.signal("mail.a")
        tx.signal("events")
        tx.signal("mail.a")

    def bad(tx: Transaction) -> None:
        tx.signal("mail.never")
        raise OwnProblem

    await asyncio.gather(store.storage.write(good), store.storage.write(bad), return_exceptions=True)
    await eventually(lambda: bool(store.rang))
    assert store.rang == ["mail.a", "events"]


async def test_whoever_hears_a_bell_can_read_what_it_rang_for(store: Store, eventually: Eventually) -> None:
    for number in range(10):
        store.rang.clear()

        def work(tx: Transaction) -> None:
            tx.events.append(named(store, "RUNG"))
            tx.signal("events")

        writing = asyncio.ensure_future(store.storage.write(work))
        await eventually(lambda: bool(store.rang))
        assert len(await names_in(store)) == number + 1
        await writing


async def test_numbers_grow_in_the_order_of_the_commits_under_fifty_writers(store: Store) -> None:
    seen: list[int] = []
    stop = asyncio.Event()

    async def follow() -> None:
        while not stop.is_set():
            found = await store.storage.read(lambda tx: tx.events.after(seen[-1] if seen else 0, 1000))
            seen.extend(event.id or 0 for event in found)

    follower = asyncio.ensure_future(follow())
    writes = (store.storage.write(lambda tx: tx.events.append(named(store, "N"))) for _ in range(50))
    numbers = await asyncio.gather(*writes)
    stop.set()
    await follower
    rest = await store.storage.read(lambda tx: tx.events.after(seen[-1] if seen else 0, 1000))
    seen += [event.id or 0 for event in rest]
    assert len(set(numbers)) == 50
    assert seen == sorted(numbers)


async def test_work_of_a_caller_that_stops_waiting_is_dropped_and_disturbs_no_other(store: Store) -> None:
    writes = [
        asyncio.ensure_future(store.storage.write(lambda tx: tx.events.append(named(store, "W"))))
        for _ in range(5)
    ]
    await asyncio.sleep(0)
    writes[2].cancel()
    ended = await asyncio.gather(*writes, return_exceptions=True)
    assert sum(isinstance(end, asyncio.CancelledError) for end in ended) == 1
    assert len(await names_in(store)) == 4


async def test_a_reader_that_leaves_at_any_point_leaves_no_old_snapshot_behind(store: Store) -> None:
    """A driver that is interrupted while it begins may forget the transaction that the server has begun."""
    for steps in range(0, 60, 2):
        leaving = [
            asyncio.ensure_future(store.storage.read(lambda tx: tx.events.last_id())) for _ in range(8)
        ]
        for _ in range(steps):
            await asyncio.sleep(0)
        for reader in leaving:
            reader.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        kept = await store.storage.write(lambda tx: tx.events.append(named(store, "X")))
        # As many as there may be connections.
        seen = await asyncio.gather(*(store.storage.read(lambda tx: tx.events.last_id()) for _ in range(8)))
        assert seen == [kept] * 8, f"cancelled after {steps} steps"


async def test_a_read_s_own_problem_reaches_its_caller(store: Store) -> None:
    def failing(_tx: Transaction) -> None:
        raise OwnProblem

    with pytest.raises(OwnProblem):
        await store.storage.read(failing)
    assert await names_in(store) == []


async def test_a_read_sees_one_moment_also_when_a_write_commits_between_two_looks(
    store: Store, request: pytest.FixtureRequest, elsewhere: Elsewhere
) -> None:
    def write_elsewhere() -> None:
        if isinstance(store.storage, PostgresStorage):
            url: str = request.getfixturevalue("migrated_postgres")
            elsewhere(url, "UPDATE counters SET value = value + 1")
        else:
            asyncio.run_coroutine_threadsafe(
                store.storage.write(lambda tx: tx.events.append(named(store, "LATE"))), loop
            ).result(30)

    def look_twice(tx: Transaction) -> tuple[int, int]:
        first = tx.events.last_id()
        write_elsewhere()
        return first, tx.events.last_id()

    loop = asyncio.get_running_loop()
    before, after = await store.storage.read(look_twice)
    assert before == after
    assert await store.storage.read(lambda tx: tx.events.last_id()) == before + 1


async def test_closing_finishes_what_is_waiting_and_a_closed_store_says_so(
    store: Store, make_message: MakeMessage
) -> None:
    waiting = [
        asyncio.ensure_future(
            store.storage.write(
                lambda tx, n=number: tx.mailbox.insert(make_message(seq=n + 1, target_id=store.ada.id))
            )
        )
        for number in range(20)
    ]
    await asyncio.sleep(0)
    await store.storage.close()
    await asyncio.gather(*waiting)
    with pytest.raises(StorageDown):
        await store.storage.write(lambda tx: tx.events.last_id())
    await store.storage.close()
