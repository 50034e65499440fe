"""A process that runs durable skills until it is killed: traced steps, a question, an answer."""

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

from molecule_skill import A2AAgent, Invocation, NoAuth, RunContext, skill
from molecule_skill.hosted import Answerer, GateSettings, RunGate
from molecule_skill.store import RequestState, SqliteRunStore
from molecule_skill.testing import StaticAuthResolver

TRACE = Path(os.environ.get("SOAK_TRACE", os.devnull))
CALLER = "user:soak"


def effect(run_id: str, key: str) -> str:
    """A side effect that leaves a line when it begins and one when it ends."""
    with TRACE.open("ab", buffering=0) as trace:
        trace.write(f"{run_id} {key} begin\n".encode())
        time.sleep(0.002)
        trace.write(f"{run_id} {key} end\n".encode())
    return key


class Soak(A2AAgent[Any, Any]):
    """The agent of the soak."""

    name = "soak"
    concurrency = 8

    @skill(durable=True)
    async def job(self, ctx: RunContext[Any], number: int) -> list[Any]:
        """Two steps with a question between them."""
        await ctx.emit_progress("first")
        one = await ctx.step("one", effect, ctx.run_id, "one")
        name = await ctx.ask("name?", timeout=600)
        await ctx.emit_progress("second")
        two = await ctx.step("two", effect, ctx.run_id, "two")
        ref = await ctx.write_artifact("out.txt", str(number).encode(), "text/plain")
        return [number, one, name, two, ref.size_bytes]


async def main(path: str, first: int, limit: int) -> None:
    """Open the runs that are not open yet, each by its key, answer all questions, end when all are over."""
    store = SqliteRunStore(path)
    settings = GateSettings(
        resolver=StaticAuthResolver(NoAuth(), CALLER), queue_limit=10_000, poll_seconds=0.05
    )
    gate = RunGate(Soak(), store, settings)
    await gate.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for number in range(first, limit):
        await gate.open(Invocation("soak", "job", {"number": number}, idempotency_key=f"job-{number}"))
    while gate._runs.active:
        for request_id in list(gate._host.waiters):
            row = await store.request(request_id)
            if row is not None and row.state is RequestState.PENDING:
                await gate.answer(request_id, Answerer(CALLER), f"name of {row.run_id}")
        await asyncio.sleep(0.001)
    await gate.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
