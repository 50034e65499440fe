"""Loops that survive any fault, and run on one replica at a time where that matters."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from molecule_platform.services.support import periodic_tasks
from molecule_platform.services.support.periodic_tasks import LoopLeaseLost, PeriodicTasks
from molecule_platform.storage.loops import SqlLoops

if TYPE_CHECKING:
    from molecule_platform.ports.storage import Transaction
    from packages.platform.tests.conftest import Eventually
    from packages.platform.tests.services.conftest import Rig


class Work:
    """Periodic work that fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.rounds = 0

    async def __call__(self) -> None:
        self.rounds += 1
        if self.rounds <= self.failures:
            raise RuntimeError("out of order")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic_tasks, "MIN_BACKOFF_SECONDS", 0.01)


async def test_a_loop_that_breaks_is_logged_counted_and_runs_again(rig: Rig, eventually: Eventually) -> None:
    broken, healthy = Work(failures=3), Work()
    running = PeriodicTasks(rig.storage, rig.clock, rig.log, "one", shared=False)
    running.add("broken", 0.01, broken)
    running.add("healthy", 0.01, healthy)
    running.start()
    await eventually(lambda: broken.rounds > 4 and healthy.rounds > 4)
    await running.stop()
    told = {loop.name: loop for loop in running.each()}
    assert (told["broken"].restarts, told["healthy"].restarts) == (3, 0)
    assert told["broken"].is_well(rig.clock.now())
    failed = [fields for event, fields in rig.log.said if event == "a loop failed"]
    assert [fields["loop"] for fields in failed] == ["broken"] * 3
    assert [fields["next_in"] for fields in failed] == [0.01, 0.02, 0.04]


async def test_a_loop_that_only_fails_is_not_well(rig: Rig, eventually: Eventually) -> None:
    running = PeriodicTasks(rig.storage, rig.clock, rig.log, "one", shared=False)
    running.add("broken", 0.01, Work(failures=1000))
    running.start()
    await eventually(lambda: running.each()[0].restarts > 1)
    assert not running.each()[0].is_well(rig.clock.now())
    await running.stop()


async def test_a_loop_that_did_not_run_for_long_is_not_well(rig: Rig) -> None:
    running = PeriodicTasks(rig.storage, rig.clock, rig.log, "one", shared=False)
    running.add("slow", 15, Work())
    [loop] = running.each()
    await running.tick(loop)
    assert loop.is_well(rig.clock.now())
    assert not loop.is_well(rig.clock.advance(60))


async def test_an_exclusive_loop_runs_on_one_replica_and_on_the_other_once_that_stops(rig: Rig) -> None:
    works = {name: Work() for name in ("one", "two")}
    replicas = {name: PeriodicTasks(rig.storage, rig.clock, rig.log, name, shared=True) for name in works}
    for name, replica in replicas.items():
        replica.add("sweep", 60, works[name], exclusive=True)

    async def tick(name: str) -> None:
        await replicas[name].tick(replicas[name].each()[0])

    for name in ("one", "two", "two", "one"):
        await tick(name)
    assert (works["one"].rounds, works["two"].rounds) == (2, 0)
    await replicas["one"].stop()
    await tick("two")
    assert (works["one"].rounds, works["two"].rounds) == (2, 1)


async def test_work_that_takes_long_keeps_its_lease(
    rig: Rig, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic_tasks, "LEASE_SHORTEST", 0.06)

    def now(_leases: SqlLoops) -> datetime:
        return rig.clock.now()

    monkeypatch.setattr(SqlLoops, "_now", now)
    claim, asked, kept = SqlLoops.claim, list[str](), list[datetime]()

    def claim_and_tell(leases: SqlLoops, name: str, owner: str, lasts: timedelta) -> int | None:
        if owner == "one":
            kept.append(rig.clock.now())
        return claim(leases, name, owner, lasts)

    monkeypatch.setattr(SqlLoops, "claim", claim_and_tell)

    async def slow() -> None:
        for _ in range(10):
            later = rig.clock.advance(0.05)
            await eventually(lambda later=later: later in kept)
            claimed = await rig.storage.write(lambda tx: tx.loops.claim("sweep", "two", timedelta(0)))
            asked.append("two" if claimed else "one")

    running = PeriodicTasks(rig.storage, rig.clock, rig.log, "one", shared=True)
    running.add("sweep", 0.01, slow, exclusive=True)
    await running.tick(running.each()[0])
    assert asked == ["one"] * 10


async def test_work_whose_lease_went_to_another_replica_is_ended(rig: Rig) -> None:
    ended = asyncio.Event()

    async def stuck() -> None:
        def take_over(tx: Transaction) -> None:
            tx.loops.release("one")
            tx.loops.claim("sweep", "two", timedelta(hours=1))

        await rig.storage.write(take_over)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = PeriodicTasks(rig.storage, rig.clock, rig.log, "one", shared=True)
    running.add("sweep", 0.01, stuck, exclusive=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(periodic_tasks, "LEASE_SHORTEST", 0.06)
        with pytest.raises(LoopLeaseLost):
            await running.tick(running.each()[0])
    assert ended.is_set()
