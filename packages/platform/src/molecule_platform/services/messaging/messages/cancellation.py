"""Calling work off: the outcome is terminal at once, and the agent is told to stop.

Whoever carries a message tells its agent when the message has ended otherwise; here it is told of a task that
waits for its next message, which nobody carries.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from molecule_platform.domain import dispatch, messages
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.message_access import may_see, message_not_found
from molecule_platform.domain.messages import Message
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.tasks import Task
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.agents import AgentClient, Delivery
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.messaging.messages import settlement
from molecule_platform.services.messaging.tasks import task_completion, task_log
from molecule_platform.services.support.outcome_waiters import OutcomeWaiters
from molecule_wire import JSONObject
from molecule_wire.a2a import errors

STOP_SECONDS = 15.0
MAX_REASON_LENGTH = 1000


class DeliveryAttempts(Protocol):
    """Delivery attempts of this replica."""

    def drop(self, message_id: str) -> None:
        """Stop delivering a message that has ended."""
        ...

    def note(self, message_id: str, params: JSONObject) -> None:
        """Keep the parameters of a cancel request for the agent."""
        ...


class CancelService:
    """Ends messages and tasks before their time."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        link: AgentClient,
        dispatcher: DeliveryAttempts,
        waiters: OutcomeWaiters,
        open_dispatch_secret: Callable[[Workspace], str | None],
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._link = link
        self._dispatcher = dispatcher
        self._waiters = waiters
        self._open_dispatch_secret = open_dispatch_secret
        self._telling: set[asyncio.Task[None]] = set()

    async def cancel_message(self, principal: Principal, message_id: str, reason: str | None) -> Message:
        """End an open message. Raises 404 for strangers, 409 when it has ended."""
        now = self._clock.now()

        def work(tx: Transaction) -> Message:
            before = tx.mailbox.get(message_id)
            if before is None or not may_see(principal, before):
                raise message_not_found(message_id)
            if not before.is_open:
                sentence = f"the message has ended: {before.status}"
                raise ApiError("not-cancelable", sentence, status=before.status)
            return mark_cancelled(tx, before, cancelled_by(principal, reason), now)

        ended = await self._storage.write(work)
        self._waiters.resolve(ended)
        self._dispatcher.drop(message_id)
        return ended

    async def cancel_task(self, principal: Principal, task: Task, said: JSONObject | None = None) -> None:
        """End a task that the principal may cancel, and tell its agent what was said. Raises -32002."""
        now = self._clock.now()
        sentence = cancelled_by(principal, None)

        def work(tx: Transaction) -> Message | None:
            current = tx.tasks.get(task.key)
            if current is None:
                raise errors.protocol_error(errors.TASK_NOT_FOUND)
            if current.is_over:
                raise errors.protocol_error(errors.TASK_NOT_CANCELABLE)
            message = tx.mailbox.get(current.message_id)
            if message is not None and message.is_open:
                mark_cancelled(tx, message, sentence, now)
                return None
            end_waiting(tx, current, sentence, now)
            return message

        if said is not None:
            self._dispatcher.note(task.message_id, said)
        message = await self._storage.write(work)
        self._dispatcher.drop(task.message_id)
        if message is not None:
            self._stop_agent(message, said)

    def _stop_agent(self, message: Message, said: JSONObject | None) -> None:
        """Tell the agent of a task that nobody carries, while the caller goes on."""
        telling = asyncio.get_running_loop().create_task(self._tell(message, said))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _tell(self, message: Message, said: JSONObject | None) -> None:
        task_id, target = await self._storage.read(lambda tx: _at_agent(tx, message))
        if task_id is None or target is None or not dispatch.is_dispatchable(target):
            return
        secret = self._open_dispatch_secret(target)
        await self._link.cancel(Delivery(target, message, secret, STOP_SECONDS), task_id, said)

    async def stop(self) -> None:
        """Let what is being told be told."""
        await asyncio.gather(*self._telling, return_exceptions=True)


def _at_agent(tx: Transaction, message: Message) -> tuple[str | None, Workspace | None]:
    current = tx.mailbox.get(message.id) or message
    task = task_log.task_of(tx, current)
    task_id = (task.agent_task_id if task is not None else None) or current.agent_task_id
    return task_id, tx.workspaces.get(message.target_id)


def mark_cancelled(tx: Transaction, message: Message, sentence: str, now: datetime) -> Message:
    """An open message with its end."""
    tx.mailbox.ask_to_stop(message.id)
    ended = settlement.settle(tx, message.id, messages.cancellation("cancelled", sentence), now)
    return ended or message


def end_waiting(tx: Transaction, task: Task, sentence: str, now: datetime) -> None:
    """End a task that waits for its next message."""
    said = {"messageId": f"{task.id}-canceled", "role": "ROLE_AGENT", "parts": [{"text": sentence}]}
    event = task_log.status_event(task, "canceled", now, task.message_id, said, {"code": "cancelled"})
    task_completion.whole(tx, task_log.append(tx, task.key, None, [event], now))


def cancelled_by(principal: Principal, reason: str | None) -> str:
    """The sentence that says who called it off, and why."""
    because = f": {reason[:MAX_REASON_LENGTH]}" if reason else ""
    return f"cancelled by {principal.text}{because}"
