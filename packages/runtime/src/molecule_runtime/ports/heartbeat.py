"""The heartbeat as the kit sees it: it counts the work and tells the platform."""

from typing import Protocol


class Heartbeat(Protocol):
    """Counts of one workspace; a change of `active_tasks` is told soon."""

    @property
    def active_tasks(self) -> int:
        """How many turns run."""
        ...

    @active_tasks.setter
    def active_tasks(self, number: int, /) -> None: ...

    @property
    def current_task(self) -> str:
        """What the agent works on, in a few words."""
        ...

    @current_task.setter
    def current_task(self, text: str, /) -> None: ...

    def record_success(self) -> None:
        """A turn succeeded."""
        ...

    def record_error(self, text: str) -> None:
        """A turn failed; the text is a sample for the platform."""
        ...
