"""Run engine: the one way a skill is run, from a unit test, in process and behind every transport.

The order is fixed: find the skill, check budget and scopes, validate the input, take a slot, run the handler
under its timeout, validate the output. `invoke` does all of it for a given context; the gate prepares a run,
records it, and then drives the same `Execution`.
"""

import asyncio
import contextvars
import copy
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from molecule_skill import clocks
from molecule_skill.context import RunContext
from molecule_skill.errors import (
    PUBLIC,
    A2AError,
    CancelledByCaller,
    InteractionTimeout,
    RetryableError,
    RunRefused,
    SkillInputError,
    SkillInvocationError,
    SkillNotFound,
    SkillOutputError,
    SkillTimeout,
)
from molecule_skill.lifecycle import LifecycleContext, ensure_started
from molecule_skill.results import SkillResult
from molecule_skill.slots import Slot, slots_of
from molecule_skill.spec import SkillSpec
from molecule_wire.values import value

if TYPE_CHECKING:
    from molecule_skill.agent import A2AAgent

GRACE_SECONDS = 5.0
"""How long a handler may take to end after its task was cancelled."""
CANCEL_SECONDS = 10.0
"""How long a handler has to notice `check_cancelled` before its task is cancelled."""
MAX_RETRY_DELAY = 30.0
_RETRYABLE_STATUS = frozenset({429, 502, 503, 504})


class StopReason(StrEnum):
    """Why a run is stopped before its handler ends."""

    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"
    INTERRUPTED = "interrupted"
    LEASE_LOST = "lease-lost"
    PARKED = "parked"


class RunParked(Exception):
    """The run waits for a person and was taken out of memory; its journal brings it back."""


@value
class PreparedRun:
    """A skill with validated arguments: what is left to do is to run it."""

    spec: SkillSpec
    values: dict[str, Any]


def find_skill(agent: "A2AAgent[Any, Any]", skill: str) -> SkillSpec:
    """The specification of a skill. Raises `SkillNotFound`."""
    spec = agent.skills.get(skill)
    if spec is None:
        known = ", ".join(sorted(agent.skills)) or "none"
        raise SkillNotFound(f"agent {agent.name!r} has no skill {skill!r}; it has: {known}")
    return spec


def prepare(
    agent: "A2AAgent[Any, Any]", skill: str, ctx: RunContext[Any], values: Any, *, is_json: bool
) -> PreparedRun:
    """The steps before a run exists: skill, budget, scopes, input; the first failure is raised."""
    spec = find_skill(agent, skill)
    ctx._check_budget()
    ctx.require_scopes(spec.scopes)
    if not isinstance(values, Mapping):
        raise SkillInputError(f"skill {skill!r}: the arguments must be an object")
    arguments = spec.arguments
    return PreparedRun(spec, arguments.from_json(values) if is_json else arguments.from_python(values))  # pyright: ignore[reportUnknownArgumentType]


async def invoke(
    agent: "A2AAgent[Any, Any]", skill: str, ctx: RunContext[Any], values: Any, *, is_json: bool = False
) -> SkillResult:
    """Run a skill of an instance under a context that the caller made."""
    prepared = prepare(agent, skill, ctx, values, is_json=is_json)
    try:
        await ensure_started(agent, LifecycleContext(agent.name, ctx.secret))
    except Exception as problem:
        text = ctx._redact(f"{type(problem).__name__}: {problem}")
        raise SkillInvocationError(f"agent {agent.name!r} could not start: {text}") from problem
    return await Execution(agent, prepared, ctx).run()


@asynccontextmanager
async def paused() -> AsyncGenerator[None]:
    """While a run waits for a person it holds no slot and its running time stands still."""
    execution = CURRENT.get()
    if execution is None:
        yield
        return
    execution.pause()
    try:
        yield
    finally:
        await execution.resume()


class Execution:
    """One run of a skill: its attempts, its slot, its time, and the reason why it is stopped.

    The handler runs in the task that drives the run: stopping it cancels that task while the handler has it.
    """

    def __init__(
        self,
        agent: "A2AAgent[Any, Any]",
        prepared: PreparedRun,
        ctx: RunContext[Any],
        *,
        attempt: int = 1,
        slot: Slot | None = None,
        on_attempt: Callable[[int], Awaitable[None]] | None = None,
        on_abandoned: Callable[[Exception], object] = lambda problem: None,
    ) -> None:
        """`on_abandoned` is told the outcome of a run whose handler ignores that it was cancelled."""
        self.spec = prepared.spec
        self.reason: StopReason | None = None
        self._agent, self._values, self._ctx = agent, prepared.values, ctx
        self._attempt, self._on_attempt, self._on_abandoned = attempt, on_attempt, on_abandoned
        self._slot = slot or slots_of(agent).slot(self.spec)
        self._clock = clocks.CURRENT.get()
        self._stopped: asyncio.Future[None] | None = None
        self._task: asyncio.Task[Any] | None = None
        """The task that drives the run, while its handler runs in it."""
        self._is_over = False
        self._timers: list[clocks.Timer] = []
        self._pauses = 0
        self._parent = CURRENT.get()
        seconds = self.spec.timeout_seconds or agent.resources.max_runtime_seconds
        self._time = clocks.RunningTime(seconds)

    async def run(self) -> SkillResult:
        """`drive` in a task of its own, for a caller whose task is not the run's."""
        loop = asyncio.get_running_loop()
        given_up: asyncio.Future[SkillResult] = loop.create_future()
        self._on_abandoned = given_up.set_exception
        driving = loop.create_task(self.drive())
        ends: set[asyncio.Future[SkillResult]] = {driving, given_up}
        for end in ends:
            end.add_done_callback(_look)
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # Whoever waited is gone: a server that ends the task of its request, a test that is over.
            self.stop(StopReason.INTERRUPTED)
            self._cancel_handler()
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            raise
        return given_up.result() if given_up.done() else driving.result()

    async def drive(self) -> SkillResult:
        """The result, after as many attempts as the skill allows. Raises what the caller is told.

        The task that awaits this is the run's own.
        """
        CURRENT.set(self)
        self._ctx._bind(self._agent, self.spec)
        forget = self._ctx._on_cancel(lambda: self.stop(StopReason.CANCELLED))
        deadline = self._ctx.deadline
        if deadline is not None and deadline <= self._clock.time():
            self.stop(StopReason.DEADLINE)
        elif deadline is not None:
            self._later(deadline - self._clock.time(), lambda: self.stop(StopReason.DEADLINE))
        try:
            while True:
                try:
                    return await self._attempted()
                except Exception as problem:
                    delay = self._retry_delay(problem)
                    if delay is None:
                        if isinstance(problem, (*PUBLIC, RunParked)):
                            raise
                        raise self._wrapped(problem) from problem
                    text = self._ctx._redact(f"{type(problem).__name__}: {problem}")[:500]
                await self._retry(delay, text)
        finally:
            self._is_over = True
            forget()
            for timer in self._timers:
                timer.cancel()

    def stop(self, reason: StopReason) -> None:
        """End the run early; the first reason counts. May be called from outside at any time."""
        if self.reason is not None or self._is_over:
            return
        self.reason = reason
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(None)
        # A caller's cancellation leaves the handler time to notice it by itself.
        self._later(CANCEL_SECONDS if reason is StopReason.CANCELLED else 0.0, self._cancel_handler)

    def pause(self) -> None:
        """The handler waits for a person."""
        self._pauses += 1
        if self._pauses == 1:
            self._time.stop()
            self._slot.give_up()
            if self._parent is not None:
                self._parent.pause()

    async def resume(self) -> None:
        """The handler goes on, once it has a slot again; a run that is stopped needs none."""
        self._pauses -= 1
        if self._pauses:
            return
        if self._parent is not None:
            await self._parent.resume()
        if self.reason is None:
            await self._slot.take()
            if self._pauses:
                # Another branch of the handler began to wait meanwhile.
                self._slot.give_up()
            else:
                self._time.start(self._time_is_over)

    # One attempt

    async def _attempted(self) -> SkillResult:
        if self.reason is not None:
            self._check_stopped()
        try:
            if not self._slot.take_now():
                await self._admitted()
            self._ctx._begin_attempt(self._attempt)
            if self._on_attempt is not None:
                await self._on_attempt(self._attempt)
            if self.reason is not None:
                self._check_stopped()
            value = await self._handled()
            if self._time.spent > self._time.limit:
                # It blocked the event loop past its limit, so the timer could not fire.
                self.reason = self.reason or StopReason.TIMEOUT
            if self.reason is not None:
                self._check_stopped()
            return self.spec.result_type.checked(value)
        finally:
            self._slot.give_up()

    async def _admitted(self) -> None:
        """Wait for a slot, unless the run is stopped first."""
        taking = asyncio.ensure_future(self._slot.take())
        self._stopped = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait({taking, self._stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not taking.done():
                taking.cancel()
        self._check_stopped()

    async def _handled(self) -> Any:
        """Await the handler; a cancellation that stops the run is over when it is."""
        # A further attempt must not see what this one does to its arguments.
        values = copy.deepcopy(self._values) if self.spec.max_retries else self._values
        self._task = task = asyncio.current_task()
        assert task is not None
        time = self._time
        time.start(self._time_is_over)
        try:
            return await self.spec.handler(self._agent, **{self.spec.context_parameter: self._ctx}, **values)
        except SystemExit as problem:
            sentence = f"SystemExit: the handler tried to end the process ({problem})"
            raise SkillInvocationError(sentence) from problem
        except asyncio.CancelledError:
            if self.reason is None and task.cancelling():
                raise  # the event loop ends
            if self.reason is None:
                raise SkillInvocationError("CancelledError: the handler cancelled itself") from None
            return None
        except Exception:
            if self.reason is None:
                raise
            return None  # what a stopped handler raises concerns nobody
        finally:
            self._task = None
            time.stop()
            if self.reason is not None:
                _uncancel(task)
                self._slot.slots.stuck.pop(self._ctx.task_id, None)

    def _time_is_over(self) -> None:
        self.stop(StopReason.TIMEOUT)

    def _cancel_handler(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._later(GRACE_SECONDS, self._give_up)

    def _give_up(self) -> None:
        """The handler ignores its cancellation: it keeps its slot until it ends, and health says so."""
        if self._task is None:
            return
        self._slot.slots.stuck[self._ctx.task_id] = self.spec.name
        try:
            self._check_stopped()
        except Exception as problem:  # noqa: BLE001 - the outcome of the run
            self._on_abandoned(problem)

    # Outcomes

    def _check_stopped(self) -> None:
        """Raise what a stopped run ends with, whatever its handler did meanwhile."""
        name = self.spec.name
        if self.reason is StopReason.TIMEOUT:
            raise SkillTimeout(f"skill {name!r} ran longer than {self._time.limit:g} seconds")
        if self.reason is StopReason.CANCELLED:
            raise CancelledByCaller(self._ctx.task_id)
        if self.reason is StopReason.DEADLINE:
            raise RunRefused("deadline-exceeded", f"skill {name!r} was not done before its deadline")
        if self.reason is StopReason.INTERRUPTED:
            raise RunRefused(
                "run-interrupted", f"the process ended while skill {name!r} was running; try again"
            )
        if self.reason is StopReason.LEASE_LOST:
            raise RunRefused("lease-lost", "another process has taken this run over")
        if self.reason is StopReason.PARKED:
            raise RunParked

    def _wrapped(self, problem: Exception) -> SkillInvocationError:
        text = self._ctx._redact(f"{type(problem).__name__}: {problem}")
        return SkillInvocationError(f"skill {self.spec.name!r} failed with {text}")

    def _retry_delay(self, problem: Exception) -> float | None:
        """Seconds until the next attempt; None when there is none."""
        is_over = self.reason is not None or self._attempt > self.spec.max_retries
        if is_over or not self.spec.idempotent or not is_retryable(problem):
            return None
        retry_after = getattr(problem, "retry_after", None)
        if isinstance(retry_after, int | float) and retry_after >= 0:
            return float(retry_after)
        delay = min(MAX_RETRY_DELAY, 0.5 * 2 ** (self._attempt - 1))
        return delay * random.uniform(0.8, 1.2)  # noqa: S311 - spreads retries, protects nothing

    async def _retry(self, delay: float, text: str) -> None:
        self._attempt += 1
        self._time = clocks.RunningTime(self._time.limit)
        self._stopped = asyncio.get_running_loop().create_future()
        payload = {"attempt": self._attempt, "delay_seconds": round(delay, 3), "error": text}
        await self._ctx._engine_event("retry", payload)
        if self.reason is None:
            await clocks.wait(self._stopped, delay)

    def _later(self, seconds: float, callback: Callable[[], object]) -> None:
        self._timers.append(self._clock.call_later(max(seconds, 0.0), callback))


def _look(end: "asyncio.Future[SkillResult]") -> None:
    """What comes after the run is over concerns nobody."""
    if not end.cancelled():
        end.exception()


def _uncancel(task: "asyncio.Task[Any]") -> None:
    """A cancellation that ended the handler does not end the task that goes on with the run."""
    while task.cancelling():
        task.uncancel()


def is_retryable(problem: BaseException) -> bool:
    """Whether the same run may succeed when it is tried again."""
    if isinstance(problem, SkillTimeout | InteractionTimeout | SkillInputError | SkillOutputError):
        return False
    if isinstance(problem, A2AError):
        return (problem.status_code or 502) in _RETRYABLE_STATUS
    return isinstance(problem, RetryableError | ConnectionError | TimeoutError)


CURRENT: contextvars.ContextVar[Execution | None] = contextvars.ContextVar(
    "molecule_skill_execution", default=None
)
"""The execution whose handler is running."""
