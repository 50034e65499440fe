"""Which replicas of the platform are alive, as the store keeps it."""

from datetime import datetime
from typing import Protocol


class Presence(Protocol):
    """Verbs on replicas."""

    def seen(self, replica_id: str, at: datetime) -> None:
        """Say that a replica lives."""
        ...

    def alive(self, since: datetime) -> list[str]:
        """Replicas seen at or after that time."""
        ...

    def leave(self, replica_id: str) -> None:
        """Say that a replica stops."""
        ...
