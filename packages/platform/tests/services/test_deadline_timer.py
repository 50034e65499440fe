"""Patience with many at once: whoever comes first is given up first, and nobody who ended in time."""

from __future__ import annotations

import asyncio
import time

import pytest

from molecule_platform.services.support import deadline_timer as module
from molecule_platform.services.support.deadline_timer import TOGETHER_SECONDS, DeadlineTimer

SECONDS = 0.1


async def test_each_is_given_up_after_its_own_time_and_in_order() -> None:
    given_up: list[str] = []
    both = asyncio.Event()

    def give_up(who: str) -> None:
        given_up.append(who)
        if len(given_up) == 2:
            both.set()

    loop = asyncio.get_running_loop()
    waits: DeadlineTimer[str] = DeadlineTimer(lambda: SECONDS, give_up)
    began = loop.time()
    waits.begin("one")
    waits.begin("two")
    while loop.time() < began + SECONDS / 2:
        """Let time pass, but nobody be given up."""
    later = loop.time()
    waits.begin("three")
    waits.begin("one")
    waits.end("two")
    waits.end("nobody")
    async with asyncio.timeout(30):
        await both.wait()
    assert given_up == ["three", "one"]
    assert loop.time() - later >= SECONDS - TOGETHER_SECONDS


async def test_a_loop_that_was_blocked_itself_gives_nobody_up_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCKED_SECONDS", 0.2)
    given_up: list[str] = []
    over = asyncio.Event()

    def give_up(who: str) -> None:
        given_up.append(who)
        over.set()

    waits: DeadlineTimer[str] = DeadlineTimer(lambda: SECONDS, give_up)
    waits.begin("one")
    time.sleep(SECONDS + 0.3)  # noqa: ASYNC251 - nobody else may run
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert given_up == []
    async with asyncio.timeout(30):
        await over.wait()
    assert given_up == ["one"]


async def test_who_is_given_up_may_begin_again() -> None:
    again: list[str] = []
    enough = asyncio.Event()

    def give_up(who: str) -> None:
        again.append(who)
        if len(again) < 3:
            waits.begin(who)
        else:
            enough.set()

    waits: DeadlineTimer[str] = DeadlineTimer(lambda: 0.01, give_up)
    waits.begin("one")
    async with asyncio.timeout(30):
        await enough.wait()
    assert not len(waits)
