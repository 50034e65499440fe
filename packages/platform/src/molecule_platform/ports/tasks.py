"""Tasks and their event logs, as the store keeps them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from molecule_platform.domain.tasks import Task, TaskEvent, TaskKey
from molecule_platform.ports.pages import PAGE_MAX_BYTES


@dataclass(frozen=True)
class TaskFilter:
    """Which tasks of a workspace to list. `before` is the place of the last task of the page before."""

    workspace_id: str
    owner: str | None = None
    tenant: str = ""
    context_id: str | None = None
    states: Collection[str] = ()
    status_after: datetime | None = None
    before: tuple[datetime, str] | None = None


class Tasks(Protocol):
    """Verbs on tasks. Numbers of events grow by one within a task and are never given twice."""

    def get(self, key: TaskKey) -> Task | None:
        """The task with that key."""
        ...

    def named(self, workspace_id: str, tenant: str, name: str) -> Task | None:
        """The task of that id, or of that id at the agent, or of the message with that id."""
        ...

    def insert(self, task: Task) -> bool:
        """Keep a new task; False when there is one with that key."""
        ...

    def append(
        self, key: TaskKey, reader: str | None, events: Sequence[TaskEvent], at: datetime
    ) -> Task | None:
        """Number the events and keep them, with the state that the last of them tells.

        None, and nothing happens, when the task is over or `reader` is not the one who reads now; None as
        `reader` asks no such question.
        """
        ...

    def has_artifacts(self, key: TaskKey, artifact_ids: Collection[str]) -> bool:
        """Return True if the task's log holds the first chunk of each of these artifacts."""
        ...

    def note(self, key: TaskKey, org_id: str, event: TaskEvent) -> None:
        """Keep an event that belongs to no task: the bare message that answered a message."""
        ...

    def change(self, key: TaskKey, **values: Any) -> None:
        """Set columns of a task."""
        ...

    def events(
        self, key: TaskKey, after: int, limit: int, max_bytes: int = PAGE_MAX_BYTES
    ) -> list[TaskEvent]:
        """Return events after a number, in order, up to the one with which they reach `max_bytes`."""
        ...

    def last_status(self, key: TaskKey, most_seq: int, message_id: str | None = None) -> TaskEvent | None:
        """Return the newest event up to a number that shows a state, if given only one of that message."""
        ...

    def first_of(self, message_id: str) -> tuple[TaskKey, int] | None:
        """Where the events of a message begin: the task they are kept under, and the first number."""
        ...

    def newest(self, keys: Collection[TaskKey]) -> dict[TaskKey, int]:
        """The number of the newest event of each."""
        ...

    def oldest_seq(self, key: TaskKey) -> int | None:
        """The first number still kept."""
        ...

    def page(self, wanted: TaskFilter, limit: int) -> tuple[list[Task], bool]:
        """Tasks, the newest status first, and whether there are more; fewer than asked for if large."""
        ...

    def count(self, wanted: TaskFilter) -> int:
        """How many there are on all pages."""
        ...

    def due(self, now: datetime, limit: int) -> list[Task]:
        """Tasks whose agent is to be asked how they do."""
        ...

    def abandoned(self, before: datetime, limit: int) -> list[Task]:
        """Tasks that have waited for a next message since before that time."""
        ...
