"""Hosted run context: events, artifacts, journal and pauses in a run store. Only the gate makes one."""

import random
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, cast

from molecule_skill import clocks, engine, paths
from molecule_skill.a2a_client import A2AClient, CallResult
from molecule_skill.context import AuthT, RunContext
from molecule_skill.discovery import DiscoveryClient
from molecule_skill.errors import CancelledByCaller, RunRefused, SandboxUnavailable
from molecule_skill.events import (
    DROPPABLE_KINDS,
    MAX_EVENTS,
    AgentEvent,
    ArtifactRef,
    checked_payload,
    json_payload,
)
from molecule_skill.hosted.effect_journal import Journal
from molecule_skill.hosted.effects import Effects
from molecule_skill.hosted.host import Host
from molecule_skill.hosted.live_runs import LiveRun
from molecule_skill.local_context import NO_A2A, NO_DISCOVERY, NO_SANDBOX, NO_WORKSPACE
from molecule_skill.local_pauses import check_scope_request
from molecule_skill.sandbox import SandboxClient
from molecule_skill.secrets import unknown
from molecule_skill.store.protocol import StoreUnavailable
from molecule_skill.store.records import ArtifactRecord, NewEvent, RunRecord, RunState, StoredEvent
from molecule_skill.workspace import WorkspaceClient
from molecule_wire import JSONObject

MAX_NAME_BYTES = 255


class HostedRunContext(RunContext[AuthT]):
    """Run context whose every effect is a row. It has no public constructor: `RunGate.open` makes it."""

    attached: bool
    """Whether an idempotency key led to this run, which was there already."""

    def __init__(self) -> None:
        raise TypeError("a HostedRunContext is made by RunGate.open only; use LocalRunContext in tests")

    @classmethod
    def _made(
        cls, host: Host, record: RunRecord, auth: Any, *, attached: bool = False
    ) -> "HostedRunContext[Any]":
        ctx = cast("HostedRunContext[Any]", object.__new__(cls))
        ctx._open(host, record, auth, attached)
        return ctx

    def _open(self, host: Host, record: RunRecord, auth: Any, attached: bool) -> None:
        self.task_id, self.auth, self.attached = record.run_id, auth, attached
        self._host, self._record = host, record
        self._live = LiveRun(record)
        self._execution: engine.Execution | None = None
        self._spec: Any = None
        self._attempt = record.attempt
        self._started_attempts = 0 if record.state is RunState.QUEUED else record.attempt
        self._has_started = False
        self._emitted = self._told = 0
        self._count, self._dropped = record.last_seq, 0
        self._is_cancelled = self._is_over = False
        self._fatal: RunRefused | None = None
        self._cancel_callbacks: list[Callable[[], None]] = []
        self._random: random.Random | None = None

    @cached_property
    def _journal(self) -> Journal:
        """Made when it is needed: most runs only compute."""
        return Journal(self._host.store, self._record.run_id, self._record.fence, self._attempt)

    @cached_property
    def _effects(self) -> Effects:
        return Effects(self)

    # The eight members

    async def emit_event(self, event: AgentEvent) -> None:
        payload = checked_payload(event.kind, event.payload)
        self._emitted += 1
        if self._emitted <= self._told or self._is_over:
            return
        if self._count >= MAX_EVENTS and event.kind in DROPPABLE_KINDS:
            self._dropped += 1
            return
        await self._publish(event.kind, payload, self._emitted)

    async def write_artifact(self, name: str, data: bytes, mime_type: str) -> ArtifactRef:
        normal = paths.normalize(name)
        if len(normal.encode()) > MAX_NAME_BYTES:
            raise ValueError(f"the artifact name has more than {MAX_NAME_BYTES} bytes")
        limit = self._host.settings.artifact_max_bytes
        if len(data) > limit:
            raise ValueError(f"artifact {name!r} has {len(data)} bytes, the limit is {limit}; split it")
        self._live.has_artifacts = True
        return await self._effects.artifact(normal, data, mime_type)

    async def check_cancelled(self) -> None:
        if self._is_cancelled:
            raise CancelledByCaller(self.task_id)

    def secret(self, name: str) -> str:
        values = self._host.settings.secrets
        if name not in self._host.agent.required_secrets or name not in values:
            raise unknown(name)
        return values[name]

    @property
    def workspace(self) -> WorkspaceClient:
        raise PermissionError(NO_WORKSPACE)

    @property
    def sandbox(self) -> SandboxClient:
        if self._host.settings.sandboxes is None:
            raise SandboxUnavailable(NO_SANDBOX)
        return self._host.settings.sandboxes

    @property
    def discover(self) -> DiscoveryClient:
        if self._host.settings.discovery is None:
            raise PermissionError(NO_DISCOVERY)
        return self._host.settings.discovery

    def _a2a_client(self) -> A2AClient:
        if self._host.settings.a2a is None:
            raise PermissionError(NO_A2A)
        return self._host.settings.a2a

    # Extensions

    @property
    def caller(self) -> str:
        return self._record.new.principal

    @property
    def attempt(self) -> int:
        return self._attempt

    @property
    def session_id(self) -> str | None:
        return self._record.new.session_id

    @property
    def deadline(self) -> float | None:
        return self._record.new.deadline

    async def call(
        self,
        target: str,
        skill: str,
        *,
        args: dict[str, Any] | None = None,
        grant: str | None = None,
        timeout: float | None = None,
    ) -> CallResult:
        return await self._effects.call(target, skill, args, grant, timeout)

    async def ask(self, prompt: str, *, timeout: float = 180.0, key: str | None = None) -> str:
        return await self._effects.ask(prompt, timeout, key)

    async def collect(
        self,
        model_or_schema: Any,
        *,
        title: str,
        reason: str = "",
        ui_schema: dict[str, Any] | None = None,
        timeout: float = 300.0,
        key: str | None = None,
    ) -> Any:
        return await self._effects.collect(model_or_schema, title, reason, ui_schema, timeout, key)

    async def request_scope(
        self,
        *,
        reason: str,
        read: Sequence[str] = (),
        write: Sequence[str] = (),
        mode: str = "read_only",
        ttl_seconds: int = 60,
        timeout: float = 60.0,
        key: str | None = None,
    ) -> Any:
        check_scope_request(self._spec, reason)
        self._unavailable("request_scope")

    async def step(self, key: str, fn: Callable[..., Any], *args: Any) -> Any:
        return await self._effects.step(key, fn, args)

    async def load_state(self) -> Any:
        return await self._effects.load_state()

    async def save_state(self, value: Any) -> None:
        await self._effects.save_state(value)

    def random(self) -> random.Random:
        if self._random is None:
            self._random = random.Random(self.run_id)  # noqa: S311 - repeatable on purpose
        return self._random

    # For the engine and the gate

    def _bind(self, agent: Any, spec: Any) -> None:
        self._spec = spec

    def _begin_attempt(self, attempt: int) -> None:
        self._attempt = attempt
        self._random = None
        self._emitted = self._told = 0
        if "_journal" in self.__dict__:
            self._journal.begin(attempt)

    def _opened_running(self, started: NewEvent) -> None:
        """The run was inserted with its start, so the first attempt has nothing to write down."""
        self._has_started, self._started_attempts, self._count = True, 1, 1
        self._live.state = RunState.RUNNING
        self._live.tell([StoredEvent(1, started.kind, started.payload, started.at)])

    async def _attempt_started(self, attempt: int) -> None:
        """Write down that the handler starts; what an earlier process told is not told again."""
        if self._has_started:
            self._has_started = False
            return
        self._host.queued.discard(self.run_id)
        is_new = attempt > self._started_attempts
        self._started_attempts = max(attempt, self._started_attempts)
        events = [self._start_event(self._spec.name, attempt)] if is_new else []
        try:
            if not is_new:
                self._told = await self._host.store.emitted(self.run_id, attempt)
            stored = await self._host.store.set_state(
                self.run_id, self._record.fence, RunState.RUNNING, attempt=attempt, events=events
            )
        except StoreUnavailable as problem:
            self._host.not_recorded("the start", self.run_id, problem)
            self._live.leave()
            return
        self._live.state, self._live.attempt = RunState.RUNNING, attempt
        self._stored(stored)

    def _start_event(self, skill: str, attempt: int) -> NewEvent:
        return self._event("run_started", {"skill": skill, "attempt": attempt})

    def _on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        if self._is_cancelled:
            callback()
            return lambda: None
        callbacks = self._cancel_callbacks
        callbacks.append(callback)
        return lambda: callbacks.remove(callback) if callback in callbacks else None

    def _cancel(self) -> None:
        """The caller cancels: the flag is set, and the engine, calls and pauses are told."""
        self._is_cancelled = True
        callbacks, self._cancel_callbacks = self._cancel_callbacks, []
        for callback in callbacks:
            callback()

    async def _engine_event(self, kind: str, payload: dict[str, Any]) -> None:
        await self._publish(kind, json_payload(kind, payload), None)

    def _redact(self, text: str) -> str:
        return self._host.redactor.text(text)

    async def _publish(self, kind: str, payload: JSONObject, ordinal: int | None) -> None:
        """Record an event, then wake its readers. One that cannot be recorded is logged and counted."""
        if self._is_over:
            return
        event = self._event(kind, payload, ordinal)
        try:
            stored = await self._host.store.append_events(self.run_id, self._record.fence, [event])
        except StoreUnavailable as problem:
            self._host.not_recorded(f"event {kind!r}", self.run_id, problem)
            return
        except RunRefused:
            self._lose()
            raise
        self._stored(stored)

    def _event(self, kind: str, payload: JSONObject, ordinal: int | None = None) -> NewEvent:
        redacted = cast("JSONObject", self._host.redactor.json(payload))
        return NewEvent(kind, redacted, clocks.CURRENT.get().time(), self._attempt, ordinal)

    def _stored(self, events: Sequence[StoredEvent]) -> None:
        if events:
            self._count = events[-1].seq
            self._live.tell(events)
        self._host.event_signals.notify(self.run_id)

    def _lose(self) -> None:
        """Another process owns the run: this one publishes nothing more."""
        self._is_over = True
        self._live.leave()
        if self._execution is not None:
            self._execution.stop(engine.StopReason.LEASE_LOST)

    def _artifact_ref(self, record: ArtifactRecord) -> ArtifactRef:
        uri = f"molecule://runs/{self.run_id}/artifacts/{record.name}"
        return ArtifactRef(record.name, uri, record.mime_type, record.size_bytes)
