"""Which replicas of the platform are alive, as the store keeps it."""

from datetime import timedelta
from typing import Protocol


class Presence(Protocol):
    """Verbs on replicas."""

    def seen(self, replica_id: str) -> None:
        """Say that a replica lives, at the store's own time: the clocks of replicas differ."""
        ...

    def alive(self, within: timedelta) -> list[str]:
        """Replicas seen within that time, by the store's own clock."""
        ...

    def leave(self, replica_id: str) -> None:
        """Say that a replica stops."""
        ...
