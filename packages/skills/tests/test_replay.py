"""Durable runs: a killed process loses nothing, nothing is done twice, what cannot go on says so."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molecule_skill import A2AAgent, LocalRunContext, NoAuth, RunContext, RunRefused, skill
from molecule_skill.store import MemoryRunStore, SqliteRunStore
from molecule_skill.testing import ManualClock, ScriptedPeer
from packages.skills.tests import hosting
from packages.skills.tests.hosting import ADA, ended, kinds, opened, pending, run, start
from packages.skills.tests.stores import StoreUnderTest

DONE: list[str] = []
KILLS: list[int] = []
DEAD = asyncio.Event()


def effect(name: str) -> str:
    DONE.append(name)
    return name


async def die() -> None:
    """Say that the process should be killed here, and never come back."""
    DEAD.set()
    await asyncio.get_running_loop().create_future()


class Agent(A2AAgent[Any, Any]):
    name = "durable"
    concurrency = 4

    @skill(durable=True)
    async def full(self, ctx: RunContext[Any]) -> list[Any]:
        await ctx.emit_progress("start")
        first = await ctx.step("one", effect, "one")
        draw = ctx.random().random()
        called = (await ctx.call("peer", "work", args={"n": 1})).result
        ref = await ctx.write_artifact("a.txt", b"a", "text/plain")
        answer = await ctx.ask("name?")
        await ctx.emit_progress("middle")
        second = await ctx.step("two", effect, "two")
        colour = await ctx.collect({"type": "string", "enum": ["red"]}, title="colour?", key="colour")
        return [first, draw, called, ref.uri, answer, second, colour]

    @skill(durable=True)
    async def cut(self, ctx: RunContext[Any], times: int) -> str:
        async def charge() -> str:
            effect("charge")
            if len(DONE) <= times:
                await die()
            return "charged"

        return await ctx.step("charge", charge)

    @skill
    async def fragile(self, ctx: RunContext[Any]) -> str:
        return await ctx.ask("name?")

    @skill
    async def works(self, ctx: RunContext[Any]) -> None:
        await die()

    @skill(idempotent=True, max_retries=1)
    async def again(self, ctx: RunContext[Any]) -> int:
        await ctx.emit_progress(f"attempt {ctx.attempt}")
        if ctx.attempt == 1:
            await die()
        return ctx.attempt

    @skill(idempotent=True)
    async def asks_once(self, ctx: RunContext[Any]) -> str:
        return f"{ctx.attempt} {await ctx.ask('name?')}"

    @skill(durable=True)
    async def swallows(self, ctx: RunContext[Any]) -> str:
        try:
            return await ctx.ask("first?")
        except Exception:  # noqa: BLE001 - a handler that swallows everything
            return "swallowed"

    @skill(durable=True)
    async def program(self, ctx: RunContext[Any], ops: list[str]) -> list[Any]:
        results: list[Any] = []
        for place, op in enumerate(ops):
            if KILLS and KILLS[0] == place:
                KILLS.pop(0)
                await die()
            results.append(await self._do(ctx, place, op))
        return results

    async def _do(self, ctx: RunContext[Any], place: int, op: str) -> Any:
        if op == "step":
            return await ctx.step(f"step {place}", effect, f"{place}")
        if op == "ask":
            return await ctx.ask("name?")
        if op == "emit":
            return await ctx.emit_progress(f"at {place}")
        if op == "artifact":
            return (await ctx.write_artifact("same name", b"x", "text/plain")).name
        return ctx.random().randrange(1000)


class Changed(A2AAgent[Any, Any]):
    """The same agent after its author changed the code."""

    name = "durable"

    @skill(durable=True)
    async def full(self, ctx: RunContext[Any]) -> str:
        await ctx.step("one", effect, "one")
        return await ctx.ask("another question?")

    @skill(durable=True)
    async def swallows(self, ctx: RunContext[Any]) -> str:
        try:
            return await ctx.ask("second?")
        except Exception:  # noqa: BLE001 - a handler that swallows everything
            return "swallowed"


def work(n: int) -> int:
    effect("call")
    return 7


PEER = {"peer.work": work}


@pytest.fixture(autouse=True)
def clean() -> None:
    DONE.clear()
    KILLS.clear()
    DEAD.clear()


def at(store: Any, agent: Any = None, **options: Any) -> Any:
    return opened(agent or Agent(), store, a2a=ScriptedPeer(PEER), **options)


async def killed(gate: Any, under_test: StoreUnderTest) -> Any:
    await hosting.kill(gate)
    under_test.store = under_test.kill(under_test.store)
    return under_test.store


async def test_a_durable_run_goes_on_after_each_kill_and_does_nothing_twice(
    under_test: StoreUnderTest,
) -> None:
    async with at(under_test.store) as gate:
        ctx = await start(gate, "full")
        question = await pending(gate, ctx.run_id)
        before = await kinds(gate, ctx.run_id)
        store = await killed(gate, under_test)
    async with at(store) as gate:
        again = await pending(gate, ctx.run_id)
        assert again.id == question.id
        assert await kinds(gate, ctx.run_id) == before
        await gate.answer(question.id, ADA, "Ada")
        form = await pending(gate, ctx.run_id)
        store = await killed(gate, under_test)
    async with at(store) as gate:
        await pending(gate, ctx.run_id)
        await gate.answer(form.id, ADA, "red")
        record = await ended(gate, ctx.run_id)
        assert DONE == ["one", "call", "two"]
        draw = LocalRunContext(auth=NoAuth(), task_id=ctx.run_id).random().random()
        uri = f"molecule://runs/{ctx.run_id}/artifacts/a.txt"
        assert record.result == ["one", draw, 7, uri, "Ada", "two", "red"]
        assert (record.attempt, record.fence) == (1, 3)
        assert await kinds(gate, ctx.run_id) == [
            "run_started", "progress", "call_started", "call_complete", "question", "interaction_closed",
            "progress", "input_request", "interaction_closed", "run_finished",
        ]  # fmt: skip
        assert len(await gate.reader(ctx.run_id, None).artifacts()) == 1


async def test_an_answer_given_while_no_process_ran_is_found(under_test: StoreUnderTest) -> None:
    async with at(under_test.store) as gate:
        ctx = await start(gate, "full")
        question = await pending(gate, ctx.run_id)
        store = await killed(gate, under_test)
    await store.close_request(
        question.id, type(question.state)("answered"), answer="Ada", answered_by="user:ada", at=1.0
    )
    async with at(store) as gate:
        form = await pending(gate, ctx.run_id)
        await gate.answer(form.id, ADA, "red")
        assert (await ended(gate, ctx.run_id)).state == "succeeded"


@pytest.mark.parametrize(("cuts", "code"), [(1, None), (2, "run-interrupted")])
async def test_a_step_cut_in_the_middle_runs_twice_at_most_and_says_so(
    under_test: StoreUnderTest, cuts: int, code: str | None
) -> None:
    store = under_test.store
    run_id = ""
    for number in range(cuts):
        async with at(store) as gate:
            run_id = run_id or (await start(gate, "cut", times=cuts)).run_id
            await asyncio.wait_for(DEAD.wait(), 5)
            DEAD.clear()
            assert len(DONE) == number + 1
            store = await killed(gate, under_test)
    async with at(store) as gate:
        record = await ended(gate, run_id)
        events = await gate.reader(run_id, None).events()
        assert len(DONE) == 2
        assert (record.failure.code if record.failure else None) == code
        retries = [event.payload for event in events if event.kind == "retry"]
        assert [one["step"] for one in retries] == ["charge"]
        assert "second time" in str(retries[0]["error"])


async def test_a_run_that_cannot_go_on_ends_as_interrupted_and_late_answers_are_refused(
    under_test: StoreUnderTest,
) -> None:
    async with at(under_test.store) as gate:
        waiting = await start(gate, "fragile")
        question = await pending(gate, waiting.run_id)
        running = await start(gate, "works")
        await DEAD.wait()
        store = await killed(gate, under_test)
    async with at(store) as gate:
        for ctx in (waiting, running):
            record = await ended(gate, ctx.run_id)
            assert record.failure is not None
            assert (record.state, record.failure.code) == ("failed", "run-interrupted")
        with pytest.raises(RunRefused) as caught:
            await gate.answer(question.id, ADA, "Ada")
        assert caught.value.code == "interaction-closed"


async def test_an_idempotent_skill_is_tried_again_after_the_loss_of_its_process(
    under_test: StoreUnderTest,
) -> None:
    async with at(under_test.store) as gate:
        ctx = await start(gate, "again")
        await DEAD.wait()
        store = await killed(gate, under_test)
    async with at(store) as gate:
        record = await ended(gate, ctx.run_id)
        assert (record.result, record.attempt) == (2, 2)
        assert await kinds(gate, ctx.run_id) == [
            "run_started", "progress", "retry", "run_started", "progress", "run_finished",
        ]  # fmt: skip


async def test_an_idempotent_skill_that_waited_is_replayed_in_the_same_attempt(
    under_test: StoreUnderTest,
) -> None:
    async with at(under_test.store) as gate:
        ctx = await start(gate, "asks_once")
        await pending(gate, ctx.run_id)
        store = await killed(gate, under_test)
    async with at(store) as gate:
        question = await pending(gate, ctx.run_id)
        await gate.answer(question.id, ADA, "Ada")
        assert (await ended(gate, ctx.run_id)).result == "1 Ada"


async def test_a_replay_that_diverges_is_named_with_its_place(under_test: StoreUnderTest) -> None:
    async with at(under_test.store) as gate:
        ctx = await start(gate, "full")
        await pending(gate, ctx.run_id)
        swallowing = await start(gate, "swallows")
        await pending(gate, swallowing.run_id)
        store = await killed(gate, under_test)
    async with at(store, Changed()) as gate:
        record = await ended(gate, ctx.run_id)
        assert record.failure is not None
        assert (record.state, record.failure.code) == ("failed", "replay-diverged")
        assert record.failure.extras == {"place": 2}
        assert "'another question?'" in record.failure.error
        assert DONE == ["one", "call"]
        swallowed = (await ended(gate, swallowing.run_id)).failure
        assert swallowed is not None
        assert (swallowed.code, swallowed.extras) == ("replay-diverged", {"place": 1})
        assert "'first?'" in swallowed.error


async def test_a_run_of_a_skill_that_is_gone_is_interrupted(under_test: StoreUnderTest) -> None:
    async with at(under_test.store) as gate:
        ctx = await start(gate, "asks_once")
        await pending(gate, ctx.run_id)
        store = await killed(gate, under_test)
    async with at(store, Changed()) as gate:
        failure = (await ended(gate, ctx.run_id)).failure
        assert failure is not None
        assert failure.code == "run-interrupted"
        assert "asks_once" in failure.error


async def test_a_cancellation_survives_the_process(under_test: StoreUnderTest) -> None:
    async with at(under_test.store) as gate:
        ctx = await start(gate, "full")
        await pending(gate, ctx.run_id)
        await ctx._engine_event("cancel_requested", {})
        store = await killed(gate, under_test)
    async with at(store) as gate:
        assert (await ended(gate, ctx.run_id)).state == "cancelled"


async def test_draining_leaves_durable_runs_to_the_next_process(under_test: StoreUnderTest) -> None:
    async with at(under_test.store) as gate:
        ctx = await start(gate, "full")
        question = await pending(gate, ctx.run_id)
    assert (await under_test.store.run(ctx.run_id)).state == "waiting"
    store = under_test.store = under_test.kill(under_test.store)
    async with at(store) as gate:
        await pending(gate, ctx.run_id)
        await gate.answer(question.id, ADA, "Ada")
        form = await pending(gate, ctx.run_id)
        await gate.answer(form.id, ADA, "red")
        assert (await ended(gate, ctx.run_id)).state == "succeeded"
    assert DONE == ["one", "call", "two"]


async def test_a_run_that_waits_long_is_parked_and_comes_back_with_the_answer(
    under_test: StoreUnderTest,
) -> None:
    async with at(under_test.store, park_after_seconds=0.01) as gate:
        ctx = await start(gate, "full")
        await hosting.until(lambda: ctx.run_id in gate._runs.parked)
        assert gate._runs.active == {}
        [row] = await gate.reader(ctx.run_id, None).interactions()
        assert await gate.answer(row.id, ADA, "Ada") == "answered"
        await hosting.until(lambda: ctx.run_id in gate._runs.parked)
        [_, form] = await gate.reader(ctx.run_id, None).interactions()
        await gate.answer(form.id, ADA, "red")
        assert (await ended(gate, ctx.run_id)).state == "succeeded"
        other = await start(gate, "full")
        await hosting.until(lambda: other.run_id in gate._runs.parked)
        await gate.cancel(other.run_id, None)
        assert (await ended(gate, other.run_id)).state == "cancelled"
    assert DONE == ["one", "call", "two", "one", "call"]


async def test_a_clock_set_back_during_a_pause_gives_nobody_more_time() -> None:
    clock = ManualClock()
    with clock.installed():
        async with at(MemoryRunStore()) as gate:
            ctx = await start(gate, "fragile")
            await clock.advance(1)
            clock.set_wall(clock.time() - 3600)
            await clock.advance(180)
            record = await gate.run(ctx.run_id, None)
            assert record.failure is not None
            assert record.failure.code == "interaction-timeout"


async def test_an_answer_given_by_another_process_is_found_by_polling(under_test: StoreUnderTest) -> None:
    async with at(under_test.store) as gate:
        ctx = await start(gate, "fragile")
        row = await pending(gate, ctx.run_id)
        # What another process would write; nobody here is told.
        await under_test.store.close_request(
            row.id, type(row.state)("answered"), answer="Ada", answered_by="user:ada", at=1.0
        )
        assert (await ended(gate, ctx.run_id)).result == "Ada"


OPS = st.lists(st.sampled_from(["step", "ask", "emit", "artifact", "random"]), min_size=1, max_size=7)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ops=OPS, data=st.data())
async def test_a_program_killed_anywhere_ends_as_if_it_had_never_been_killed(
    ops: list[str], data: Any
) -> None:
    kills = data.draw(st.lists(st.integers(0, len(ops) - 1), max_size=3).map(sorted))
    store = MemoryRunStore()
    DONE.clear()
    DEAD.clear()
    KILLS[:] = kills
    run_id, record, events = "", None, list[Any]()
    while record is None or not record.state.is_final:
        async with at(store) as gate:
            run_id = run_id or (await start(gate, "program", ops=ops)).run_id
            record = await driven(gate, run_id)
            if not record.state.is_final:
                await hosting.kill(gate)
                store = store.successor()
                DEAD.clear()
            else:
                events = await gate.reader(run_id, None).events()
    expected = [str(place) for place, op in enumerate(ops) if op == "step"]
    assert expected == DONE
    assert record.state == "succeeded"
    messages = [event.payload.get("message") for event in events if event.kind == "progress"]
    assert messages == [f"at {place}" for place, op in enumerate(ops) if op == "emit"]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert sum(event.kind == "question" for event in events) == ops.count("ask")
    rng = LocalRunContext(auth=NoAuth(), task_id=run_id).random()
    values = {"step": None, "ask": "Ada", "emit": None, "artifact": "same name"}
    assert record.result == [
        str(place) if op == "step" else rng.randrange(1000) if op == "random" else values[op]
        for place, op in enumerate(ops)
    ]


async def driven(gate: Any, run_id: str) -> Any:
    """Answer what is asked until the run is final or wants its process to be killed."""
    async with asyncio.timeout(20):
        while True:
            record = await gate.run(run_id, None)
            if record.state.is_final or DEAD.is_set():
                return record
            for row in await gate.reader(run_id, None).interactions():
                if row.state == "pending" and row.id in gate._host.waiters:
                    await gate.answer(row.id, ADA, "Ada")
            await asyncio.sleep(0)


async def test_two_uses_of_one_key_are_an_error(under_test: StoreUnderTest) -> None:
    class Twice(A2AAgent[Any, Any]):
        name = "twice"

        @skill(durable=True)
        async def f(self, ctx: RunContext[Any]) -> None:
            await ctx.step("k", effect, "k")
            await ctx.step("k", effect, "k")

    async with at(under_test.store, Twice()) as gate:
        failure = (await run(gate, "f")).failure
        assert failure is not None
        assert "'k'" in failure.error
    assert DONE == ["k"]


class Patient(A2AAgent[Any, Any]):
    name = "patient"

    @skill(durable=True)
    async def ask(self, ctx: RunContext[Any], timeout: float) -> str:
        """Ask a person who may not be there."""
        return await ctx.ask("still there?", timeout=timeout)


async def test_a_parked_run_whose_question_expires_comes_back_and_ends(under_test: StoreUnderTest) -> None:
    async with opened(Patient(), under_test.store, park_after_seconds=0.01) as gate:
        ctx = await start(gate, "ask", timeout=0.3)
        await hosting.until(lambda: ctx.run_id in gate._runs.parked)
        record = await ended(gate, ctx.run_id)
        assert (record.state, record.failure and record.failure.code) == ("failed", "interaction-timeout")
        [row] = await gate.reader(ctx.run_id, None).interactions()
        assert row.state == "expired"
        assert await kinds(gate, ctx.run_id) == [
            "run_started",
            "question",
            "interaction_closed",
            "run_finished",
        ]
        with pytest.raises(RunRefused) as late:
            await gate.answer(row.id, ADA, "yes")
        assert late.value.code == "interaction-closed"
        assert gate._runs.parked == {}


async def test_a_run_of_another_process_on_the_same_file_is_cancelled(tmp_path: Path) -> None:
    ours, theirs = (SqliteRunStore(tmp_path / "runs.db") for _ in range(2))
    async with opened(Patient(), ours, park_after_seconds=0.01) as gate, opened(Patient(), theirs) as other:
        parked = await start(gate, "ask", timeout=60)
        await hosting.until(lambda: parked.run_id in gate._runs.parked)
        waiting = await start(other, "ask", timeout=60)
        await pending(other, waiting.run_id)
        await other.cancel(parked.run_id, "user:ada")
        await gate.cancel(waiting.run_id, "user:ada")
        for one in (parked, waiting):
            record = await ended(gate, one.run_id)
            assert (record.state, record.failure and record.failure.code) == ("cancelled", "cancelled")
            assert (await kinds(gate, one.run_id)).count("cancel_requested") == 1
