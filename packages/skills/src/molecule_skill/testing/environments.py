"""Places in which a skill can run, and the assertion that it behaves the same in all of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pydantic import BaseModel

from molecule_skill.a2a_client import A2AClient
from molecule_skill.agent import A2AAgent
from molecule_skill.errors import report_of
from molecule_skill.hosted import Answerer, GateSettings, Invocation, RunGate
from molecule_skill.identity import NoAuth
from molecule_skill.interactions import Decline
from molecule_skill.local_context import LocalRunContext
from molecule_skill.store import MemoryRunStore, RequestState
from molecule_skill.testing.identity import StaticAuthResolver
from molecule_wire import JSON

ENGINE_KINDS = frozenset(
    {"run_started", "run_finished", "call_started", "call_complete", "call_error", "cancel_requested"}
)
"""Events of recorded runs; a local context has no record."""

CALLER = "user:test"


@dataclass(frozen=True)
class Case:
    """One invocation: a skill, its arguments, and the answers to what it will ask, in order."""

    skill: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    answers: Sequence[Any] = ()
    auth: BaseModel = field(default_factory=NoAuth)
    secrets: dict[str, str] = field(default_factory=dict[str, str])
    a2a: A2AClient | None = None


@dataclass(frozen=True)
class CaseResult:
    """What a caller saw of a case."""

    result: JSON = None
    error_code: str | None = None
    event_kinds: tuple[str, ...] = ()


class RunEnvironment(Protocol):
    """A way to run a case; transports add theirs to `PLACES`."""

    name: str

    async def run(self, agent: A2AAgent[Any, Any], case: Case) -> CaseResult:
        """Run a case to its end."""
        ...


class LocalEnvironment:
    """Under a `LocalRunContext`."""

    name = "local context"

    async def run(self, agent: A2AAgent[Any, Any], case: Case) -> CaseResult:
        """See `Place`."""
        ctx = LocalRunContext(
            auth=case.auth, answers=list(case.answers), secrets=case.secrets, a2a=case.a2a, caller=CALLER
        )
        seen = CaseResult()
        try:
            seen = CaseResult(await agent.invoke_json(case.skill, ctx, case.arguments))
        except Exception as problem:  # noqa: BLE001 - the code is what is compared
            seen = CaseResult(error_code=report_of(problem).code)
        return replace(seen, event_kinds=author_kinds([event.kind for event in ctx.events]))


class GateEnvironment:
    """Through the gate, as every transport does, in this process."""

    name = "in process"

    async def run(self, agent: A2AAgent[Any, Any], case: Case) -> CaseResult:
        """See `Place`."""
        resolver = StaticAuthResolver(case.auth, CALLER)
        settings = GateSettings(resolver=resolver, secrets=case.secrets, a2a=case.a2a, drain_seconds=0.0)
        gate = RunGate(agent, MemoryRunStore(), settings)
        await gate.start()
        try:
            return await self._run(gate, case)
        finally:
            await gate.close()

    async def _run(self, gate: RunGate, case: Case) -> CaseResult:
        try:
            ctx = await gate.open(Invocation("test", case.skill, case.arguments))
        except Exception as problem:  # noqa: BLE001 - the code is what is compared
            return CaseResult(error_code=report_of(problem).code)
        answers = list(case.answers)
        record = await gate.reader(ctx.run_id, CALLER).wait()
        while not record.state.is_final and answers:
            rows = await gate.reader(ctx.run_id, CALLER).interactions()
            pending = next(row for row in rows if row.state is RequestState.PENDING)
            answer = answers.pop(0)
            if isinstance(answer, Decline):
                await gate.answer(pending.id, Answerer(CALLER), declined=True, reason=answer.reason)
            else:
                value = answer.model_dump(mode="json") if isinstance(answer, BaseModel) else answer
                await gate.answer(pending.id, Answerer(CALLER), value)
            record = await gate.reader(ctx.run_id, CALLER).wait()
        events = await gate.reader(ctx.run_id, CALLER).events()
        code = None if record.failure is None else record.failure.code
        return CaseResult(record.result, code, author_kinds([event.kind for event in events]))


PLACES: list[RunEnvironment] = [LocalEnvironment(), GateEnvironment()]
"""Where `assert_same_everywhere` runs a case. A transport appends a place of its own."""


def author_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    """The kinds of events that a run has wherever it runs."""
    return tuple(kind for kind in kinds if kind not in ENGINE_KINDS)


async def assert_same_everywhere(
    agent: A2AAgent[Any, Any] | type[A2AAgent[Any, Any]],
    cases: Sequence[Case],
    *,
    places: Sequence[RunEnvironment] | None = None,
) -> list[CaseResult]:
    """Run each case in each place: results, event kinds and error codes must be equal."""
    seen: list[CaseResult] = []
    for case in cases:
        found = {place.name: await place.run(_fresh(agent), case) for place in places or PLACES}
        first_name, first = next(iter(found.items()))
        for name, one in found.items():
            if one != first:
                raise AssertionError(
                    f"skill {case.skill!r} with {case.arguments!r} differs:\n"
                    f"  {first_name}: {first}\n  {name}: {one}"
                )
        seen.append(first)
    return seen


def _fresh(agent: A2AAgent[Any, Any] | type[A2AAgent[Any, Any]]) -> A2AAgent[Any, Any]:
    return agent() if isinstance(agent, type) else type(agent)(agent.config)
