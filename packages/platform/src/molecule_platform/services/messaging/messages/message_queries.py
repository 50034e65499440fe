"""Messages as their parties and operators look at them afterwards: lists, conversations, another try."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from molecule_platform.domain import conversations, cursors, message_access, results
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.messages import Message
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.mailbox import MailFilter
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.messaging.inbox import inbox_leases
from molecule_platform.services.messaging.messages import wakeups
from molecule_platform.services.messaging.messages.message_service import MessageService
from molecule_platform.services.messaging.tasks import task_log
from molecule_platform.services.support import signals
from molecule_wire import ids, redaction


class MessageQueries:
    """Looks back at messages, and lets dead letters begin anew."""

    def __init__(self, storage: Storage, clock: Clock, deliveries: MessageService) -> None:
        self._storage = storage
        self._clock = clock
        self._deliveries = deliveries

    async def page(
        self, wanted: MailFilter, limit: int, cursor: str | None
    ) -> tuple[list[dict[str, Any]], str | None]:
        """A workspace's messages, the newest first, and where the next page begins."""
        place = wanted if cursor is None else replace(wanted, before_seq=_place(cursor))

        def work(tx: Transaction) -> tuple[list[dict[str, Any]], str | None]:
            found, more = tx.mailbox.page(place, limit)
            modes = {target: _mode(tx, target) for target in {message.target_id for message in found}}
            rows = [results.message_row(message, modes[message.target_id]) for message in found]
            return rows, cursors.written(str(found[-1].seq)) if more else None

        return await self._storage.read(work)

    async def history(self, principal: Principal, message: Message) -> list[dict[str, Any]]:
        """What was said before a message in its conversation. Only the two sides see secrets in it."""

        def work(tx: Transaction) -> list[dict[str, Any]]:
            most = conversations.MAX_ITEMS, conversations.MAX_STORED_BYTES
            return conversations.history(
                message, tx.mailbox.conversation(message, conversations.KINDS, *most)
            )

        found = await self._storage.read(work)
        is_side = principal.text == message.caller or principal.workspace_id == message.target_id
        return found if is_side else redaction.redact_json(found, redaction.LOG)

    async def redeliver(self, workspace: Workspace, name: str) -> Message:
        """Give a dead letter all its attempts again, and as long to wait as it had at first."""
        now = self._clock.now()
        return await self._storage.write(lambda tx: self._redeliver(tx, workspace, name, now))

    def _redeliver(self, tx: Transaction, workspace: Workspace, name: str, now: datetime) -> Message:
        dead = inbox_leases.addressed(tx, workspace, name)
        _check_dead(dead)
        maximum = self._deliveries.limits.capacity.max_open
        if tx.mailbox.open_count(workspace.id) >= maximum:
            raise message_access.mailbox_full(workspace, "mailbox", maximum)
        # A task that has failed stays so: whoever knows it keeps its end, and the new cycle has its own.
        task_id = dead.task_id if task_log.task_of(tx, dead) is None else ids.uuid7()
        until = now + (dead.waits_until - dead.created_at)
        again = tx.mailbox.redeliver(dead.id, now, until, task_id)
        if again is None:
            raise _not_dead(dead)
        wakeups.wake_target(tx, workspace, now)
        for subject in (signals.mail(workspace.id), signals.EVENTS):
            tx.signal(subject)
        return again


def _check_dead(message: Message) -> None:
    if not message.dead_letter:
        raise _not_dead(message)
    if message.delegation_id is not None:
        sentence = "this message carried a delegation, which has ended with it: delegate the task again"
        raise ApiError("conflict", sentence)


def _not_dead(message: Message) -> ApiError:
    sentence = f"only a dead letter is delivered again: this message is {message.status}"
    return ApiError("conflict", sentence)


def _mode(tx: Transaction, workspace_id: str) -> str:
    workspace = tx.workspaces.get(workspace_id)
    return "" if workspace is None else workspace.delivery_mode


def _place(cursor: str) -> int:
    [seq] = cursors.read(cursor, 1)
    if not (seq.isascii() and seq.isdigit() and len(seq) <= 18):
        raise cursors.unknown()
    return int(seq)
