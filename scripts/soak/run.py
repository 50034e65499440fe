"""One soak from start to verdict."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from scripts.soak import agents, fleet, verdict
from scripts.soak.agents import PollAgent, PushAgent, Seen
from scripts.soak.fleet import Engine, Fleet
from scripts.soak.senders import CALL_SECONDS, Errand, Sender

TEMPERS = ("prompt", "prompt", "prompt", "poll", "poll", "slow", "flapping", "busy")
"""Who gets the messages, in turn: three of eight go to an agent that is simply there."""

AT_ONCE = 200
REPEATED = 500
CALM_SHARE = 0.2
_CAPACITY = 16
_PUSHED: dict[str, Callable[[], Any]] = {
    "prompt": agents.prompt,
    "slow": agents.slow,
    "busy": agents.busy,
    "flapping": agents.prompt,
}


@dataclass(frozen=True)
class Plan:
    """How much, and for how long at most."""

    engine: Engine
    messages: int
    kills: int
    seconds: float


async def soak(plan: Plan, folder: Path) -> verdict.Verdict:
    """Send everything, kill meanwhile, wait for the outcomes, and compare all that was told."""
    began = time.monotonic()
    seen = agents.new_seen()
    timeout = aiohttp.ClientTimeout(CALL_SECONDS)
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        fleet.started(plan.engine, folder) as running,
        aiohttp.ClientSession(timeout=timeout, connector=connector) as session,
        _agents(running, seen, session) as targets,
    ):
        sender = Sender(session, running.urls)
        errands = [_errand(number, targets) for number in range(plan.messages)]
        kills = await _send_all(plan, running, sender, errands, began + plan.seconds)
        await _ask_again(sender, errands, seen)
        kinds = ("MESSAGE_ANSWERED", "MESSAGE_FAILED", "MESSAGE_EXPIRED", "MESSAGE_CANCELLED")
        endings = [message_id for kind in kinds for message_id in await sender.events(kind)]
    took = time.monotonic() - began
    return verdict.judge(plan.engine, kills, took, errands, seen, endings)


def _errand(number: int, targets: dict[str, str]) -> Errand:
    temper = TEMPERS[number % len(TEMPERS)]
    return Errand(number, temper, targets[temper])


async def _send_all(
    plan: Plan, running: Fleet, sender: Sender, errands: Sequence[Errand], deadline: float
) -> int:
    """Each life of the platform gets its share of the messages, so that it dies with its hands full.

    The last part of the time is for what still waits. Returns how often the platform was killed.
    """
    share = -(-len(errands) // plan.kills)
    waiting = iter(errands)
    at_once = asyncio.Semaphore(AT_ONCE)
    under_way: list[asyncio.Task[None]] = []

    async def run(errand: Errand) -> None:
        async with at_once:
            await sender.run(errand)

    def release(count: int | None) -> None:
        under_way.extend(asyncio.create_task(run(errand)) for errand in itertools.islice(waiting, count))

    last_kill = deadline - plan.seconds * CALM_SHARE
    kills = await running.kill_at_random(plan.kills, last_kill, lambda: release(share))
    release(None)
    await _until(deadline, under_way)
    return kills


async def _until(deadline: float, under_way: Sequence[asyncio.Task[None]]) -> None:
    """Wait for all of them; whoever is not there in time has no outcome."""
    _, late = await asyncio.wait(under_way, timeout=max(0.0, deadline - time.monotonic()))
    for task in late:
        task.cancel()
    await asyncio.gather(*under_way, return_exceptions=True)


async def _ask_again(sender: Sender, errands: Sequence[Errand], seen: Seen) -> None:
    """Read the row of every message, and send some again: whatever is told now is compared with then."""
    at_once = asyncio.Semaphore(16)

    async def look(errand: Errand, *, post: bool) -> None:
        async with at_once:
            rows = seen.get(errand.words)
            errand.message_id = errand.message_id or (next(iter(rows)) if rows else "")
            told = [await sender.look(errand) if errand.message_id else None]
            if post:
                told.append(await sender.post(errand))
            for outcome in filter(None, told):
                errand.hear(outcome)

    step = max(1, len(errands) // REPEATED)
    await asyncio.gather(*(look(errand, post=errand.number % step == 0) for errand in errands))


@contextlib.asynccontextmanager
async def _agents(
    running: Fleet, seen: Seen, session: aiohttp.ClientSession
) -> AsyncGenerator[dict[str, str]]:
    """The agents at work; the workspace id of each temper."""
    pushed = {temper: PushAgent(seen, act) for temper, act in _PUSHED.items()}
    targets: dict[str, str] = {}
    for temper, agent in pushed.items():
        await agent.open()
        targets[temper] = (await asyncio.to_thread(_join, running, temper, agent.url))[0]
    targets["poll"], token = await asyncio.to_thread(_join, running, "poll", None)
    polling = PollAgent(seen, targets["poll"], token, running.urls)
    work = [asyncio.create_task(polling.run(session)), asyncio.create_task(agents.flap(pushed["flapping"]))]
    try:
        yield targets
    finally:
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        for agent in pushed.values():
            await agent.close()


def _join(running: Fleet, temper: str, url: str | None) -> tuple[str, str]:
    """A new workspace whose agent has registered; its id and token."""
    platform = running.processes[0]
    body = {"name": temper, "runtime": "external", "max_concurrent_tasks": _CAPACITY}
    created = platform.ok("POST", "/workspaces", token=fleet.ADMIN_TOKEN, json=body)
    token = created["connection"]["auth_token"]
    register = {"id": created["id"], "agent_card": {"name": temper}} | ({"url": url} if url else {})
    platform.ok("POST", "/registry/register", token=token, json=register)
    return created["id"], token
