"""Loops that survive any fault, and run on one replica at a time where that matters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from molecule_platform.services import loops
from molecule_platform.services.loops import Loops

if TYPE_CHECKING:
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
    monkeypatch.setattr(loops, "BACKOFF_FIRST", 0.01)


async def test_a_loop_that_breaks_is_logged_counted_and_runs_again(rig: Rig, eventually: Eventually) -> None:
    broken, healthy = Work(failures=3), Work()
    running = Loops(rig.storage, rig.clock, rig.log, "one", shared=False)
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
    running = Loops(rig.storage, rig.clock, rig.log, "one", shared=False)
    running.add("broken", 0.01, Work(failures=1000))
    running.start()
    await eventually(lambda: running.each()[0].restarts > 1)
    assert not running.each()[0].is_well(rig.clock.now())
    await running.stop()


async def test_a_loop_that_did_not_run_for_long_is_not_well(rig: Rig) -> None:
    running = Loops(rig.storage, rig.clock, rig.log, "one", shared=False)
    running.add("slow", 15, Work())
    [loop] = running.each()
    await running.tick(loop)
    assert loop.is_well(rig.clock.now())
    assert not loop.is_well(rig.clock.advance(60))


async def test_an_exclusive_loop_runs_on_one_replica_and_on_the_other_once_that_stops(rig: Rig) -> None:
    works = {name: Work() for name in ("one", "two")}
    replicas = {name: Loops(rig.storage, rig.clock, rig.log, name, shared=True) for name in works}
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
