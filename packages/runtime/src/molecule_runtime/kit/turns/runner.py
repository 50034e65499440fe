"""Runs turns: queue, deadline, idle watchdog, cancellation, redaction, history. `run_turn` is the engine."""

import asyncio
import logging
import math
import os
import time
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from molecule_runtime.domain.turns import (
    NO_RESPONSE,
    NO_TEXT,
    Attachment,
    HistoryItem,
    TurnError,
    TurnEvent,
    TurnOutcome,
    TurnRequest,
    TurnResult,
)
from molecule_runtime.kit.state import engine_health
from molecule_runtime.kit.state.delegation_results import UnreadResults
from molecule_runtime.kit.turns import messages, processes, turn_context
from molecule_runtime.kit.turns.executor import Turn, TurnExecutor
from molecule_runtime.kit.turns.history import HistoryStore, parse_history
from molecule_runtime.kit.turns.queue import QueuedTurn, TurnQueue
from molecule_runtime.kit.turns.sink import Sink
from molecule_runtime.ports.heartbeat import Heartbeat
from molecule_runtime.ports.output import TextRedactor, TurnOutput
from molecule_wire import JSON, JSONObject

DEFAULT_IDLE_SECONDS = 300.0
ENDING_SECONDS = 5.0
STALLS_TO_WEDGE, FAILURES_TO_WEDGE = 2, 3
TRANSCRIPT_CHARACTERS = 32 * 1024
MAX_PARTS = 1000
UNREAD_HEADING = "[Delegation results received while you were idle]"

log = logging.getLogger("molecule_runtime")


@dataclass
class TurnServices:
    """What the workspace gives to its turns. The defaults are those of an executor under a bare server."""

    redactor: Callable[[], TextRedactor] = messages.PassthroughRedactor
    heartbeat: Heartbeat = field(default_factory=messages.NoHeartbeat)
    histories: HistoryStore = field(default_factory=HistoryStore)
    receive_files: Callable[[list[JSON]], Awaitable[list[Attachment]]] | None = None
    send_files: Callable[[str, list[Any]], list[JSON]] | None = None
    record: Callable[[str, JSONObject, JSONObject], object] = lambda context_id, question, answer: None
    """Writes the lines of a turn into the transcript."""
    prompt: Callable[[], str] = lambda: ""
    unread: UnreadResults | None = None
    """Results of delegations, with which the next turn begins."""
    observe: Callable[[TurnEvent], None] = lambda event: None
    """Is told what happens in turns: counters, and the place of an audit ledger."""


class TurnRunner:
    """One per executor. Every turn ends in exactly one outcome, and no way out of it keeps a slot."""

    def __init__(self, executor: TurnExecutor, services: TurnServices | None = None) -> None:
        settings = messages.runtime_settings(executor.config)
        self.executor = executor
        self.services = services or TurnServices()
        bounded = 1 if executor.serialize else settings.max_concurrent_turns
        # An engine with sessions of its own takes as many turns as it likes.
        unbounded = messages.declares(executor.adapter, "provides_native_session")
        self.queue = TurnQueue(None if unbounded else bounded, settings.max_queued_turns)
        self._timeout = settings.timeout
        self._stalls = 0
        self._failures: tuple[str, int] = ("", 0)
        executor._runner = self

    def admit(self) -> None:
        """Raise AgentBusy when no turn can be taken now."""
        self.queue.admit()

    async def run(self, request: TurnRequest, output: TurnOutput) -> TurnOutcome:
        """Handle a message; the outcome was told to `output` when this returns."""
        queued, began = QueuedTurn(request), time.monotonic()
        try:
            outcome = await self._handled(queued, output)
        except Exception as problem:  # noqa: BLE001 - logged; whatever went wrong, the caller is told once
            outcome = self._counted(_failed(request.message_id, problem))
        seconds = time.monotonic() - began
        self.services.observe(TurnEvent("task_end", request, outcome.text, outcome=outcome, seconds=seconds))
        if outcome.code:
            log.info("turn %s: %s %s", request.message_id, outcome.state, outcome.code)
        await output.end(outcome)
        return outcome

    def cancel(self, task_id: str) -> bool:
        """Call a turn off; whether there is one."""
        found = [turn for turn in self.queue if turn.request.task_id == task_id]
        for turn in found:
            turn.end("cancelled")
        return bool(found)

    async def stop(self, seconds: float) -> list[str]:
        """Take nothing more; what still runs after so many seconds is interrupted and may be sent again.

        Returns the ids of the messages whose turns were interrupted.
        """
        self.queue.closed_for = "agent-stopping"
        await self.queue.empty(seconds)
        interrupted = tuple(self.queue)
        for turn in interrupted:
            turn.end("stopping")
        await self.queue.empty(self.executor.interrupt_grace + ENDING_SECONDS)
        return [turn.request.message_id for turn in interrupted]

    # One turn

    async def _handled(self, queued: QueuedTurn, output: TurnOutput) -> TurnOutcome:
        request = queued.request
        if len(request.parts) > MAX_PARTS:
            sentence = f"a message has at most {MAX_PARTS} parts, this one has {len(request.parts)}"
            return TurnOutcome("rejected", sentence)
        services, heartbeat = self.services, self.services.heartbeat
        parts = messages.read_parts(request.parts)
        receive = services.receive_files if parts.has_files else None
        files = await receive(request.parts) if receive else []
        if not parts.text and not files and not parts.data:
            return TurnOutcome("rejected", NO_TEXT)
        if not await self.queue.enter(queued, _left(request.deadline)):
            return self._unwanted(queued)
        queued.started_at = time.monotonic()
        heartbeat.current_task = messages.brief(parts.text)
        heartbeat.active_tasks += 1
        sink = Sink(output, services.redactor)
        queued.last_activity = lambda: sink.last_activity
        services.observe(TurnEvent("task_start", request, parts.text))
        try:
            await output.working()
            unread = services.unread.take() if services.unread else ""
            turn = self._turn(request, parts, files, sink)
            turn.text = f"{UNREAD_HEADING}\n{unread}\n\n{parts.text}" if unread else parts.text
            outcome = await self._watched(queued, turn)
            await sink.close()
            self._report(request, sink)
            if services.unread and outcome.state in ("failed", "canceled"):
                services.unread.give_back(unread)
            return await self._remembered(turn, parts.text, outcome)
        finally:
            sink.abandon()
            self.queue.leave(queued)
            heartbeat.active_tasks = max(heartbeat.active_tasks - 1, 0)
            if not heartbeat.active_tasks:
                heartbeat.current_task = ""

    def _turn(
        self, request: TurnRequest, parts: messages.MessageParts, files: list[Attachment], sink: Sink
    ) -> Turn:
        raw_history = request.metadata.get("history")
        history: list[HistoryItem] = parse_history(raw_history) if raw_history else []
        deadline = request.deadline
        for limit in (self._timeout, self.executor.turn_timeout):
            if limit:
                deadline = min(deadline or math.inf, time.monotonic() + limit)
        return Turn(
            message_id=request.message_id,
            task_id=request.task_id,
            context_id=request.context_id,
            text=parts.text,
            sink=sink,
            attempt=request.attempt,
            attachments=files,
            data_parts=parts.data,
            history=history or self.services.histories.of(request.context_id),
            metadata=request.metadata,
            caller=request.caller,
            delegation=request.delegation,
            traceparent=request.traceparent,
            deadline=deadline,
            tools=self.executor.tools,
            system_prompt=self.services.prompt(),
            state=self.services.histories.state(request.context_id),
            parts=request.parts,
            continues=request.continues,
        )

    async def _watched(self, queued: QueuedTurn, turn: Turn) -> TurnOutcome:
        """The outcome of the engine, or of what came before it: deadline, silence, cancel, stop."""
        children: list[Process] = []
        turn_context.set_turn(turn.sink, turn.message_id, children)
        engine = asyncio.get_running_loop().create_task(self._engine(queued, turn))
        idle = self._idle_seconds()
        while True:
            limit = min(turn.deadline or math.inf, turn.sink.last_activity + idle)
            patience = None if limit == math.inf else max(limit - time.monotonic(), 0)
            try:
                if queued.ended_for is None:
                    await queued.wait(patience)
            except asyncio.CancelledError:
                # Nobody waits for the outcome any more: a server that ends the task of its request.
                engine.cancel()
                processes.kill(children)
                await asyncio.wait({engine}, timeout=ENDING_SECONDS)
                raise
            if engine.done() and queued.ended_for is None:
                return await self._result(turn, engine)
            now = time.monotonic()
            if queued.ended_for is not None:
                outcome = self._unwanted(queued)
            elif turn.deadline is not None and now >= turn.deadline:
                outcome = _timed_out(now - queued.started_at)
            elif now >= turn.sink.last_activity + idle:
                outcome = TurnOutcome("failed", f"[no activity for {idle:.0f}s]", code="turn-stalled")
            else:
                continue
            await self._interrupt(turn, engine, children)
            return self._counted(outcome)

    async def _engine(self, queued: QueuedTurn, turn: Turn) -> "TurnResult | str | None":
        # Whoever waits is woken here: by a callback of the task it would be one turn of the loop later.
        try:
            return await self.executor.run_turn(turn)
        finally:
            queued.wake()

    async def _interrupt(self, turn: Turn, engine: "asyncio.Task[Any]", children: list[Process]) -> None:
        """End the engine's work: by its own means, then by cancelling its task, and its children."""
        turn.cancelled.set()
        until = time.monotonic() + self.executor.interrupt_grace
        interruption = asyncio.ensure_future(self.executor.interrupt(turn))
        try:
            await asyncio.wait({interruption, engine}, timeout=_left(until))
            await asyncio.wait({engine}, timeout=_left(until))
        finally:
            interruption.cancel()
            engine.cancel()
            processes.kill(children)
        if interruption.done() and not interruption.cancelled() and interruption.exception() is not None:
            log.warning(
                "the interruption of turn %s failed", turn.message_id, exc_info=interruption.exception()
            )
        await asyncio.wait({engine}, timeout=ENDING_SECONDS)
        if not engine.done():
            log.error("turn %s does not end although it was cancelled", turn.message_id)
        elif not engine.cancelled() and engine.exception() is None:
            log.info("turn %s was interrupted; what it answered later is dropped", turn.message_id)

    # Outcomes

    async def _result(self, turn: Turn, engine: "asyncio.Task[TurnResult | str | None]") -> TurnOutcome:
        if engine.cancelled():
            return self._counted(_failed(turn.message_id, asyncio.CancelledError()))
        error = engine.exception()
        if error is not None:
            return self._counted(_failed(turn.message_id, error))
        result = messages.checked_result(engine.result())
        if result.session_id:
            self.executor._session_id = result.session_id
        if result.usage is not None:
            turn.sink.reports.usage.append(result.usage)
        metadata: JSONObject = dict(result.metadata)
        if trace := turn.sink.reports.tool_trace():
            metadata["tool_trace"] = trace
        text = await messages.redacted(self.services.redactor(), result.text)
        sent = [*turn.sink.reports.attached, *result.attachments]
        files = self.services.send_files(text, sent) if self.services.send_files else []
        return self._counted(TurnOutcome(result.state, text, files, metadata=metadata))

    def _report(self, request: TurnRequest, sink: Sink) -> None:
        for call in sink.reports.tools.values():
            self.services.observe(TurnEvent("tool_call", request, call.input, call.tool))
        for usage in sink.reports.usage:
            self.services.observe(TurnEvent("llm_call", request, usage=usage))

    async def _remembered(self, turn: Turn, asked_for: str, outcome: TurnOutcome) -> TurnOutcome:
        """The outcome with the text that was streamed, if it has none; kept in history and transcript."""
        text = outcome.text if outcome.text.strip() else turn.sink.streamed_text
        if not text.strip() and not outcome.parts:
            text = NO_RESPONSE
        if outcome.state in ("completed", "input-required"):
            self.services.histories.append(turn.context_id, asked_for, text)
        question: JSONObject = {"role": "user", "text": _cut(asked_for), "message_id": turn.message_id}
        answer: JSONObject = {"role": "assistant", "text": _cut(text), "state": outcome.state}
        # A long text takes tens of milliseconds to be cleaned of secrets, a short one less than a thread.
        if len(asked_for) + len(text) > messages.LINE_CHARACTERS:
            await asyncio.to_thread(self.services.record, turn.context_id, question, answer)
        else:
            self.services.record(turn.context_id, question, answer)
        return outcome if text == outcome.text else replace(outcome, text=text)

    def _unwanted(self, queued: QueuedTurn) -> TurnOutcome:
        if queued.ended_for is None:
            return _timed_out(0.0)
        if queued.ended_for == "cancelled":
            return TurnOutcome("canceled", "[cancelled]", code="cancelled")
        text = "the agent was stopped before it answered"
        return TurnOutcome("failed", text, code="agent-stopping", retryable=True)

    def _counted(self, outcome: TurnOutcome) -> TurnOutcome:
        """Count successes and failures; an engine that only fails is wedged."""
        if outcome.state in ("completed", "input-required", "rejected"):
            self._stalls, self._failures = 0, ("", 0)
            self.services.heartbeat.record_success()
            engine_health.clear_after_success()
        elif outcome.state == "failed" and not outcome.retryable:
            self.services.heartbeat.record_error(outcome.text)
            self._stalls = self._stalls + 1 if outcome.code == "turn-stalled" else 0
            kind, count = self._failures
            self._failures = (outcome.code, count + 1 if kind == outcome.code else 1)
            if self._stalls >= STALLS_TO_WEDGE or self._failures[1] >= FAILURES_TO_WEDGE:
                engine_health.mark_wedged_by_kit(f"{self._failures[1]} turns in a row failed: {outcome.code}")
        return outcome

    def _idle_seconds(self) -> float:
        if self.executor.idle_timeout is not None:
            return self.executor.idle_timeout
        return messages.idle_override(self.executor.adapter) or DEFAULT_IDLE_SECONDS


def _cut(text: str) -> str:
    """As much of a text as the transcript keeps; who writes it takes the secrets out."""
    if len(text) <= TRANSCRIPT_CHARACTERS:
        return text
    return f"{text[:TRANSCRIPT_CHARACTERS]} [cut: {len(text)} characters]"


def _left(until: float | None) -> float | None:
    return None if until is None else max(until - time.monotonic(), 0)


def _timed_out(seconds: float) -> TurnOutcome:
    return TurnOutcome("failed", f"[turn timed out after {seconds:.0f}s]", code="turn-timeout")


def _failed(message_id: str, error: BaseException) -> TurnOutcome:
    if isinstance(error, TurnError):
        log.warning("turn %s failed: %s", message_id, error)
        return TurnOutcome(
            "failed",
            error.public_text,
            code=error.code,
            reference=error.reference,
            retryable=error.retryable,
        )
    reference, name = os.urandom(4).hex(), type(error).__name__
    log.error("turn %s failed [ref %s]", message_id, reference, exc_info=error)
    text = f"Agent error ({name}) — see workspace logs for details. [ref {reference}]"
    return TurnOutcome("failed", text, code=name, reference=reference)
