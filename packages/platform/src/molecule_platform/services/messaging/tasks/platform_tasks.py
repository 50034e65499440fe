"""Tasks that the platform keeps for agents which poll, sleep, or have not spoken yet.

The task of a message is named by the message. Once a sender was told that name it stays, even when the agent
later makes a task of its own: that one's id is linked, and its events are told under the first.
"""

from datetime import datetime
from typing import Any

from molecule_platform.domain import inbox
from molecule_platform.domain.messages import Message
from molecule_platform.domain.tasks import Task
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.messaging.tasks import task_log
from molecule_platform.services.messaging.webhooks import outbox
from molecule_wire.a2a import convert, tasks


def begin(tx: Transaction, message: Message, now: datetime) -> Task:
    """Show a message as a task of the platform's own: a new one, or one more message of one that waits."""
    known = task_log.task_of(tx, message)
    if known is None:
        return _first(tx, message, now)
    if known.message_id == message.id:
        return known
    if known.is_agents:
        # The agent tells how its task goes on; until it does nobody else asks it.
        tx.tasks.change(known.key, message_id=message.id, look_at=None)
        return known
    again = tasks.continued(task_log.folded(tx, known), _said(message), task_log.status_of("submitted", now))
    tx.tasks.change(known.key, message_id=message.id, look_at=None)
    event = task_log.event_of("task", again, message.id, "submitted")
    return task_log.append(tx, known.key, None, [event], now)


def _first(tx: Transaction, message: Message, now: datetime) -> Task:
    task = Task(
        workspace_id=message.target_id,
        tenant=message.tenant,
        id=message.task_id,
        org_id=message.org_id,
        owner=message.caller,
        context_id=message.context_id,
        message_id=message.id,
        state="submitted",
        status_at=now,
        created_at=now,
        watchers=outbox.watchers(tx, task_log.key_of(message)),
    )
    tx.tasks.insert(task)
    if message.task_state is None:
        tx.mailbox.show_task(message.id)
    shown = tasks.begun(task.id, task.context_id, _said(message), task_log.status_of("submitted", now))
    began = task_log.append(
        tx, task.key, None, [task_log.event_of("task", shown, message.id, "submitted")], now
    )
    return began if message.status == "accepted" else work_began(tx, message, now) or began


def work_began(tx: Transaction, message: Message, now: datetime) -> Task | None:
    """The agent took the message: the platform's task is being worked on. Said once."""
    task = task_log.task_of(tx, message)
    if task is None or task.is_agents or task.state != "submitted":
        return task
    working = task_log.status_event(task, "working", now, message.id)
    return task_log.append(tx, task.key, None, [working], now)


def _said(message: Message) -> dict[str, Any]:
    said = inbox.a2a_message_of(message)
    return said if message.dialect == "1.0" else convert.FROM_0_3.message(said)
