"""Readers of a run: whatever they read from, every event comes once and in order."""

import asyncio
from typing import Any

import pytest

from molecule_skill import A2AAgent, RunContext, skill
from molecule_skill.hosted.live_runs import KEPT_EVENTS
from molecule_skill.store import NewEvent
from packages.skills.tests.hosting import ended, opened, run, start, until
from packages.skills.tests.stores import StoreUnderTest


class Chatty(A2AAgent[Any, Any]):
    name = "chatty"

    @skill()
    async def talk(self, ctx: RunContext[Any], words: int, gap: int = 0) -> int:
        """Tell so many events; after `gap` of them, wait until the test goes on."""
        for number in range(words):
            if gap and number == gap:
                await GOES_ON.wait()
            await ctx.emit_progress(str(number))
        return words


GOES_ON = asyncio.Event()


@pytest.fixture
def store(under_test: StoreUnderTest) -> Any:
    return under_test.store


async def test_a_reader_sees_every_event_once_whether_it_is_in_memory_or_not(store: Any) -> None:
    GOES_ON.clear()
    words = KEPT_EVENTS * 2
    async with opened(Chatty(), store) as gate:
        ctx = await start(gate, "talk", words=words, gap=10)
        reader, slow = gate.reader(ctx.run_id, None), gate.reader(ctx.run_id, None)
        first = await slow.events()
        GOES_ON.set()
        numbers = [event.seq async for event in reader.follow()]
        assert numbers == list(range(1, words + 3))
        rest = [event.seq async for event in slow.follow(after=first[-1].seq)]
        assert rest == numbers[len(first) :]
        assert [event.seq for event in await slow.events(after=5, limit=3)] == [6, 7, 8]


async def test_what_another_process_writes_to_a_run_is_seen_in_its_order(store: Any) -> None:
    GOES_ON.clear()
    async with opened(Chatty(), store) as gate:
        ctx = await start(gate, "talk", words=2, gap=1)
        reader = gate.reader(ctx.run_id, None)
        await until(lambda: ctx._count == 2)
        await store.append_events(ctx.run_id, 1, [NewEvent("cancel_requested", {}, 1.0)])
        GOES_ON.set()
        kinds = [event.kind async for event in reader.follow()]
    assert kinds == ["run_started", "progress", "cancel_requested", "progress", "run_finished"]


async def test_a_run_whose_caller_went_away_while_its_row_was_written_ends(store: Any) -> None:
    """Servers that cancel the task of a request may do so at any moment; no row is left without a run."""
    async with opened(Chatty(), store) as gate:
        written, written_down = store.open_run, asyncio.Event()

        async def slowly(*arguments: Any) -> Any:
            await written(*arguments)
            written_down.set()
            await asyncio.get_running_loop().create_future()

        store.open_run = slowly
        asking = asyncio.ensure_future(start(gate, "talk", words=1))
        await written_down.wait()
        asking.cancel()
        await asyncio.wait({asking})
        store.open_run = written
        (left,) = await gate.runs(None)
        record = await ended(gate, left.run_id)
        assert (record.state, record.failure and record.failure.code) == ("failed", "run-interrupted")
        assert (await run(gate, "talk", words=1)).result == 1
