"""Calls to other agents: the interface that `ctx.call` uses, and its result."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from molecule_skill.events import AgentEvent, ArtifactRef

if TYPE_CHECKING:
    from molecule_skill.clients.http import HttpA2AClient
    from molecule_skill.clients.in_process import InProcessA2AClient
    from molecule_skill.clients.in_process import InProcessA2AClient as InMemoryA2AClient
    from molecule_skill.clients.platform import PlatformA2AClient

__all__ = [
    "A2AClient",
    "CallResult",
    "HttpA2AClient",
    "InMemoryA2AClient",
    "InProcessA2AClient",
    "PlatformA2AClient",
]

_HOME_OF = {
    "HttpA2AClient": ("http", "HttpA2AClient"),
    "InMemoryA2AClient": ("in_process", "InProcessA2AClient"),
    "InProcessA2AClient": ("in_process", "InProcessA2AClient"),
    "PlatformA2AClient": ("platform", "PlatformA2AClient"),
}


@dataclass(frozen=True)
class CallResult:
    """What a call to a skill of another agent gave."""

    result: Any
    events: tuple[AgentEvent, ...] = ()
    artifacts: tuple[ArtifactRef, ...] = ()
    grant_id: str | None = None
    run_id: str | None = None


class A2AClient(ABC):
    """Client for skills of other agents."""

    @abstractmethod
    async def call(
        self,
        target: str,
        skill: str,
        *,
        args: dict[str, Any] | None = None,
        grant: str | None = None,
        timeout: float | None = None,
    ) -> CallResult:
        """Run a skill of `target` and wait for its result.

        `timeout` covers the whole call; at its end the remote run is cancelled and `CallTimeout` is raised.
        Cancelling this coroutine cancels the remote run too. No credential of the caller is passed on.
        """


def __getattr__(name: str) -> Any:
    # The clients build on this module; whoever needs one finds it here.
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, member = _HOME_OF[name]
    return getattr(import_module(f"molecule_skill.clients.{module}"), member)
