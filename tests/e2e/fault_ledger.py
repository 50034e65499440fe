"""Two replicas under a steady load while something below them fails, and the ledger of every message."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from molecule_wire.a2a import text
from scripts.soak import agents, verdict
from scripts.soak.agents import PollAgent, PushAgent, Seen
from scripts.soak.fleet import ADMIN_TOKEN
from scripts.soak.senders import Errand, Outcome, Sender
from scripts.soak.verdict import Verdict
from tests.e2e.platform_process import PlatformProcess

MESSAGES_PER_SECOND = 20
READY_SECONDS = 0.2
WORKERS = 4
CALM_SECONDS, RECOVERED_SECONDS = 2.0, 30.0
# A backlog takes its time on a busy machine; what has no outcome then never gets one.
SETTLED_SECONDS = 180.0
CALL_SECONDS = 30.0
RETRY_SECONDS, LOOK_SECONDS, LOOKS_AT_ONCE = 0.5, 5, 16
TERMINAL_EVENTS = ("MESSAGE_ANSWERED", "MESSAGE_FAILED", "MESSAGE_EXPIRED", "MESSAGE_CANCELLED")
_HEADERS = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Prefer": "respond-async"}


@dataclass(frozen=True)
class Attempt:
    """One request to one replica: when it began, how long it took, and its status; 0 without an answer."""

    began: float
    seconds: float
    status: int
    has_retry_after: bool = False

    @property
    def accepted(self) -> bool:
        return 200 <= self.status < 300


@dataclass
class ReplicaLog:
    """Responses of one replica to the first send of each message, and to `/ready`."""

    process: PlatformProcess
    sends: list[Attempt] = field(default_factory=list[Attempt])
    readiness: list[Attempt] = field(default_factory=list[Attempt])

    def seconds_to_recover(self, healed_at: float) -> float:
        """Return the time from healing until the last request that was not accepted."""
        failed = [a.began for a in (*self.sends, *self.readiness) if not a.accepted and a.began > healed_at]
        return max(failed, default=healed_at) - healed_at

    def between(self, first: float, last: float) -> list[Attempt]:
        """Return the sends that began between two moments."""
        return [attempt for attempt in self.sends if first <= attempt.began < last]

    def ready_between(self, first: float, last: float) -> list[Attempt]:
        """Return the readiness checks that began between two moments."""
        return [attempt for attempt in self.readiness if first <= attempt.began < last]


@dataclass
class Report:
    """Result of one fault."""

    failed_at: float
    healed_at: float
    settled_at: float
    replicas: Sequence[ReplicaLog]
    verdict: Verdict

    def lines(self) -> list[str]:
        """Return the figures as text."""
        lines = [
            *self.verdict.lines(),
            f"  the last outcome came {self.settled_at - self.healed_at:.1f} s after healing",
        ]
        for number, log in enumerate(self.replicas, 1):
            during = log.between(self.failed_at, self.healed_at)
            slowest = max((attempt.seconds for attempt in during), default=0.0)
            refused = sum(attempt.status == 503 for attempt in during)
            lines.append(
                f"  replica {number}: {len(during)} sends during the fault, {refused} refused with 503,"
                f" slowest {slowest:.1f} s; recovered after {log.seconds_to_recover(self.healed_at):.1f} s"
            )
        return lines


@dataclass
class Load:
    """Sends messages to the replicas in turn, each until it has an outcome."""

    session: aiohttp.ClientSession
    logs: Sequence[ReplicaLog]
    targets: Sequence[str]
    errands: list[Errand] = field(default_factory=list[Errand])
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    def __post_init__(self) -> None:
        self.sender = Sender(self.session, [log.process.url for log in self.logs])

    async def run(self) -> None:
        """Send until cancelled."""
        began = time.monotonic()
        while True:
            number = len(self.errands)
            errand = Errand(number, "fault", self.targets[number // 2 % len(self.targets)])
            self.errands.append(errand)
            log = self.logs[number % len(self.logs)]
            self._tasks.append(asyncio.create_task(self._send(errand, log)))
            await asyncio.sleep(max(0.0, began + len(self.errands) / MESSAGES_PER_SECOND - time.monotonic()))

    async def settle(self) -> None:
        """Wait until every message has an outcome; what has none in time is lost."""
        at_once = asyncio.Semaphore(LOOKS_AT_ONCE)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLED_SECONDS):
                await asyncio.gather(*self._tasks)
                await asyncio.gather(*(self._look(errand, at_once) for errand in self.errands))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _look(self, errand: Errand, at_once: asyncio.Semaphore) -> None:
        while not errand.told:
            async with at_once:
                outcome = await self.sender.look(errand, wait=LOOK_SECONDS)
            if outcome is not None:
                errand.hear(outcome)

    async def _send(self, errand: Errand, log: ReplicaLog) -> None:
        """Send until a replica accepts, the first time to this one."""
        attempt = await self._post(errand, log)
        log.sends.append(attempt)
        while not attempt.accepted:
            await asyncio.sleep(RETRY_SECONDS)
            attempt = await self._post(errand, random.choice(self.logs))

    async def _post(self, errand: Errand, log: ReplicaLog) -> Attempt:
        headers = {**_HEADERS, "Idempotency-Key": f"fault-{errand.number}"}
        url = f"{log.process.url}/workspaces/{errand.target_id}/a2a"
        attempt, body = await request(self.session, "POST", url, headers=headers, json=errand.request())
        if attempt.accepted and "result" in body and not body.get("queued"):
            # An attempt whose answer was lost had been stored, and this one got the outcome.
            errand.hear(Outcome(True, text.text_of(body["result"])))
        errand.message_id = body.get("message_id") or errand.message_id
        return attempt


async def request(
    session: aiohttp.ClientSession, method: str, url: str, **options: Any
) -> tuple[Attempt, dict[str, Any]]:
    """Make one request; how it went, and the body of its answer."""
    began = time.monotonic()
    try:
        async with session.request(method, url, **options) as answer:
            body = await answer.json()
            retry_after = "Retry-After" in answer.headers
            return Attempt(began, time.monotonic() - began, answer.status, retry_after), body
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        return Attempt(began, time.monotonic() - began, 0), {}


async def _watch_readiness(session: aiohttp.ClientSession, log: ReplicaLog) -> None:
    while True:
        attempt, _body = await request(session, "GET", f"{log.process.url}/ready")
        log.readiness.append(attempt)
        await asyncio.sleep(READY_SECONDS)


@contextlib.asynccontextmanager
async def _agents(
    processes: Sequence[PlatformProcess], seen: Seen, session: aiohttp.ClientSession
) -> AsyncGenerator[list[str]]:
    """Run an agent with a URL and one that polls; whose turn it is to get a message, by workspace id."""
    pushed = PushAgent(seen, agents.prompt)
    await pushed.open()
    by_push, _token = await asyncio.to_thread(_join, processes[0], "push", pushed.url)
    by_poll, token = await asyncio.to_thread(_join, processes[0], "poll", None)
    polling = PollAgent(seen, by_poll, token, [process.url for process in processes])
    work = [asyncio.create_task(polling.run(session)) for _worker in range(WORKERS)]
    try:
        yield [by_push, by_push, by_push, by_poll]
    finally:
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        await pushed.close()


def _join(process: PlatformProcess, name: str, url: str | None) -> tuple[str, str]:
    body = {"name": name, "runtime": "external", "max_concurrent_tasks": 16}
    created = process.ok("POST", "/workspaces", token=ADMIN_TOKEN, json=body)
    token = created["connection"]["auth_token"]
    register = {"id": created["id"], "agent_card": {"name": name}} | ({"url": url} if url else {})
    process.ok("POST", "/registry/register", token=token, json=register)
    return created["id"], token


async def _until_calm(logs: Sequence[ReplicaLog], healed_at: float) -> None:
    """Wait until every replica accepted everything for a while, or is late."""
    while time.monotonic() < healed_at + RECOVERED_SECONDS:
        await asyncio.sleep(READY_SECONDS)
        calm_for = time.monotonic() - healed_at - max(log.seconds_to_recover(healed_at) for log in logs)
        if calm_for > CALM_SECONDS:
            return


async def run_fault(
    name: str,
    processes: Sequence[PlatformProcess],
    fail: Callable[[], Any],
    heal: Callable[[], Any],
    seconds: float,
) -> Report:
    """Keep the load up before, during and after the fault, then settle the ledger."""
    began = time.monotonic()
    seen = agents.new_seen()
    logs = [ReplicaLog(process) for process in processes]
    timeout = aiohttp.ClientTimeout(CALL_SECONDS)
    async with (
        aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session,
        _agents(processes, seen, session) as targets,
    ):
        load = Load(session, logs, targets)
        tasks = [asyncio.create_task(load.run())]
        tasks += [asyncio.create_task(_watch_readiness(session, log)) for log in logs]
        await asyncio.sleep(CALM_SECONDS)
        failed_at = time.monotonic()
        await asyncio.to_thread(fail)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(heal)
        healed_at = time.monotonic()
        await _until_calm(logs, healed_at)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await load.settle()
        settled_at = time.monotonic()
        for errand in load.errands:
            # An outcome in place of a receipt does not name its message; the agent saw the name.
            errand.message_id = errand.message_id or next(iter(seen.get(errand.words, ())), "")
        endings = [m for kind in TERMINAL_EVENTS for m in await load.sender.events(kind)]
    judged = verdict.judge(name, 0, time.monotonic() - began, load.errands, seen, endings)
    return Report(failed_at, healed_at, settled_at, logs, judged)
