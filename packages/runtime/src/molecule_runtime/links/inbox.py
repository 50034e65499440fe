"""The pull link: messages are leased from the platform's inbox, for a runtime that nobody can reach."""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from molecule_runtime.domain.turns import Caller, Delegation, TurnOutcome, TurnRequest
from molecule_runtime.kit.turns.runner import TurnRunner
from molecule_runtime.links.lease_output import LEASE_SECONDS, LeaseLost, LeaseOutput, PlatformCalls, settle
from molecule_wire import JSONObject, times
from molecule_wire.calls import CallFailed, InboundMessage, inbox, values

WAIT_SECONDS = 30.0
PAUSE_SECONDS = 1.0
MAX_CONCURRENT_MESSAGES = 16

log = logging.getLogger("molecule_runtime")


class OutcomeStore(Protocol):
    """Keeps outcomes until they were told, across restarts."""

    def keep(self, message_id: str, outcome: TurnOutcome) -> None:
        """Keep an outcome that is about to be told."""
        ...

    def kept(self, message_id: str) -> TurnOutcome | None:
        """The outcome of a message that had its turn already."""
        ...

    def drop(self, message_id: str) -> None:
        """The platform knows."""
        ...


class InboxLink:
    """Leases messages and runs their turns. A message that comes again while it runs gets the new lease."""

    def __init__(
        self,
        calls: PlatformCalls,
        runner: TurnRunner,
        outcomes: OutcomeStore,
        worker: str,
        may_take: Callable[[], bool] = lambda: True,
    ) -> None:
        self._calls = calls
        self._runner = runner
        self._outcomes = outcomes
        self._worker = worker
        self._may_take = may_take
        self._working: dict[str, LeaseOutput] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.wake = asyncio.Event()

    async def run(self) -> None:
        """Lease and work until cancelled; what runs then goes on until `finish`."""
        while True:
            free = MAX_CONCURRENT_MESSAGES - len(self._tasks)
            if free <= 0 or not self._may_take():
                await self._pause()
                continue
            request = inbox.lease(
                self._calls.workspace_id,
                limit=min(free, 10),
                wait=WAIT_SECONDS,
                lease=LEASE_SECONDS,
                worker=self._worker,
            )
            try:
                leased = await self._calls.perform(request, inbox.read_leased)
            except (CallFailed, OSError) as problem:
                log.info("nothing was leased: %s", problem)
                await self._pause()
                continue
            for message in leased.messages:
                self._take(message)

    async def finish(self, seconds: float) -> None:
        """Wait until everything that was taken is settled, for at most so many seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in tuple(self._tasks):
            task.cancel()

    async def _pause(self) -> None:
        self.wake.clear()
        try:
            async with asyncio.timeout(PAUSE_SECONDS):
                await self.wake.wait()
        except TimeoutError:
            return

    def _take(self, message: InboundMessage) -> None:
        assert message.lease is not None
        working = self._working.get(message.message_id)
        if working is not None:
            working.token = message.lease.token
            return
        task = asyncio.get_running_loop().create_task(self._work(message, message.lease.token))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: self.wake.set())

    async def _work(self, message: InboundMessage, token: str) -> None:
        name = message.message_id
        request = turn_request(message)
        output = LeaseOutput(self._calls, name, token, lambda: self._runner.cancel(request.task_id))
        self._working[name] = output
        keeping = asyncio.get_running_loop().create_task(output.keep())
        try:
            outcome = self._outcomes.kept(name)
            if outcome is None:
                outcome = await self._runner.run(request, output)
                if outcome.code != "agent-stopping":
                    self._outcomes.keep(name, outcome)
            if await self._is_told(name, output, outcome) or outcome.retryable or outcome.code == "cancelled":
                self._outcomes.drop(name)
        finally:
            keeping.cancel()
            self._working.pop(name, None)

    async def _is_told(self, name: str, output: LeaseOutput, outcome: TurnOutcome) -> bool:
        """Tell the outcome with the newest lease; whether there was one.

        An outcome without a lease stays kept: if the message comes again, it has no second turn.
        """
        while True:
            token = output.token
            try:
                await settle(self._calls, name, token, outcome)
            except LeaseLost as lost:
                # While the platform was away the message may have been leased again.
                if output.token != token:
                    continue
                log.warning("the outcome of %s is not wanted now: %s", name, lost)
                return False
            return True


def turn_request(message: InboundMessage) -> TurnRequest:
    """What the kit needs of a leased message."""
    named: JSONObject = message.caller or {}
    principal = values.text_of(named.get("principal"))
    caller = Caller(
        principal, values.text_of(named.get("name")), values.text_of(named.get("org")), verified=True
    )
    context = values.object_of(named.get("delegation"))
    metadata = values.object_of(message.raw.get("metadata"))
    return TurnRequest(
        message_id=message.message_id,
        task_id=message.task_id or message.message_id,
        context_id=message.context_id or message.message_id,
        parts=message.parts or [{"text": message.text}],
        attempt=message.lease.attempt if message.lease else 1,
        metadata=metadata,
        caller=caller if principal else None,
        delegation=Delegation(values.text_of(context.get("id"))) if context else None,
        traceparent=values.text_of(message.raw.get("traceparent")),
        deadline=_deadline(message.deadline),
        as_task=True,
    )


def _deadline(at: str | None) -> float | None:
    if not at:
        return None
    return time.monotonic() + (times.parse_time(at) - datetime.now(UTC)).total_seconds()
