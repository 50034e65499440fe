"""Gate: the one way in for every transport. It checks an invocation, makes its context and starts the run."""

import asyncio
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from molecule_skill import clocks, engine, identity
from molecule_skill.errors import (
    AuthError,
    GrantInvalid,
    RunRefused,
    SkillInputError,
    SkillInvocationError,
)
from molecule_skill.hosted.context import HostedRunContext
from molecule_skill.hosted.host import Host, log
from molecule_skill.hosted.invocation import READY, Answerer, GateSettings, Invocation, Readiness
from molecule_skill.hosted.run_api import RunViews
from molecule_skill.hosted.runs import Runs
from molecule_skill.ids import new_id
from molecule_skill.interactions import fingerprint
from molecule_skill.lifecycle import Instances, LifecycleContext, StateAccess
from molecule_skill.secrets import Redactor, unknown
from molecule_skill.slots import AgentSlots, slots_of
from molecule_skill.state import checked_state, read_state
from molecule_skill.store.protocol import RunStore, StoreUnavailable
from molecule_skill.store.records import NewRun, RunRecord, RunState, StateChange
from molecule_skill.store.rules import same_body

if TYPE_CHECKING:
    from molecule_skill.agent import A2AAgent

PRUNE_SECONDS = 3600.0
HEALTH_TIMEOUT = 10.0


class RunGate(RunViews):
    """See `Gate` in `hosted.interface`. The store belongs to the caller: close it after the gate."""

    def __init__(
        self, agent: "A2AAgent[Any, Any]", store: RunStore, settings: GateSettings | None = None
    ) -> None:
        settings = settings or GateSettings()
        declared = {
            name: settings.secrets[name] for name in agent.required_secrets if name in settings.secrets
        }
        host = Host(agent, store, settings, Redactor(declared))
        super().__init__(host, Runs(host, Instances(agent, self._lifecycle_context)))
        self.agent = agent
        self._reasons: dict[str, str] = {"startup": "the agent has not started yet"}
        self._is_stopping = False
        self._slots: AgentSlots | None = None
        self._upkeep: asyncio.Task[None] | None = None

    # Lifecycle

    async def start(self) -> None:
        """See `Gate`."""
        self._slots = slots_of(self.agent)
        self._check_requirements()
        try:
            await self._runs.instances.start()
            del self._reasons["startup"]
        except Exception as problem:  # noqa: BLE001 - whatever it is, the agent is not ready
            text = self._host.redactor.text(f"{type(problem).__name__}: {problem}")
            log.error("agent %s could not start: %s", self.agent.name, text)
            self._reasons["startup"] = f"startup failed: {text}"
        self._upkeep = asyncio.get_running_loop().create_task(self._keep_up())
        if not self._reasons:
            await self._runs.recover()

    async def close(self) -> None:
        """See `Gate`."""
        self._is_stopping = True
        await self._runs.stop(self._host.settings.drain_seconds)
        if self._upkeep is not None:
            self._upkeep.cancel()
            await asyncio.wait({self._upkeep})
        await self._runs.instances.shutdown()

    def readiness(self) -> Readiness:
        """See `Gate`."""
        if self._is_ready and self._slots is not None and not self._slots.stuck:
            return READY
        reasons = [*self._reasons.values(), *(["the agent is stopping"] if self._is_stopping else [])]
        return Readiness(not reasons, tuple(reasons), tuple(slots_of(self.agent).stuck))

    def active_runs(self) -> frozenset[str]:
        """The runs that this process has at work, those that wait for a person included."""
        return frozenset(self._runs.active) | frozenset(self._runs.parked)

    # The way in

    async def identify(self, token: str | None, headers: Mapping[str, str]) -> tuple[Any, Answerer]:
        """See `Gate`."""
        resolver = self._host.settings.resolver or self.agent.auth_resolver
        if resolver is None:
            model: Any = identity.NOBODY
            principal = "local"
        else:
            model = await identity.resolved(resolver, token, headers, self.agent)
            principal = resolver.principal_id(model)
        if not isinstance(model, self.agent.auth_model):
            raise SkillInvocationError(
                f"the resolver gave {type(model).__name__}, but the agent's auth_model is "
                f"{self.agent.auth_model.__name__}",
                code="auth-model-mismatch",
            )
        return model, Answerer(principal, identity.scopes_of(model), identity.organisation_of(model))

    async def open(
        self, invocation: Invocation, identified: tuple[Any, Answerer] | None = None
    ) -> HostedRunContext[Any]:
        """See `Gate`. The order of the checks is part of the contract."""
        model, caller = identified or await self.identify(invocation.caller_token, invocation.headers)
        _check_workspace_header(invocation, caller)
        spec = engine.find_skill(self.agent, invocation.skill)
        if invocation.grant_token is not None:
            raise GrantInvalid("grant-unknown-key", "this agent has no issuer whose grants it accepts")
        new = self._new_run(invocation, model, caller)
        attached = await self._attached(new, model)
        if attached is not None:
            return attached
        record = RunRecord(new, RunState.QUEUED, 1, 1, 0, new.created_at)
        ctx = HostedRunContext._made(self._host, record, model)
        prepared = engine.prepare(self.agent, spec.name, ctx, invocation.arguments, is_json=True)
        if not self._is_ready:
            self._check_readiness()
        found = await self._recorded(ctx, prepared)
        # Another request with the same key may have been faster.
        return ctx if found is None else HostedRunContext._made(self._host, found, model, attached=True)

    async def _recorded(self, ctx: HostedRunContext[Any], prepared: engine.PreparedRun) -> RunRecord | None:
        """Insert the row of a run and start it; where its key has a run already, that one is returned."""
        slots, new = self._slots or slots_of(self.agent), ctx._record.new
        limit = self._host.settings.queue_limit
        if len(self._host.queued) >= limit + slots.free:
            raise RunRefused("agent-busy", f"{limit} runs are waiting already; try again", retry_after=1)
        slot = slots.slot(prepared.spec)
        # Where a slot is free the run starts with its row: one transaction instead of two.
        started = ctx._start_event(new.skill, 1) if slot.take_now() else None
        is_new = False
        try:
            record, is_new = await self._host.store.open_run(new, started)
        except StoreUnavailable as problem:
            self._host.not_recorded("a new run", new.run_id, problem)
            raise RunRefused(
                "agent-busy", "runs cannot be recorded now; try again", retry_after=5
            ) from problem
        except asyncio.CancelledError:
            self._runs.disown(new.run_id)
            raise
        finally:
            if not is_new:
                slot.give_up()
        if not is_new:
            return record
        if started is not None:
            ctx._opened_running(started)
        self._runs.start(ctx, prepared, slot=slot)
        return None

    def _new_run(self, invocation: Invocation, model: Any, caller: Answerer) -> NewRun:
        key, body_hash = invocation.idempotency_key, ""
        try:
            if key is not None:
                body_hash = fingerprint(invocation.skill, [invocation.arguments, invocation.session_id])
        except (TypeError, ValueError, RecursionError) as problem:
            raise SkillInputError(f"the arguments are not JSON: {problem}") from problem
        return NewRun(
            run_id=invocation.run_id or new_id("run_"),
            agent=self.agent.name,
            skill=invocation.skill,
            principal=caller.principal,
            arguments=invocation.arguments,
            created_at=clocks.CURRENT.get().time(),
            org_id=caller.org_id,
            session_id=invocation.session_id,
            idempotency_key=key,
            body_hash=body_hash,
            deadline=invocation.deadline,
            auth=model.model_dump(mode="json") if model is not identity.NOBODY else {},
            origin=invocation.origin,
        )

    async def _attached(self, new: NewRun, model: Any) -> HostedRunContext[Any] | None:
        """The context of the run that an idempotency key leads to."""
        if new.idempotency_key is None:
            return None
        found = await self._host.store.run_of_key(new.agent, new.principal, new.idempotency_key)
        if found is None:
            return None
        return HostedRunContext._made(self._host, same_body(found, new), model, attached=True)

    @property
    def _is_ready(self) -> bool:
        return not self._reasons and not self._is_stopping

    def _check_readiness(self) -> None:
        ready = self.readiness()
        if self._is_stopping:
            raise RunRefused("agent-stopping", "the agent is stopping; try again", retry_after=5)
        if not ready.ok:
            raise RunRefused("peer-unavailable", f"the agent is not ready: {'; '.join(ready.reasons)}")

    # Requirements, health, upkeep

    def _check_requirements(self) -> None:
        secrets, agent = self._host.settings.secrets, self.agent
        missing = [name for name in agent.required_secrets if not secrets.get(name)]
        if missing:
            self._reasons["secrets"] = f"missing secrets: {', '.join(missing)}"
        unset = [name for name in agent.required_env if not os.environ.get(name)]
        if unset:
            self._reasons["environment"] = f"missing environment variables: {', '.join(unset)}"

    async def _keep_up(self) -> None:
        """Periodic work: answers and cancellations given elsewhere, health, retention."""
        settings = self._host.settings
        clock = clocks.CURRENT.get()
        checked_at = pruned_at = clock.monotonic() - PRUNE_SECONDS
        while True:
            try:
                await self._wake_answered()
                await self._cancel_asked()
                if clock.monotonic() - checked_at >= settings.health_seconds:
                    checked_at = clock.monotonic()
                    await self._check_health()
                if clock.monotonic() - pruned_at >= PRUNE_SECONDS:
                    pruned_at = clock.monotonic()
                    await self._host.store.prune(clock.time() - settings.retention_days * 86400)
            except StoreUnavailable as problem:
                self._host.not_recorded("upkeep", "-", problem)
            await clocks.sleep(settings.poll_seconds)

    async def _check_health(self) -> None:
        if "startup" in self._reasons:
            return
        try:
            # wait_for of Python 3.11 may swallow a cancellation that comes with the result.
            async with asyncio.timeout(HEALTH_TIMEOUT):
                is_well = await self.agent.health()
            why = "" if is_well else "the agent reports that it cannot work"
        except Exception as problem:  # noqa: BLE001 - a failing health check is an answer
            why = f"the health check failed with {type(problem).__name__}"
        if why:
            self._reasons["health"] = why
        else:
            self._reasons.pop("health", None)

    def _lifecycle_context(self) -> LifecycleContext:
        return LifecycleContext(
            self.agent.name, self._secret, StateAccess(self._load_state, self._save_state)
        )

    def _secret(self, name: str) -> str:
        values = self._host.settings.secrets
        if name not in self.agent.required_secrets or name not in values:
            raise unknown(name)
        return values[name]

    async def _load_state(self) -> Any:
        model = self.agent.state_model
        found = await self._host.store.load_state(f"agent:{self.agent.name}")
        assert model is not None, "an agent without a state_model has no state"
        return model() if found is None else read_state(model, found[0])

    async def _save_state(self, value: Any) -> None:
        assert self.agent.state_model is not None, "an agent without a state_model has no state"
        scope = f"agent:{self.agent.name}"
        found = await self._host.store.load_state(scope)
        version = 0 if found is None else found[1]
        checked = checked_state(self.agent.state_model, value)
        await self._host.store.save_state(StateChange(scope, checked, version))


def _check_workspace_header(invocation: Invocation, caller: Answerer) -> None:
    """`X-Workspace-ID` proves nothing; one that contradicts the credential is refused."""
    header = invocation.headers.get("x-workspace-id")
    if (
        header
        and caller.principal.startswith("workspace:")
        and caller.principal != f"workspace:{header.lower()}"
    ):
        raise AuthError("X-Workspace-ID is not the workspace of the credential", 403)
