"""Tasks as the platform keeps them: a row, and a log of numbered events.

Events are kept as the agent said them, in the dialect it speaks; whoever reads them is told in its own.
"""

from datetime import datetime
from typing import Literal

from molecule_wire.a2a.operations import Dialect
from molecule_wire.values import value

EventKind = Literal["task", "message", "status", "artifact"]

TERMINAL = frozenset({"completed", "failed", "canceled", "rejected"})
INTERRUPTED = frozenset({"input-required", "auth-required"})
# States in which a blocking caller has its answer.
SETTLED = TERMINAL | INTERRUPTED

MIN_LOOK_SECONDS, MAX_LOOK_SECONDS = 1.0, 15.0


@value
class TaskKey:
    """What names a task: task ids are only unique within an agent and its tenant."""

    workspace_id: str
    tenant: str
    id: str


@value
class Task:
    """One row of `tasks`. States are spelled as in 0.3.

    `is_agents` tells who made the id: the agent, or the platform for an agent that had not yet spoken.
    `reader` is the fence: only who is named there may append. `snapshot` is the whole task once it is over;
    until then it is folded from its log. `artifact_bytes` is the size of the artifacts in that log.
    """

    workspace_id: str
    tenant: str
    id: str
    org_id: str
    owner: str
    context_id: str
    message_id: str
    state: str
    status_at: datetime
    created_at: datetime
    is_agents: bool = False
    agent_task_id: str | None = None
    last_seq: int = 0
    reader: str = ""
    snapshot: bytes | None = None
    snapshot_seq: int = 0
    artifact_bytes: int = 0
    # The newest numbered report of an inbox lease, and the event it ended with.
    report_lease: str = ""
    report_number: int = 0
    report_seq: int = 0
    look_at: datetime | None = None
    looks: int = 0
    watchers: int = 0
    cancel_requested: bool = False
    finished_at: datetime | None = None

    @property
    def key(self) -> TaskKey:
        """What names the task."""
        return TaskKey(self.workspace_id, self.tenant, self.id)

    @property
    def is_over(self) -> bool:
        """Whether nothing can follow."""
        return self.state in TERMINAL


@value
class TaskEvent:
    """One event of a task: `payload` is the JSON of a stream's result in `dialect`.

    `state` is the task's state that the event tells, None when it tells none. `begins` are the ids of the
    artifacts whose first chunk the event holds; both are known only until the event is stored.
    """

    kind: EventKind
    payload: bytes
    dialect: Dialect
    seq: int = 0
    message_id: str = ""
    created_at: datetime | None = None
    state: str | None = None
    begins: tuple[str, ...] = ()

    def numbered(self, seq: int, message_id: str, at: datetime) -> "TaskEvent":
        """The same event in its place."""
        return TaskEvent(self.kind, self.payload, self.dialect, seq, message_id, at, self.state, self.begins)


def look_delay(looks: int) -> float:
    """Seconds until an agent is asked again how a task does."""
    return min(MAX_LOOK_SECONDS, MIN_LOOK_SECONDS * 2.0 ** min(looks, 8))
