"""Time, as the house reads it."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Where times come from."""

    def now(self) -> datetime:
        """The time in UTC, cut to milliseconds, so that every store keeps it whole."""
        ...
