"""Effects of a hosted run: steps, calls, artifacts, questions and state, each done once and written down."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, cast

from molecule_skill import clocks, engine, interactions
from molecule_skill.a2a_client import CallResult
from molecule_skill.declarations import State
from molecule_skill.errors import (
    CancelledByCaller,
    CapabilityUnavailable,
    Declined,
    InteractionTimeout,
    RunRefused,
    report_of,
)
from molecule_skill.events import AgentEvent, ArtifactRef
from molecule_skill.hosted.effect_journal import JournalPosition
from molecule_skill.hosted.host import Waiter
from molecule_skill.interactions import Interaction, fingerprint
from molecule_skill.json_values import json_value
from molecule_skill.state import checked_state, read_state
from molecule_skill.steps import run_step
from molecule_skill.store.protocol import StoreUnavailable
from molecule_skill.store.records import (
    JournalEntry,
    NewEvent,
    RequestRecord,
    RequestState,
    RunState,
    StateChange,
)
from molecule_wire import JSON, JSONObject

if TYPE_CHECKING:
    from molecule_skill.hosted.context import HostedRunContext

MAX_STEP_RUNS = 2
"""How often a step may be started: once, and once more after it was cut in the middle."""


class Effects:
    """What one run does to the world."""

    def __init__(self, ctx: "HostedRunContext[Any]") -> None:
        self._ctx = ctx
        self._state_version: int | None = None
        self._waiting = 0

    # Steps, calls, artifacts

    async def step(self, key: str, fn: Callable[..., Any], args: Sequence[Any]) -> JSON:
        """See `RunContext.step`."""
        mark = fingerprint("step", key)
        place = self._find("step", key, mark, key)
        known = place.entry
        if known is not None and known.state == "done":
            return known.value
        runs, recorded = self._runs_of(key, known)
        journal = self._ctx._journal
        started = journal.entry(place, "step", key, mark, "started", runs=runs)
        # Told and counted together: a process that ends in between would tell it again.
        self._ctx._stored(await journal.record(started, recorded))
        try:
            value = await run_step(key, fn, args)
        except Exception:
            # One that is cancelled stays `started`: it was cut in the middle.
            await self._record_failure(started)
            raise
        await journal.record(replace(started, state="done", value=value))
        return value

    def _runs_of(self, key: str, known: JournalEntry | None) -> tuple[int, list[NewEvent]]:
        """How often the step will have been started, and what is told of it; a third time it is not."""
        if known is None or known.state != "started":
            return 1, []
        if known.runs >= MAX_STEP_RUNS:
            raise self._fatal(
                RunRefused(
                    "run-interrupted",
                    f"step {key!r} was cut in the middle {known.runs} times; it is not started again. "
                    "Check what it did, then start a new run",
                )
            )
        text = f"step {key!r} was cut in the middle when the process ended; it is run a second time"
        payload: JSONObject = {"attempt": self._ctx.attempt, "delay_seconds": 0, "error": text, "step": key}
        return known.runs + 1, [self._ctx._event("retry", payload)]

    async def call(
        self, target: str, skill: str, args: dict[str, Any] | None, grant: str | None, timeout: float | None
    ) -> CallResult:
        """See `RunContext.call`; cancelling the run cancels the call."""
        client = self._ctx._a2a_client()
        await self._ctx.check_cancelled()
        about: JSONObject = {"target": target, "skill": skill}
        mark = fingerprint("call", {**about, "args": json_value(args or {})})
        place = self._find("call", None, mark, f"{target}.{skill}")
        if place.entry is not None and place.entry.state == "done":
            return _call_result(place.entry.value)
        journal = self._ctx._journal
        started = journal.entry(place, "call", None, mark, "started")
        await journal.record(started)
        await self._ctx._engine_event("call_started", dict(about))
        calling = asyncio.ensure_future(client.call(target, skill, args=args, grant=grant, timeout=timeout))
        forget = self._ctx._on_cancel(lambda: _cancel(calling))
        try:
            result = await calling
        except asyncio.CancelledError:
            calling.cancel()
            await self._record_failure(started)
            await self._ctx.check_cancelled()
            raise
        except Exception as problem:
            await self._record_failure(started)
            report = report_of(problem)
            details = {**about, "code": report.code, "error": report.sentence}
            await self._ctx._engine_event("call_error", details)
            raise
        finally:
            forget()
        await journal.record(replace(started, state="done", value=_json_of(result)))
        await self._ctx._engine_event("call_complete", {**about, "run_id": result.run_id})
        return result

    async def artifact(self, name: str, data: bytes, mime_type: str) -> ArtifactRef:
        """Keep a file; a re-run gets the reference of the one that is kept."""
        ctx = self._ctx
        mark = fingerprint("artifact", [name, mime_type])
        place = self._find("artifact", None, mark, name)
        known = place.entry
        if known is not None and known.state == "done" and known.attempt == ctx.attempt:
            return ArtifactRef(**cast("dict[str, Any]", known.value))
        fence = ctx._record.fence
        kept = await ctx._host.store.put_artifact(ctx.run_id, fence, name, data, mime_type, ctx.attempt)
        ref = ctx._artifact_ref(kept)
        entry = ctx._journal.entry(place, "artifact", None, mark, "done")
        await ctx._journal.record(replace(entry, value=cast("JSON", asdict(ref))))
        return ref

    # Pauses

    async def ask(self, prompt: str, timeout: float, key: str | None) -> str:
        """See `RunContext.ask`."""
        return await self._interact(interactions.question(prompt, timeout), key)

    async def collect(
        self,
        model_or_schema: Any,
        title: str,
        reason: str,
        ui_schema: dict[str, Any] | None,
        timeout: float,
        key: str | None,
    ) -> Any:
        """See `RunContext.collect`."""
        return await self._interact(
            interactions.form(model_or_schema, title, reason, ui_schema, timeout), key
        )

    async def _interact(self, interaction: Interaction, key: str | None) -> Any:
        await self._ctx.check_cancelled()
        self._ctx._live.leave()
        place = self._find(interaction.kind, key, interaction.fingerprint, interaction.label)
        row = place.request
        # The row may have been answered after the journal was read.
        row = None if row is None else await self._ctx._host.store.request(row.id)
        if row is None:
            row = await self._opened(interaction, key, place)
        if row.state is RequestState.PENDING:
            row = await self._decided(row, interaction)
        if row.state is RequestState.ANSWERED:
            return interaction.value_of(row.answer)
        if row.state is RequestState.DENIED:
            answer = row.answer if isinstance(row.answer, dict) else {}
            raise Declined(str(answer.get("reason") or ""))
        if row.state is RequestState.CANCELLED:
            raise CancelledByCaller(self._ctx.run_id)
        raise InteractionTimeout(
            f"nobody answered within {interaction.timeout:g} seconds: {interaction.label}"
        )

    async def _opened(
        self, interaction: Interaction, key: str | None, place: JournalPosition
    ) -> RequestRecord:
        ctx, now = self._ctx, clocks.CURRENT.get().time()
        redactor = ctx._host.redactor
        row = RequestRecord(
            id=interaction.id,
            kind=interaction.kind,
            requester=ctx._host.agent.name,
            run_id=ctx.run_id,
            prompt=interaction.prompt,
            created_at=now,
            expires_at=now + interaction.timeout,
            key=key,
            ordinal=place.ordinal,
            fingerprint=interaction.fingerprint,
            attempt=ctx.attempt,
        )
        redacted = cast("JSONObject", redactor.json(interaction.payload(row.expires_at)))
        row = replace(row, prompt=cast("JSONObject", redactor.json(row.prompt)))
        event = ctx._event(interaction.event_kind, redacted)
        try:
            ctx._stored(await ctx._host.store.open_request(row, ctx._record.fence, event))
        except RunRefused:
            ctx._lose()
            raise
        ctx._journal.remember(row)
        return row

    async def _decided(self, row: RequestRecord, interaction: Interaction) -> RequestRecord:
        """Wait until somebody answers, the time is over, or the run is cancelled; the row as it then is."""
        ctx, host = self._ctx, self._ctx._host
        clock = clocks.CURRENT.get()
        # A clock that was set back must not make a person's time longer than it was.
        left = max(min(row.expires_at - clock.time(), interaction.timeout), 0.0)
        waiter = Waiter(interaction, asyncio.get_running_loop().create_future())
        host.waiters[row.id] = waiter
        forget = ctx._on_cancel(waiter.wake)
        self._waiting += 1
        try:
            await self._set_state(RunState.WAITING)
            async with engine.paused():
                await self._answered(row, waiter, left)
        finally:
            forget()
            host.waiters.pop(row.id, None)
            self._waiting -= 1
        found = await host.store.request(row.id)
        assert found is not None
        if found.state is RequestState.PENDING:
            ended = RequestState.CANCELLED if ctx._is_cancelled else RequestState.EXPIRED
            closed = await host.store.close_request(
                row.id, ended, answer=None, answered_by=None, at=clock.time()
            )
            assert closed is not None
            found = closed
        ctx._journal.remember(found)
        if not self._waiting:
            await self._set_state(RunState.RUNNING)
        return found

    async def _set_state(self, state: RunState) -> None:
        ctx, host = self._ctx, self._ctx._host
        try:
            await host.store.set_state(ctx.run_id, ctx._record.fence, state)
        except StoreUnavailable as problem:
            host.not_recorded(f"the state {state.value!r}", ctx.run_id, problem)
        except RunRefused:
            ctx._lose()
            raise
        host.notify(ctx.run_id)

    async def _answered(self, row: RequestRecord, waiter: Waiter, left: float) -> None:
        """Wait for the wake-up; a durable run that waits long is taken out of memory."""
        park = self._ctx._host.settings.park_after_seconds
        execution = self._ctx._execution
        if execution is not None and execution.spec.durable and left > park:
            if await clocks.wait(waiter.woken, park):
                return
            self._ctx._is_over = True
            execution.stop(engine.StopReason.PARKED)
        await clocks.wait(waiter.woken, left)

    # State

    async def load_state(self) -> Any:
        """See `RunContext.load_state`; a re-run loads what it loaded before."""
        model, scope = self._state("load_state")
        mark = fingerprint("state", "load")
        place = self._find("state", None, mark, "load_state")
        if place.entry is not None and place.entry.state == "done":
            saved = cast("dict[str, Any]", place.entry.value)
            self._state_version = saved["version"]
            return read_state(model, saved["value"]) if saved["value"] is not None else model()
        found = await self._ctx._host.store.load_state(scope)
        value, version = (None, 0) if found is None else found
        self._state_version = version
        loaded = model() if value is None else read_state(model, value)
        entry = self._ctx._journal.entry(place, "state", None, mark, "done")
        await self._ctx._journal.record(replace(entry, value={"value": value, "version": version}))
        return loaded

    async def save_state(self, value: Any) -> None:
        """See `RunContext.save_state`; a re-run does not save again."""
        model, scope = self._state("save_state")
        checked = checked_state(model, value)
        mark = fingerprint("state", "save")
        place = self._find("state", None, mark, "save_state")
        if place.entry is not None and place.entry.state == "done":
            self._state_version = cast("dict[str, Any]", place.entry.value)["version"]
            return
        version = self._state_version
        if version is None:
            found = await self._ctx._host.store.load_state(scope)
            version = 0 if found is None else found[1]
        entry = self._ctx._journal.entry(place, "state", None, mark, "done")
        done = replace(entry, value={"version": version + 1})
        # In one commit: a run that is cut off in between would take its own state for another run's.
        await self._ctx._journal.record(done, state=StateChange(scope, checked, version))
        self._state_version = version + 1

    def _state(self, member: str) -> tuple[Any, str]:
        agent, new = self._ctx._host.agent, self._ctx._record.new
        if agent.state == State.NONE or agent.state_model is None:
            raise CapabilityUnavailable(member, "the agent declares no state; set state and state_model")
        if agent.state == State.DURABLE:
            return agent.state_model, f"agent:{agent.name}"
        if new.session_id is None:
            raise CapabilityUnavailable(
                member, "the run has no session id, and the state belongs to a session"
            )
        return agent.state_model, f"session:{agent.name}:{fingerprint(new.principal, new.session_id)}"

    # Inside

    def _find(self, kind: str, key: str | None, mark: str, label: str) -> JournalPosition:
        if self._ctx._is_over:
            raise RunRefused("lease-lost", "the run is over in this process; nothing more is done for it")
        try:
            return self._ctx._journal.find(kind, key, mark, label)
        except RunRefused as diverged:
            raise self._fatal(diverged) from None

    async def _record_failure(self, started: JournalEntry) -> None:
        try:
            await self._ctx._journal.record(replace(started, state="failed"))
        except (RunRefused, StoreUnavailable) as problem:
            self._ctx._host.not_recorded(f"the failed {started.kind}", self._ctx.run_id, problem)

    def _fatal(self, problem: RunRefused) -> RunRefused:
        """The run ends with this, also if the handler swallows it."""
        self._ctx._fatal = self._ctx._fatal or problem
        return problem


def _cancel(calling: "asyncio.Future[Any]") -> None:
    calling.cancel()


def _json_of(result: CallResult) -> JSON:
    return json_value(
        {
            "result": result.result,
            "events": [[event.kind, event.payload] for event in result.events],
            "artifacts": [asdict(ref) for ref in result.artifacts],
            "grant_id": result.grant_id,
            "run_id": result.run_id,
        }
    )


def _call_result(value: JSON) -> CallResult:
    members = cast("dict[str, Any]", value)
    return CallResult(
        members["result"],
        tuple(AgentEvent(kind, payload) for kind, payload in members["events"]),
        tuple(ArtifactRef(**ref) for ref in members["artifacts"]),
        members["grant_id"],
        members["run_id"],
    )
