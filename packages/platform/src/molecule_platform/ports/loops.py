"""Leases on the periodic work, as the store keeps them."""

from datetime import timedelta
from typing import Protocol


class LoopLeases(Protocol):
    """Verbs on loops. Times are the store's own: the clocks of replicas differ."""

    def claim(self, name: str, owner: str, lasts: timedelta) -> int | None:
        """Take or keep the lease on a loop: its fence, which grows with every owner; None if it is taken."""
        ...

    def release(self, owner: str) -> None:
        """Let go of every loop that a replica holds."""
        ...
