"""Service discovery: which agents there are and what they can do."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from molecule_skill.clients.discoveries import CardProblem, InMemoryDiscovery, RegistryDiscovery

__all__ = ["CardProblem", "DiscoveredAgent", "DiscoveryClient", "InMemoryDiscovery", "RegistryDiscovery"]


@dataclass(frozen=True)
class DiscoveredAgent:
    """An agent that was found."""

    name: str
    url: str
    card: Any


class DiscoveryClient(ABC):
    """Client for the agents that this one may call."""

    @abstractmethod
    async def find_agents(
        self,
        *,
        tags: Sequence[str] = (),
        capability: str | None = None,
        skill: str | None = None,
        query: str | None = None,
        limit: int = 10,
    ) -> list[DiscoveredAgent]:
        """Agents that pass every filter given, best match first, then by name; `limit` is 1 to 100."""

    @abstractmethod
    async def get_agent(self, name: str) -> DiscoveredAgent:
        """The agent of this name. Raises KeyError for an unknown one."""


def __getattr__(name: str) -> Any:
    # The clients build on this module; whoever needs one finds it here.
    if name not in ("CardProblem", "InMemoryDiscovery", "RegistryDiscovery"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from molecule_skill.clients import discoveries

    return getattr(discoveries, name)
