"""The watchdog: an engine that blocks the event loop, or says that it does not work, is wedged."""

import asyncio
import threading
import time
from collections.abc import Generator

import pytest

from molecule_runtime.kit.state import engine_health
from molecule_runtime.kit.state.watchdog import LoopWatchdog, health_problem, watch_health


@pytest.fixture(autouse=True)
def no_wedge() -> Generator[None]:
    engine_health.reset_for_test()
    yield
    engine_health.reset_for_test()


async def test_a_blocked_event_loop_is_wedged_and_told_while_it_is_blocked() -> None:
    report = threading.Event()
    watchdog = LoopWatchdog(report.set, stall_seconds=0.1, poll_seconds=0.02)
    watchdog.start()
    await asyncio.sleep(0.1)
    assert not engine_health.is_wedged()
    blocked_until = time.monotonic() + 5
    while not report.is_set() and time.monotonic() < blocked_until:
        time.sleep(0.02)  # noqa: ASYNC251 - an engine that blocks is what this is about
    watchdog.stop()
    assert report.is_set()
    assert "the event loop was blocked for 0.1 s" in engine_health.wedge_reason()
    assert "test_a_blocked_event_loop" in engine_health.wedge_reason()


class Engine:
    """Says of its health what a test wants."""

    def __init__(self) -> None:
        self.answer: object = {"ok": True}
        self.queried = asyncio.Event()

    async def health(self) -> object:
        self.queried.set()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_an_engine_is_wedged_for_as_long_as_it_says_so() -> None:
    engine = Engine()
    watching = asyncio.create_task(watch_health(engine, 0.01))
    try:
        engine.answer = {"ok": False, "reason": "no model"}
        await _asked_twice(engine)
        assert engine_health.wedge_reason() == "no model"
        engine.answer = {"ok": True}
        await _asked_twice(engine)
        assert not engine_health.is_wedged()
    finally:
        watching.cancel()


async def _asked_twice(engine: Engine) -> None:
    for _ in range(2):
        engine.queried.clear()
        await asyncio.wait_for(engine.queried.wait(), 5)
    await asyncio.sleep(0)


async def test_a_health_that_raises_is_a_problem_without_its_text() -> None:
    engine = Engine()
    engine.answer = RuntimeError("key sk-secret")
    assert await health_problem(engine) == "the engine's health cannot be told: RuntimeError"
