"""Runs of one agent in this process: drives each to its one outcome, and takes up what was left behind."""

import asyncio
import traceback
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from molecule_skill import clocks, engine
from molecule_skill.errors import CancelledByCaller, RunRefused, SkillInvocationError, report_of
from molecule_skill.hosted.context import HostedRunContext
from molecule_skill.hosted.host import Host, log
from molecule_skill.lifecycle import Instances
from molecule_skill.slots import Slot
from molecule_skill.store.protocol import StoreUnavailable
from molecule_skill.store.records import NewEvent, RequestState, RunFailure, RunRecord, RunState
from molecule_wire import JSON, JSONObject
from molecule_wire.values import value

RECORD_DELAYS = (0.05, 0.2, 1.0)
"""Seconds between tries to record an outcome that the store refuses."""


@dataclass
class ActiveRun:
    """A run whose handler this process runs, or will run."""

    ctx: HostedRunContext[Any]
    prepared: engine.PreparedRun
    attempt: int
    slot: Slot | None = None
    task: "asyncio.Task[None] | None" = None
    is_abandoned: bool = False
    """The run has its outcome, though its handler ignores that it was cancelled."""
    is_released: bool = False
    """The process ends: a run that can be run again keeps its row for the next one."""


@value
class RunOutcome:
    """How a run ended."""

    state: RunState
    result: JSON = None
    failure: RunFailure | None = None


@dataclass
class Runs:
    """The active runs, and those that wait for a person outside of memory."""

    host: Host
    instances: Instances
    active: dict[str, ActiveRun] = field(default_factory=dict[str, ActiveRun])
    parked: dict[str, RunRecord] = field(default_factory=dict[str, RunRecord])
    unrecorded: dict[str, RunRecord] = field(default_factory=dict[str, RunRecord])
    """Outcomes that the store would not take: known until the process ends."""
    _ending: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def start(
        self,
        ctx: HostedRunContext[Any],
        prepared: engine.PreparedRun,
        attempt: int = 1,
        slot: Slot | None = None,
    ) -> None:
        """Run a prepared run in the background, in a slot that it holds already or will wait for."""
        run = ActiveRun(ctx, prepared, attempt, slot)
        self.active[ctx.run_id] = run
        if ctx._live.state is RunState.QUEUED:
            self.host.queued.add(ctx.run_id)
        run.task = asyncio.get_running_loop().create_task(self._drive(run))

    def disown(self, run_id: str) -> None:
        """Whoever asked for a run is gone; if its row was written by then, nobody else would end it."""

        async def interrupt() -> None:
            record = await self.host.store.run(run_id)
            if record is not None:
                await self._interrupt(record, "its caller went away before it started")

        self._spawn(interrupt())

    async def recover(self) -> None:
        """Take up the runs of processes that are gone."""
        for record in await self.host.store.claim_abandoned(self.host.agent.name):
            await self.take_up(record)

    async def take_up(self, record: RunRecord) -> None:
        """Run a run again that was cut off or parked, or end it as interrupted if it cannot be."""
        spec = self.host.agent.skills.get(record.new.skill)
        if spec is None:
            await self._interrupt(record, f"skill {record.new.skill!r} is gone")
            return
        attempt, refusal = record.attempt, ""
        if record.state is RunState.WAITING and not spec.is_rerunnable:
            refusal = "the process ended while it waited for an answer, and the skill is not durable"
        if record.state is RunState.RUNNING and not spec.durable:
            attempt += 1
            if not spec.idempotent or record.attempt > spec.max_retries:
                refusal = "the process ended while it was running; a durable skill would go on"
        if refusal:
            await self._interrupt(record, refusal)
            return
        await self._rerun(record, attempt)

    async def _rerun(self, record: RunRecord, attempt: int) -> None:
        agent = self.host.agent
        try:
            auth = agent.auth_model.model_validate(record.new.auth)
            ctx = HostedRunContext._made(self.host, record, auth)
            prepared = engine.prepare(agent, record.new.skill, ctx, record.new.arguments, is_json=True)
        except Exception as problem:  # noqa: BLE001 - whatever the new code refuses, the run ends and says so
            await self._interrupt(record, f"it does not fit the code any more: {type(problem).__name__}")
            return
        await ctx._journal.load()
        if attempt > record.attempt:
            text = "the process ended while the skill was running"
            payload = {"attempt": attempt, "delay_seconds": 0, "error": text}
            await ctx._engine_event("retry", payload)
        if any(event.kind == "cancel_requested" for event in await self._events_of(record)):
            ctx._cancel()
        self.start(ctx, prepared, attempt)

    async def cancel(self, record: RunRecord) -> bool:
        """Cancel a run, once; whether it is one of this process."""
        run = self.active.get(record.run_id)
        if run is None:
            if self.parked.pop(record.run_id, None) is None:
                return False
            ctx = HostedRunContext._made(self.host, record, None)
            await ctx._engine_event("cancel_requested", {})
            await self._recorded(ctx, RunOutcome(RunState.CANCELLED, failure=_cancelled(record.run_id)))
            return True
        if run.ctx._is_cancelled:
            return True
        await run.ctx._engine_event("cancel_requested", {})
        run.ctx._cancel()
        for row in await self.host.store.requests(record.run_id):
            if row.state is RequestState.PENDING:
                at = clocks.CURRENT.get().time()
                await self.host.store.close_request(
                    row.id, RequestState.CANCELLED, answer=None, answered_by=None, at=at
                )
        self.host.notify(record.run_id)
        return True

    async def stop(self, drain_seconds: float) -> None:
        """Let runs end by themselves for a while, then end them or leave them to the next process."""
        for run in list(self.active.values()):
            record = await self.host.store.run(run.ctx.run_id)
            is_waiting = record is not None and record.state is RunState.WAITING
            if is_waiting and run.prepared.spec.is_rerunnable:
                self._release(run)
        await self._ended(drain_seconds)
        for run in list(self.active.values()):
            if run.prepared.spec.durable:
                self._release(run)
            elif run.ctx._execution is not None:
                run.ctx._execution.stop(engine.StopReason.INTERRUPTED)
        await self._ended(engine.GRACE_SECONDS + 1)

    def _release(self, run: ActiveRun) -> None:
        run.is_released = run.ctx._is_over = True
        if run.ctx._execution is not None:
            run.ctx._execution.stop(engine.StopReason.PARKED)

    async def _ended(self, seconds: float) -> None:
        tasks = [run.task for run in self.active.values() if run.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    # One run

    async def _drive(self, run: ActiveRun) -> None:
        """From a slot to one recorded outcome."""
        ctx, outcome = run.ctx, None
        try:
            execution = ctx._execution = engine.Execution(
                await self.instances.of(ctx.caller, ctx.session_id),
                run.prepared,
                ctx,
                attempt=run.attempt,
                slot=run.slot,
                on_attempt=ctx._attempt_started,
                on_abandoned=lambda problem: self._abandon(run, problem),
            )
            result = await execution.drive()
            outcome = RunOutcome(RunState.SUCCEEDED, self.host.redactor.json(result.json))
        except engine.RunParked:
            pass
        except asyncio.CancelledError:
            if run.prepared.spec.is_rerunnable:
                self._leave(ctx)
                raise  # the event loop ends, and the next process takes the run up
            outcome = self._failed(
                ctx, RunRefused("run-interrupted", "the process ended; start the run again")
            )
        except Exception as problem:  # noqa: BLE001 - every run ends in one outcome
            outcome = self._failed(ctx, problem)
        if not run.is_abandoned:
            await self._end(run, outcome)

    def _abandon(self, run: ActiveRun, problem: Exception) -> None:
        """A handler ignores that it was cancelled: its run ends without it."""
        run.is_abandoned = True
        outcome = None if isinstance(problem, engine.RunParked) else self._failed(run.ctx, problem)
        self._spawn(self._end(run, outcome))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, run: ActiveRun, outcome: RunOutcome | None) -> None:
        """Record how a run ended; one that has no outcome waits for a person, outside of memory."""
        ctx = run.ctx
        if outcome is None:
            self._park(run)
            return
        if ctx._fatal is not None and outcome.state is not RunState.CANCELLED:
            outcome = self._failed(ctx, ctx._fatal)
        if outcome.failure is not None and outcome.failure.code == "lease-lost":
            self._leave(ctx)
        else:
            await self._recorded(ctx, outcome)
        self.active.pop(ctx.run_id, None)
        self.host.queued.discard(ctx.run_id)
        # Nothing that points at itself is left to the garbage collector.
        run.task = ctx._execution = None

    def _leave(self, ctx: HostedRunContext[Any]) -> None:
        """The run goes on elsewhere: whoever reads it looks into the store."""
        ctx._live.leave()
        self.host.notify(ctx.run_id)

    def _failed(self, ctx: HostedRunContext[Any], problem: Exception) -> RunOutcome:
        report = report_of(problem)
        sentence = self.host.redactor.text(report.sentence)
        failure = RunFailure(report.code, sentence, report.status, _redacted(self.host, report.extras))
        if isinstance(problem, CancelledByCaller):
            return RunOutcome(RunState.CANCELLED, failure=failure)
        if isinstance(problem, SkillInvocationError) and problem.__cause__ is not None:
            lines = "".join(traceback.format_exception(problem.__cause__))
            log.warning("run %s failed: %s", ctx.run_id, self.host.redactor.text(lines))
        is_expired = isinstance(problem, RunRefused) and problem.code == "deadline-exceeded"
        return RunOutcome(RunState.EXPIRED if is_expired else RunState.FAILED, failure=failure)

    async def _recorded(self, ctx: HostedRunContext[Any], outcome: RunOutcome) -> None:
        """Write the outcome down. If the store will not take it, those who wait learn it all the same."""
        ctx._is_over = True
        now = clocks.CURRENT.get().time()
        payload: JSONObject = {"state": outcome.state.value}
        if outcome.failure is not None:
            payload |= {"code": outcome.failure.code}
        events = [NewEvent("run_finished", payload, now, ctx.attempt)]
        if ctx._dropped:
            events.insert(0, NewEvent("events_dropped", {"count": ctx._dropped}, now, ctx.attempt))
        for delay in (*RECORD_DELAYS, None):
            try:
                stored = await self.host.store.finish(
                    ctx.run_id,
                    ctx._record.fence,
                    outcome.state,
                    result=outcome.result,
                    failure=outcome.failure,
                    events=events,
                    at=now,
                )
            except RunRefused as problem:
                self.host.not_recorded("the outcome", ctx.run_id, problem)
                ctx._live.leave()
                break
            except StoreUnavailable as problem:
                if delay is None:
                    self.host.not_recorded("the outcome", ctx.run_id, problem)
                    ctx._live.leave()
                    self._remember(ctx, outcome, now)
                else:
                    await asyncio.sleep(delay)
                continue
            ctx._live.tell(stored)
            ctx._live.finish(outcome.state, outcome.result, outcome.failure, now)
            break
        self.host.notify(ctx.run_id)

    def _remember(self, ctx: HostedRunContext[Any], outcome: RunOutcome, now: float) -> None:
        old = ctx._record
        self.unrecorded[ctx.run_id] = RunRecord(
            old.new, outcome.state, ctx.attempt, old.fence, ctx._count, now, outcome.result, outcome.failure
        )
        while len(self.unrecorded) > 1000:
            del self.unrecorded[next(iter(self.unrecorded))]

    def _park(self, run: ActiveRun) -> None:
        """Take a run out of memory; its row waits for the answer, or for the next process."""
        run.ctx._is_over = True
        self.active.pop(run.ctx.run_id, None)
        if not run.is_released:
            self.parked[run.ctx.run_id] = run.ctx._record

    async def unpark(self, run_id: str) -> None:
        """Run a parked run again: its interaction was decided, or its time is over."""
        if self.parked.pop(run_id, None) is None:
            return
        record = await self.host.store.run(run_id)
        if record is not None and not record.state.is_final:
            await self.take_up(record)

    async def _interrupt(self, record: RunRecord, why: str) -> None:
        ctx = HostedRunContext._made(self.host, record, None)
        failure = RunFailure("run-interrupted", f"the run was interrupted: {why}; start it again", 500)
        await self._recorded(ctx, RunOutcome(RunState.FAILED, failure=failure))

    async def _events_of(self, record: RunRecord) -> list[Any]:
        after = max(record.last_seq - 1000, 0)
        return await self.host.store.events(record.run_id, after=after)


def _cancelled(run_id: str) -> RunFailure:
    return RunFailure("cancelled", run_id, 499)


def _redacted(host: Host, extras: JSONObject) -> JSONObject:
    redacted = host.redactor.json(extras)
    return redacted if isinstance(redacted, dict) else {}
