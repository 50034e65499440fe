"""Calls between agents of one process, with nothing shared but JSON."""

import asyncio
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from molecule_skill.a2a_client import A2AClient, CallResult
from molecule_skill.context import RunContext
from molecule_skill.errors import CallLimitExceeded, CallTimeout, GrantDelegationDenied, SkillInputError
from molecule_skill.events import ArtifactRef
from molecule_skill.identity import NoAuth
from molecule_skill.ids import new_id
from molecule_skill.local_context import LocalRunContext
from molecule_wire import jsontext

if TYPE_CHECKING:
    from molecule_skill.agent import A2AAgent

MAX_DEPTH = 8
MAX_CALLS = 64

ContextFactory = Callable[["A2AAgent[Any, Any]", str | None], RunContext[Any]]


class _Calls:
    """How many calls one root run has made."""

    def __init__(self) -> None:
        self.made = 0


class InProcessA2AClient(A2AClient):
    """Runs skills of agents in this process, each in a fresh context; the target is an agent's name.

    Without a `ctx_factory(agent, grant)` the callee is called by nobody in particular: no scopes, no secrets,
    no workspace. It may call on through this client, at most 8 deep, in no circle, 64 calls in all.
    """

    def __init__(
        self,
        agents: "Mapping[str, A2AAgent[Any, Any]] | Iterable[A2AAgent[Any, Any]]",
        *,
        ctx_factory: ContextFactory | None = None,
    ) -> None:
        listed = (
            cast("Mapping[str, A2AAgent[Any, Any]]", agents).values()
            if isinstance(agents, Mapping)
            else agents
        )
        self._agents: dict[str, A2AAgent[Any, Any]] = {agent.name: agent for agent in listed}
        self._ctx_factory = ctx_factory
        self._path: tuple[str, ...] = ()
        self._calls: _Calls | None = None
        # The calls of a root run are those of the task that makes them; nothing else tells runs apart here.
        self._of_tasks: weakref.WeakKeyDictionary[asyncio.Task[Any], _Calls] = weakref.WeakKeyDictionary()

    async def call(
        self,
        target: str,
        skill: str,
        *,
        args: dict[str, Any] | None = None,
        grant: str | None = None,
        timeout: float | None = None,
    ) -> CallResult:
        """See `A2AClient`. Raises KeyError for an unknown target, and what the callee raises."""
        agent = self._agents.get(target)
        if agent is None:
            raise KeyError(f"unknown agent: {target!r}; known are {sorted(self._agents)}")
        calls = self._counted(target)
        ctx = self._context(agent, grant, calls)
        payload = _through_json(args or {}, f"the arguments of {target}.{skill}")
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                result = await agent.invoke_json(skill, ctx, payload)
        except TimeoutError as problem:
            if not limit.expired():
                raise
            cancel = getattr(ctx, "cancel", None)
            if cancel is not None:
                cancel()
            raise CallTimeout(f"{target}.{skill} took longer than {timeout:g} s") from problem
        return CallResult(
            result=jsontext.decode(jsontext.encode(result)),
            events=tuple(getattr(ctx, "events", ())),
            artifacts=_artifacts(ctx),
            run_id=ctx.task_id,
        )

    def _counted(self, target: str) -> _Calls:
        if target in self._path:
            raise CallLimitExceeded(f"the call would close a circle: {' → '.join((*self._path, target))}")
        if len(self._path) >= MAX_DEPTH:
            raise CallLimitExceeded(f"calls go at most {MAX_DEPTH} deep: {' → '.join(self._path)}")
        calls = self._calls
        if calls is None:
            task = asyncio.current_task()
            assert task is not None
            calls = self._of_tasks.setdefault(task, _Calls())
        if calls.made >= MAX_CALLS:
            raise CallLimitExceeded(f"a run makes at most {MAX_CALLS} calls, those of its callees included")
        calls.made += 1
        return calls

    def _context(self, agent: "A2AAgent[Any, Any]", grant: str | None, calls: _Calls) -> RunContext[Any]:
        if self._ctx_factory is not None:
            return self._ctx_factory(agent, grant)
        if grant is not None:
            raise GrantDelegationDenied("file grants need a ctx_factory(agent, grant) that verifies them")
        onward = InProcessA2AClient(self._agents)
        onward._path, onward._calls = (*self._path, agent.name), calls
        return _CalleeContext(auth=NoAuth(), task_id=new_id("run_"), a2a=onward)


class _CalleeContext(LocalRunContext[NoAuth]):
    """A local context that knows the references of its artifacts."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.refs: dict[str, ArtifactRef] = {}

    async def write_artifact(self, name: str, data: bytes, mime_type: str) -> ArtifactRef:
        """See `RunContext`."""
        ref = self.refs[name] = await super().write_artifact(name, data, mime_type)
        return ref


def _artifacts(ctx: RunContext[Any]) -> tuple[ArtifactRef, ...]:
    if isinstance(ctx, _CalleeContext):
        return tuple(ctx.refs.values())
    written: Mapping[str, bytes] = getattr(ctx, "artifacts", {})
    return tuple(
        ArtifactRef(name, f"memory://{ctx.task_id}/{name}", "application/octet-stream", len(data))
        for name, data in written.items()
    )


def _through_json(value: dict[str, Any], what: str) -> dict[str, Any]:
    try:
        decoded = jsontext.decode(jsontext.encode(value))
    except (TypeError, ValueError, RecursionError) as problem:
        sentence = f"{what} are not JSON: {problem}"
        raise SkillInputError(sentence, [{"loc": [], "msg": str(problem), "type": "json"}]) from problem
    assert isinstance(decoded, dict)
    return decoded
