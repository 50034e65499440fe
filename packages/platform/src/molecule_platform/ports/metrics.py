"""Figures about delivery, as services count them."""

from typing import Protocol


class DeliveryMetrics(Protocol):
    """Somebody who counts; nothing may depend on it."""

    def taken(self, waited_seconds: float) -> None:
        """A message was taken for the first time."""
        ...

    def attempt(self, outcome: str) -> None:
        """An attempt to deliver ended: `answered`, `failed`, `expired` or `retry`."""
        ...

    def lease_expired(self) -> None:
        """An inbox lease ran out."""
        ...

    def phantom_busy(self) -> None:
        """An agent was busy in name only."""
        ...
