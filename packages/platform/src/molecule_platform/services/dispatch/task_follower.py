"""Following tasks that nobody carries any more: their message is answered, but the agent may go on.

A task that waits for its caller may be continued by the agent itself. It is asked now and then until the task
is over, so that whoever watches it learns how it ended; one that nobody continues is given up in the end.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from molecule_platform.domain import dispatch, task_ids, tasks
from molecule_platform.domain.messages import Message
from molecule_platform.domain.tasks import Task
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.agents import AgentClient, AgentEvent, Delivery
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.dispatch.task_recorder import modern_task
from molecule_platform.services.messaging.messages import cancellation
from molecule_platform.services.messaging.tasks import task_log
from molecule_platform.services.messaging.tasks.task_log import LeaseLost
from molecule_platform.services.support.periodic_tasks import PeriodicTasks
from molecule_wire import jsontext
from molecule_wire.a2a import differences
from molecule_wire.a2a.tasks import EventRefused

AT_ONCE = 32
LOOK_SECONDS = 5.0
READER = "follower"


class TaskFollower:
    """The periodic part of tasks; one replica does it."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        link: AgentClient,
        abandoned_after: timedelta,
        open_dispatch_secret: Callable[[Workspace], str | None],
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._link = link
        self._abandoned_after = abandoned_after
        self._open_dispatch_secret = open_dispatch_secret

    def add_to(self, loops: PeriodicTasks) -> None:
        """Put it among the loops of the house."""
        loops.add("task-follower", 1.0, self.look, exclusive=True)
        loops.add("abandoned-tasks", 60.0, self.give_up, exclusive=True)

    async def give_up(self) -> None:
        """End the tasks whose caller never came back."""
        now = self._clock.now()

        def work(tx: Transaction) -> None:
            for task in tx.tasks.abandoned(now - self._abandoned_after, AT_ONCE):
                hours = self._abandoned_after.total_seconds() / 3600
                sentence = f"nobody continued the task for {hours:g} hours"
                cancellation.end_waiting(tx, task, sentence, now)

        if await self._storage.read(lambda tx: tx.tasks.abandoned(now - self._abandoned_after, 1)):
            await self._storage.write(work)

    async def look(self) -> None:
        """Ask the agents of the tasks that are due."""
        now = self._clock.now()
        due = await self._storage.read(lambda tx: [(t, *_who(tx, t)) for t in tx.tasks.due(now, AT_ONCE)])
        await asyncio.gather(*(self._ask(task, target, message) for task, target, message in due))

    async def _ask(self, task: Task, target: Workspace | None, message: Message | None) -> None:
        said = None
        if message is not None and target is not None and dispatch.is_dispatchable(target):
            asked = Delivery(target, message, self._open_dispatch_secret(target), LOOK_SECONDS)
            said = await self._link.look(asked, task.agent_task_id or task.id)
        now = self._clock.now()
        await self._storage.write(
            lambda tx: _apply(tx, task, said if isinstance(said, AgentEvent) else None, now)
        )


def _who(tx: Transaction, task: Task) -> tuple[Workspace | None, Message | None]:
    return tx.workspaces.get(task.workspace_id), tx.mailbox.get(task.message_id)


def _apply(tx: Transaction, task: Task, said: AgentEvent | None, now: datetime) -> None:
    """Write what is new, unless somebody else has begun to read the task."""
    current = tx.tasks.get(task.key)
    if current is None or current.look_at is None or current.is_over or current.reader != task.reader:
        return
    # What was said meanwhile is newer than the answer.
    is_news = said is not None and current.last_seq == task.last_seq
    changes = _news(tx, current, said) if said is not None and is_news else []
    if changes:
        try:
            current = task_log.append(tx, task.key, current.reader, changes, now)
        except LeaseLost:
            return
        # Whoever still hears the agent would tell the same again.
        tx.tasks.change(task.key, reader=READER)
    if current.is_over:
        whole = jsontext.encode(task_log.folded(tx, current))
        tx.tasks.change(task.key, snapshot=whole, snapshot_seq=current.last_seq, look_at=None)
        return
    looks = 0 if changes else current.looks + 1
    later = now + timedelta(seconds=tasks.look_delay(looks))
    tx.tasks.change(task.key, look_at=later, looks=looks)


def _news(tx: Transaction, task: Task, said: AgentEvent) -> list[tasks.TaskEvent]:
    snapshot = task_ids.under(task, modern_task(said))
    known = task_log.folded(tx, task)
    try:
        found = differences.difference(known, snapshot)
    except EventRefused:
        return []
    return [task_log.event_from(dict(event), task.message_id) for event in found]
