"""The activity log, as the store keeps it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from molecule_platform.domain.messages import Message
from molecule_wire.values import value


@value
class ActivityRow:
    """One row of `activity_logs`; `seq` orders the rows of all workspaces. What became of its message is told
    by the message, for as long as that is kept.
    """

    id: str
    org_id: str
    seq: int
    workspace_id: str
    activity_type: str
    caller: str
    created_at: datetime
    source_id: str = ""
    target_id: str = ""
    method: str = ""
    summary: str = ""
    status: str = "ok"
    request_body: Any = None
    response_body: Any = None
    tool_trace: Any = None
    metadata: Any = None
    error_detail: str = ""
    duration_ms: int | None = None
    message_id: str | None = None
    origin: str = "platform"
    message: Message | None = None


@dataclass(frozen=True)
class ActivityFilter:
    """Which rows to list. `is_mail` means those with a message, and `only_open` those where it is open."""

    activity_type: str | None = None
    source: str | None = None
    peer_id: str | None = None
    after_seq: int | None = None
    before: datetime | None = None
    since: datetime | None = None
    is_mail: bool = False
    only_open: bool = False
    oldest_first: bool = False
    limit: int = 100


class ActivityLog(Protocol):
    """Verbs on activity rows."""

    def insert(self, row: ActivityRow) -> None:
        """Keep a new row."""
        ...

    def seq_of(self, workspace_id: str, activity_id: str) -> int | None:
        """The place of a row in its workspace's log; None when it is unknown or pruned."""
        ...

    def rows(self, workspace_id: str, wanted: ActivityFilter) -> list[ActivityRow]:
        """Rows with their messages, in the order asked for."""
        ...

    def next_seq(self) -> int:
        """The next number; it grows in the order of the commits."""
        ...
