"""The activity log is written here: whatever goes into it leaves its secrets outside."""

from dataclasses import dataclass, replace
from typing import Any

from molecule_platform.domain import principals
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.events import Event
from molecule_platform.domain.log_limits import loggable
from molecule_platform.domain.workspaces import Workspace, check_choice, check_text
from molecule_platform.ports.activity import ActivityRow
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.events.event_feed import EventFeed
from molecule_platform.services.support import signals
from molecule_wire import ids, redaction

AGENT_TYPES = (
    "a2a_send",
    "a2a_receive",
    "task_update",
    "agent_log",
    "skill_promotion",
    "memory_write",
    "error",
)
BY_AGENT = "agent"
SHORT, LONG = 200, 4000
MAX_DURATION_MS = 2**53


def write(tx: Transaction, row: ActivityRow, summary_longest: int = SHORT) -> ActivityRow:
    """Keep a row, without secrets and within bounds."""
    kept = replace(
        row,
        summary=beginning(row.summary, summary_longest),
        error_detail=beginning(row.error_detail, LONG),
        request_body=loggable(row.request_body),
        response_body=loggable(row.response_body),
        tool_trace=loggable(row.tool_trace),
        metadata=loggable(row.metadata),
    )
    tx.activity.insert(kept)
    return kept


def beginning(said: str, longest: int = SHORT) -> str:
    """The first words as a log keeps them."""
    return redaction.redact_start(said, longest, redaction.LOG)


@dataclass(frozen=True)
class ActivityEntry:
    """What an agent says that it did."""

    activity_type: str
    method: str = ""
    summary: str = ""
    target_id: str = ""
    source_id: str = ""
    status: str = "ok"
    error_detail: str = ""
    duration_ms: int | None = None
    request_body: Any = None
    response_body: Any = None
    metadata: dict[str, Any] | None = None


class ActivityWriter:
    """Takes what agents log themselves: kept, shown live, and never taken for mail."""

    def __init__(self, storage: Storage, clock: Clock, feed: EventFeed) -> None:
        self._storage = storage
        self._clock = clock
        self._feed = feed

    async def log(self, workspace: Workspace, entry: ActivityEntry) -> str:
        """Keep an entry of a workspace; the id of its row."""
        _check(workspace, entry)

        def work(tx: Transaction) -> ActivityRow:
            tx.signal(signals.mail(workspace.id))
            return write(tx, self._row(tx, workspace, entry), LONG)

        row = await self._storage.write(work)
        await self._feed.show(_logged(row))
        return row.id

    def _row(self, tx: Transaction, workspace: Workspace, entry: ActivityEntry) -> ActivityRow:
        return ActivityRow(
            id=ids.uuid7(),
            org_id=workspace.org_id,
            seq=tx.activity.next_seq(),
            workspace_id=workspace.id,
            activity_type=entry.activity_type,
            caller=principals.workspace_principal(workspace.id),
            created_at=self._clock.now(),
            source_id=workspace.id,
            target_id=entry.target_id,
            method=entry.method,
            summary=entry.summary,
            status=entry.status,
            request_body=entry.request_body,
            response_body=entry.response_body,
            tool_trace=(entry.metadata or {}).get("tool_trace"),
            metadata=entry.metadata,
            error_detail=entry.error_detail,
            duration_ms=entry.duration_ms,
            origin=BY_AGENT,
        )


def _check(workspace: Workspace, entry: ActivityEntry) -> None:
    check_choice("activity_type", entry.activity_type, AGENT_TYPES)
    if entry.source_id and entry.source_id.lower() != workspace.id:
        raise ApiError("identity-mismatch", "source_id is another workspace: an agent logs its own activity")
    for field in ("method", "target_id", "status"):
        check_text(field, getattr(entry, field), SHORT)
    if entry.duration_ms is not None and not 0 <= entry.duration_ms <= MAX_DURATION_MS:
        detail = "duration_ms is a number of milliseconds, not negative"
        raise ApiError("invalid-request", detail, field="duration_ms", detail=detail)


def _logged(row: ActivityRow) -> Event:
    payload: dict[str, Any] = {
        "activity_type": row.activity_type,
        "method": row.method,
        "summary": row.summary,
        "status": row.status,
        "source_id": row.source_id,
        "target_id": row.target_id,
        "duration_ms": row.duration_ms,
    }
    if row.tool_trace is not None:
        payload["tool_trace"] = row.tool_trace
    parties = (row.workspace_id,)
    return Event("ACTIVITY_LOGGED", row.org_id, row.workspace_id, payload, row.created_at, parties=parties)
