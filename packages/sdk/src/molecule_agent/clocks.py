"""Where the client gets its time from."""

from typing import Protocol


class Clock(Protocol):
    """A clock that can also wait; the module `time` is one."""

    def time(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow."""
        ...

    def sleep(self, seconds: float, /) -> None:
        """Wait."""
        ...
