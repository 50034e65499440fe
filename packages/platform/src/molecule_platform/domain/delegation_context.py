"""The delegation context: where in a chain of delegated work somebody stands, and how far it may go.

It is kept with every message and signed into every dispatch. Each hop makes it longer, a plain message as
well as a delegation, so that nobody leaves the chain by the way in which they pass the work on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from molecule_platform.domain.errors import ApiError


@dataclass(frozen=True)
class ContextLimits:
    """How far delegated work may spread."""

    depth: int = 8
    calls: int = 64


@dataclass(frozen=True)
class Context:
    """The delegation that is worked on, its first one, the hops so far, and the workspaces on the way."""

    id: str
    root: str
    depth: int
    calls_left: int
    chain: tuple[str, ...]

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> "Context":
        """The context as a message keeps it."""
        return cls(kept["id"], kept["root"], kept["depth"], kept["calls_left"], tuple(kept["chain"]))

    def written(self) -> dict[str, Any]:
        """The context as a message keeps it and as an agent gets it."""
        return {
            "id": self.id,
            "root": self.root,
            "depth": self.depth,
            "calls_left": self.calls_left,
            "chain": list(self.chain),
        }

    def step_to(self, target_id: str, limits: ContextLimits) -> "Context":
        """One hop further. Raises 409 when that is too deep, or would close a circle.

        A workspace may write to itself: that is a hop, and no circle.
        """
        if self.depth >= limits.depth:
            sentence = f"delegated work is passed on {limits.depth} times at most: {self._path()}"
            raise self._over("depth", limits.depth, f"{sentence}; answer with what you have")
        if target_id == self.chain[-1]:
            return replace(self, depth=self.depth + 1)
        if target_id in self.chain:
            sentence = f"{target_id} already takes part in this delegation: {self._path()}"
            raise self._over("cycle", 1, f"{sentence}; answer your message, or ask somebody else")
        return replace(self, depth=self.depth + 1, chain=(*self.chain, target_id))

    def counted(self, calls: int, limits: ContextLimits) -> "Context":
        """The context of call number `calls` below the root. Raises 409 when there are too many."""
        if calls > limits.calls:
            sentence = (
                f"{limits.calls} delegations have come of {self.root} already: answer with what you have"
            )
            raise self._over("calls", limits.calls, sentence)
        return replace(self, calls_left=limits.calls - calls)

    def _path(self) -> str:
        return " → ".join(self.chain)

    def _over(self, detail: str, limit: int, sentence: str) -> ApiError:
        return ApiError("delegation-limit", sentence, limit=limit, detail=detail, chain=list(self.chain))


def first(delegation_id: str, caller_id: str | None, target_id: str, limits: ContextLimits) -> Context:
    """The context of a delegation that comes of no other one; people are not part of the chain."""
    chain = (target_id,) if caller_id is None else (caller_id, target_id)
    return Context(delegation_id, delegation_id, 1, limits.calls - 1, chain)
