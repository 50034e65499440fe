"""Lifecycle of agent instances: startup once before the first run, shutdown once at the end."""

import asyncio
import copy
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from molecule_skill.declarations import Lifecycle
from molecule_skill.errors import CapabilityUnavailable

if TYPE_CHECKING:
    from molecule_skill.agent import A2AAgent

_STARTED = "_molecule_started"
MAX_SESSIONS = 256
"""Instances of `lifecycle = "session"` that are kept; the one unused for longest makes room."""


class StateAccess:
    """The agent's durable state, outside of a run."""

    def __init__(
        self,
        load: Callable[[], Awaitable[Any]] | None = None,
        save: Callable[[Any], Awaitable[None]] | None = None,
    ) -> None:
        self._load, self._save = load, save

    async def load(self) -> Any:
        """The saved state, or the model's defaults."""
        if self._load is None:
            raise CapabilityUnavailable("state", "the agent has no durable state here")
        return await self._load()

    async def save(self, value: Any) -> None:
        """Save the state."""
        if self._save is None:
            raise CapabilityUnavailable("state", "the agent has no durable state here")
        await self._save(value)


class LifecycleContext:
    """What `startup` and `shutdown` may use."""

    def __init__(self, agent: str, secret: Callable[[str], str], state: StateAccess | None = None) -> None:
        self.log = logging.getLogger(f"molecule_skill.agent.{agent}")
        self.state = state or StateAccess()
        self._secret = secret

    def secret(self, name: str) -> str:
        """The value of a secret. Raises KeyError for an unknown one."""
        return self._secret(name)


async def ensure_started(agent: "A2AAgent[Any, Any]", ctx: LifecycleContext) -> None:
    """Run `startup` unless this instance has; callers that come meanwhile wait for the same one."""
    begun: Any = agent.__dict__.get(_STARTED)
    if begun is True:
        return
    if isinstance(begun, asyncio.Future) and begun.get_loop() is asyncio.get_running_loop():
        await asyncio.shield(begun)  # pyright: ignore[reportUnknownArgumentType]
        return
    task = asyncio.ensure_future(agent.startup(ctx))
    agent.__dict__[_STARTED] = task
    try:
        await asyncio.shield(task)
    except BaseException:
        agent.__dict__.pop(_STARTED, None)
        raise
    agent.__dict__[_STARTED] = True


def _is_plain(kind: type) -> bool:
    """Whether instances are copied as their attributes: the class and its bases do not say otherwise."""
    own = ("__copy__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
    has_slots = any(base.__dict__.get("__slots__") for base in kind.__mro__)
    same = all(getattr(kind, name) is getattr(object, name) for name in ("__reduce__", "__reduce_ex__"))
    return same and not has_slots and not any(hasattr(kind, name) for name in own)


class Instances:
    """The instances that runs use: a copy per run, one per session, or one for all."""

    def __init__(self, prototype: "A2AAgent[Any, Any]", context: Callable[[], LifecycleContext]) -> None:
        self.prototype = prototype
        self._context = context
        self._is_plain = _is_plain(type(prototype))
        self._sessions: OrderedDict[tuple[str, str], A2AAgent[Any, Any]] = OrderedDict()

    async def start(self) -> None:
        """Start the prototype: it is what tells whether the agent can start at all."""
        await ensure_started(self.prototype, self._context())

    async def of(self, principal: str, session_id: str | None) -> "A2AAgent[Any, Any]":
        """The instance for a run."""
        lifecycle = self.prototype.lifecycle
        if lifecycle == Lifecycle.EPHEMERAL:
            return self._copied()
        if lifecycle == Lifecycle.WARM or session_id is None:
            return self.prototype
        key = (principal, session_id)
        found = self._sessions.get(key)
        if found is None:
            found = self._copied()
            found.__dict__.pop(_STARTED, None)
            self._sessions[key] = found
        self._sessions.move_to_end(key)
        await ensure_started(found, self._context())
        while len(self._sessions) > MAX_SESSIONS:
            _, oldest = self._sessions.popitem(last=False)
            await oldest.shutdown(self._context())
        return found

    def _copied(self) -> "A2AAgent[Any, Any]":
        """What `copy.copy` gives; it takes five times as long for a class that has no say in it."""
        if not self._is_plain:
            return copy.copy(self.prototype)
        made = object.__new__(type(self.prototype))
        made.__dict__.update(self.prototype.__dict__)
        return made

    async def shutdown(self) -> None:
        """Shut every started instance down, once."""
        instances = [*self._sessions.values(), self.prototype]
        self._sessions.clear()
        for one in instances:
            if one.__dict__.pop(_STARTED, None) is True:
                await one.shutdown(self._context())
