"""Instances: a copy per run, one per session, or one for all; state of a session; health."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from molecule_skill import A2AAgent, Invocation, NoAuth, RunContext, skill
from molecule_skill.lifecycle import MAX_SESSIONS
from molecule_skill.store import MemoryRunStore
from molecule_skill.testing import StaticAuthResolver
from packages.skills.tests.hosting import ended, opened, run, until

CALLS: list[str] = []


class Tally(BaseModel):
    count: int = 0


class Base(A2AAgent[Any, Any]):
    abstract = True
    seen = 0

    async def startup(self, ctx: Any) -> None:
        CALLS.append("startup")

    async def shutdown(self, ctx: Any) -> None:
        CALLS.append("shutdown")

    @skill
    async def count(self, ctx: RunContext[Any]) -> int:
        self.seen += 1
        return self.seen


class Ephemeral(Base):
    name = "ephemeral"


class Warm(Base):
    name = "warm"
    lifecycle = "warm"


class PerSession(Base):
    name = "per-session"
    lifecycle, state, state_model = "session", "session", Tally

    @skill
    async def tally(self, ctx: RunContext[Any]) -> int:
        state = await ctx.load_state()
        await ctx.save_state(Tally(count=state.count + 1))
        return state.count + 1


class Unwell(Base):
    name = "unwell"
    is_well = True

    async def health(self) -> bool:
        if not self.is_well:
            raise RuntimeError("the model is gone")
        return True


@pytest.fixture(autouse=True)
def clean() -> None:
    CALLS.clear()


async def test_an_ephemeral_agent_forgets_between_runs_and_starts_once() -> None:
    async with opened(Ephemeral(), MemoryRunStore()) as gate:
        assert [(await run(gate, "count")).result for _ in range(3)] == [1, 1, 1]
    assert CALLS == ["startup", "shutdown"]


async def test_a_warm_agent_is_one_instance() -> None:
    async with opened(Warm(), MemoryRunStore()) as gate:
        assert [(await run(gate, "count")).result for _ in range(3)] == [1, 2, 3]
    assert CALLS == ["startup", "shutdown"]


async def in_session(gate: Any, skill_name: str, session: str | None) -> Any:
    ctx = await gate.open(Invocation("t", skill_name, {}, session_id=session))
    return await ended(gate, ctx.run_id)


async def test_a_session_has_an_instance_of_its_own_per_caller() -> None:
    store = MemoryRunStore()
    async with opened(PerSession(), store) as gate:
        results = [(await in_session(gate, "count", session)).result for session in ("a", "b", "a", None)]
        assert results == [1, 1, 2, 1]
    assert CALLS == ["startup"] * 3 + ["shutdown"] * 3


async def test_the_state_of_a_session_belongs_to_its_caller() -> None:
    store = MemoryRunStore()
    async with opened(PerSession(), store) as gate:
        assert [(await in_session(gate, "tally", one)).result for one in ("a", "a", "b")] == [1, 2, 1]
        failure = (await in_session(gate, "tally", None)).failure
        assert failure is not None
        assert failure.code == "not-implemented"
    async with opened(PerSession(), store, resolver=StaticAuthResolver(NoAuth(), "user:bob")) as gate:
        assert (await in_session(gate, "tally", "a")).result == 1
    async with opened(PerSession(), store) as gate:
        assert (await in_session(gate, "tally", "a")).result == 3


async def test_sessions_that_are_not_used_make_room() -> None:
    async with opened(PerSession(), MemoryRunStore()) as gate:
        instances = gate._runs.instances
        for number in range(MAX_SESSIONS + 2):
            await instances.of("user:ada", str(number))
        assert len(instances._sessions) == MAX_SESSIONS
    assert CALLS.count("startup") == CALLS.count("shutdown") == MAX_SESSIONS + 3


async def test_health_feeds_readiness_and_recovers() -> None:
    agent = Unwell()
    async with opened(agent, MemoryRunStore(), health_seconds=0.0, poll_seconds=0.005) as gate:
        assert gate.readiness().ok
        agent.is_well = False
        await until(lambda: not gate.readiness().ok)
        assert gate.readiness().reasons == ("the health check failed with RuntimeError",)
        agent.is_well = True
        await until(lambda: gate.readiness().ok)


async def test_missing_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Needs(Base):
        name = "needs"
        required_env = ("SOME_SETTING",)

    async with opened(Needs(), MemoryRunStore()) as gate:
        assert gate.readiness().reasons == ("missing environment variables: SOME_SETTING",)
    monkeypatch.setenv("SOME_SETTING", "1")
    async with opened(Needs(), MemoryRunStore()) as gate:
        assert gate.readiness().ok


async def test_a_thousand_runs_wait_and_all_are_answered() -> None:
    class Asks(Base):
        name = "asks"

        @skill
        async def ask(self, ctx: RunContext[Any]) -> str:
            return await ctx.ask("name?")

    async with opened(Asks(), MemoryRunStore(), queue_limit=2000, poll_seconds=2.0) as gate:
        runs = [await gate.open(Invocation("t", "ask")) for _ in range(1000)]
        await until(lambda: len(gate._host.waiters) == 1000)
        caller = (await gate.identify(None, {}))[1]
        for ctx in runs:
            [row] = await gate.reader(ctx.run_id, "user:ada").interactions()
            await gate.answer(row.id, caller, ctx.run_id)
        records = await asyncio.gather(*(ended(gate, ctx.run_id) for ctx in runs))
        assert [record.result for record in records] == [ctx.run_id for ctx in runs]
