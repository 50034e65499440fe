"""The activity log: what a workspace did and received, and the original way of polling for mail."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, cast

from molecule_platform.domain import inbox, messages, responses
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.inbox import Sender
from molecule_platform.domain.log_limits import loggable
from molecule_platform.domain.messages import Message, MessageOutcome
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.activity import ActivityFilter, ActivityRow
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.messaging.messages import settlement
from molecule_platform.services.messaging.tasks import platform_tasks
from molecule_platform.services.support import signals
from molecule_platform.services.support.signals import Signals
from molecule_wire import times


@dataclass(frozen=True)
class PollResult:
    """One look into the log. `own` is the workspace reading itself, which counts as receiving."""

    workspace: Workspace
    wanted: ActivityFilter
    base_url: str
    own: bool
    since_id: str | None = None
    since_secs: int | None = None
    original_client: bool = False

    @property
    def receives(self) -> bool:
        """Whether this is an agent fetching its mail."""
        return self.is_mail and self.workspace.delivery_mode == "poll"

    @property
    def is_mail(self) -> bool:
        """Whether an agent looks at what it received; what it logged itself is nothing received."""
        return self.own and self.wanted.activity_type == "a2a_receive"


class ActivityPolling:
    """Lists activity; a row handed to its own agent counts as delivered to it."""

    def __init__(self, storage: Storage, signals: Signals, clock: Clock) -> None:
        self._storage = storage
        self._signals = signals
        self._clock = clock

    async def read(self, reading: PollResult, wait_seconds: float) -> list[dict[str, Any]]:
        """The rows asked for; with a wait, as soon as there is one."""

        async def look() -> list[dict[str, Any]] | None:
            return await self._read(reading) or None

        if wait_seconds <= 0:
            return await self._read(reading)
        return await self._signals.wait_for(signals.mail(reading.workspace.id), look, wait_seconds) or []

    async def _read(self, reading: PollResult) -> list[dict[str, Any]]:
        rows, changes = await self._storage.read(lambda tx: self._look(tx, reading))
        if not changes:
            return rows
        return await self._storage.write(lambda tx: self._receive(tx, reading))

    def _look(self, tx: Transaction, reading: PollResult) -> tuple[list[dict[str, Any]], bool]:
        """The rows, and whether handing them out changes anything: an empty poll writes nothing."""
        found = self._found(tx, reading)
        if not reading.receives:
            return self._shown(tx, reading, found), False
        new = any(row.message is not None and row.message.status == "accepted" for row in found)
        return self._shown(tx, reading, found), new or bool(self._passed(tx, reading))

    def _found(self, tx: Transaction, reading: PollResult) -> list[ActivityRow]:
        wanted = replace(reading.wanted, is_mail=reading.is_mail)
        if reading.since_secs is not None:
            wanted = replace(wanted, since=self._clock.now() - timedelta(seconds=reading.since_secs))
        if reading.since_id is not None:
            seq = tx.activity.seq_of(reading.workspace.id, reading.since_id)
            if seq is None:
                raise _cursor_lost(tx, reading.workspace)
            wanted = replace(wanted, after_seq=seq, oldest_first=True)
        elif reading.receives:
            wanted = replace(wanted, oldest_first=True, only_open=True)
        return tx.activity.rows(reading.workspace.id, wanted)

    def _receive(self, tx: Transaction, reading: PollResult) -> list[dict[str, Any]]:
        now = self._clock.now()
        for message_id in self._passed(tx, reading):
            self._pass_cursor(tx, message_id)
        workspace = tx.workspaces.get(reading.workspace.id)
        if workspace is None or workspace.status == "paused":
            return []
        found = self._found(tx, reading)
        for row in found:
            if row.message is not None and row.message.status == "accepted":
                _take(tx, row.message, now)
        return self._shown(tx, reading, found)

    def _passed(self, tx: Transaction, reading: PollResult) -> list[str]:
        """Messages in the agent's hands that its cursor has passed since it last asked."""
        if reading.since_id is None:
            return []
        reached = tx.activity.seq_of(reading.workspace.id, reading.since_id) or 0
        waiting = tx.mailbox.waiting(reading.workspace.id)
        return [m.id for m in waiting if m.seq <= reached and m.status == "leased" and m.seen_at is None]

    def _pass_cursor(self, tx: Transaction, message_id: str) -> None:
        """A message that the cursor passed was seen; a reply is thereby done."""
        now = self._clock.now()
        tx.mailbox.seen(message_id, now)
        message = tx.mailbox.get(message_id)
        if message is not None and message.kind == "reply":
            settlement.settle(tx, message_id, MessageOutcome("answered", task_state="completed"), now)

    def _shown(self, tx: Transaction, reading: PollResult, found: list[ActivityRow]) -> list[dict[str, Any]]:
        peers = peers_of(tx, [row.caller for row in found])
        return [
            wire_row(row, peers.get(row.caller), reading.base_url, reading.original_client) for row in found
        ]


def _take(tx: Transaction, message: Message, now: datetime) -> None:
    """Hand a message to its agent until the deadline."""
    deadline = messages.running_deadline(message, now)
    taken = tx.mailbox.lease(message.id, kind="cursor", at=now, deadline_at=deadline)
    if taken is not None:
        platform_tasks.work_began(tx, taken, now)
        settlement.moved(tx, taken, now)


def _cursor_lost(tx: Transaction, workspace: Workspace) -> ApiError:
    oldest = tx.activity.rows(workspace.id, ActivityFilter(oldest_first=True, limit=1))
    return ApiError(
        "cursor-lost",
        "this cursor is unknown or pruned: read again without one",
        oldest_id=oldest[0].id if oldest else None,
    )


def peers_of(tx: Transaction, callers: list[str]) -> dict[str, Sender]:
    """What receivers are told of the workspaces among some callers."""
    found: dict[str, Sender] = {}
    for caller in set(callers):
        workspace = tx.workspaces.get(inbox.peer_of(caller)) if inbox.peer_of(caller) else None
        if workspace is not None:
            found[caller] = Sender(workspace.name, workspace.role)
    return found


def wire_row(
    row: ActivityRow, peer: Sender | None, base_url: str, original_client: bool, said: str | None = None
) -> dict[str, Any]:
    """An activity row with the members of both generations of clients.

    Who has read the words of its message already spares us reading them again.
    """
    at = times.format_time(row.created_at)
    shown: dict[str, Any] = {
        "id": row.id,
        "type": row.activity_type,
        "activity_type": row.activity_type,
        "workspace_id": row.workspace_id,
        "source_id": row.source_id,
        "target_id": row.target_id,
        "method": row.method,
        "summary": row.summary,
        "duration_ms": row.duration_ms,
        "status": row.status,
        "error_detail": row.error_detail,
        "ts": at,
        "created_at": at,
        "caller": row.caller,
        "message_id": row.message_id,
        "request_body": row.request_body,
        "response_body": row.response_body,
        "tool_trace": row.tool_trace,
        "metadata": row.metadata,
        "data": {},
    }
    if row.message is not None:
        shown |= {
            "kind": row.message.kind,
            "data": inbox.activity_data(
                row.message,
                inbox.read_stored(row.message).text if said is None else said,
                row.id,
                peer,
                base_url,
                original_client,
            ),
            **_answer(row.message),
        }
    return shown


def _answer(message: Message) -> dict[str, Any]:
    """What the log shows of an answer; the message itself keeps all of it."""
    body = responses.body(message) or {}
    result = _object(body.get("result"))
    answered = _object(result.get("task") or result.get("message") or result)
    trace = _object(answered.get("metadata")).get("tool_trace")
    return {"response_body": loggable(body or None), "tool_trace": loggable(trace)}


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
