"""Gates in tests: open one, run a skill to its end, kill the process that has it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakSet

from molecule_skill.agent import A2AAgent
from molecule_skill.hosted import Answerer, GateSettings, HostedRunContext, Invocation, RunGate
from molecule_skill.identity import NoAuth
from molecule_skill.store import RequestRecord, RequestState, RunRecord
from molecule_skill.testing import StaticAuthResolver

ADA = Answerer("user:ada")
_KILLED: WeakSet[RunGate] = WeakSet()


def settings(**options: Any) -> GateSettings:
    usual: dict[str, Any] = {"resolver": StaticAuthResolver(NoAuth(), "user:ada")}
    usual |= {"drain_seconds": 0.0, "poll_seconds": 0.05}
    return GateSettings(**(usual | options))


@asynccontextmanager
async def opened(agent: A2AAgent[Any, Any], store: Any, **options: Any) -> AsyncGenerator[RunGate]:
    gate = RunGate(agent, store, settings(**options))
    await gate.start()
    try:
        yield gate
    finally:
        if gate not in _KILLED:
            await gate.close()


async def start(gate: RunGate, skill: str, /, **arguments: Any) -> HostedRunContext[Any]:
    return await gate.open(Invocation("test", skill, arguments))


async def run(gate: RunGate, skill: str, /, **arguments: Any) -> RunRecord:
    ctx = await start(gate, skill, **arguments)
    return await asyncio.wait_for(gate.reader(ctx.run_id, "user:ada").wait(), 20)


async def ended(gate: RunGate, run_id: str) -> RunRecord:
    """The run when it is final."""
    async with asyncio.timeout(20):
        async for _ in gate.reader(run_id, None).follow():
            pass
    return await gate.run(run_id, None)


async def pending(gate: RunGate, run_id: str) -> RequestRecord:
    """The interaction that a run waits for."""
    async with asyncio.timeout(20):
        while True:
            rows = await gate.reader(run_id, None).interactions()
            found = [row for row in rows if row.state is RequestState.PENDING]
            if found and found[0].id in gate._host.waiters:
                return found[0]
            await asyncio.sleep(0.001)


async def kinds(gate: RunGate, run_id: str) -> list[str]:
    events = await gate.reader(run_id, None).events()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return [event.kind for event in events]


async def kill(gate: RunGate) -> None:
    """End the tasks of a gate as a killed process does: at once, and without a word to the store."""

    async def silent(*_: Any, **__: Any) -> list[Any]:
        await asyncio.get_running_loop().create_future()
        return []

    store: Any = gate._host.store
    for name in ("finish", "set_state", "append_events", "put_journal", "open_request", "put_artifact"):
        if hasattr(store, name):
            store.__dict__[name] = silent
    _KILLED.add(gate)
    tasks = [one.task for one in gate._runs.active.values() if one.task is not None]
    handlers = [one.ctx._execution._task for one in gate._runs.active.values() if one.ctx._execution]
    for task in (*tasks, *handlers, gate._upkeep):
        if task is not None:
            task.cancel()
    await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.001)
