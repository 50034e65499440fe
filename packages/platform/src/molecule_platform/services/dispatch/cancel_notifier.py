"""Telling agents with a URL that nobody waits for their work any more.

A message that is called off has its outcome at once; its agent learns it by the name of its task. An agent
that has named none, because its answer is still awaited, is listened to for a while longer: the first word
that names a task which is not over has that task cancelled, and nothing that is said is kept. Meanwhile it is
told by a name that it may know already: the task that the message goes on with or, if it says that it speaks
A2A, the id of the message, which came with it and names the task until the agent does. Then we hang up.

This is telling and nothing else, and lives in memory: a replica that dies or stops in between leaves an agent
that works for nobody, never a message without its outcome. What a caller says beside the name of the task is
told by the replica that it spoke to; another, which learns of the end alone, tells the name.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from molecule_platform.domain import dispatch, tasks
from molecule_platform.domain.messages import Message
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.agents import AgentClient, Completed, Delivery, DeliveryFailed
from molecule_platform.ports.log import Log
from molecule_platform.ports.storage import Storage, StorageDown, Transaction
from molecule_platform.services.dispatch.task_recorder import TaskRecorder
from molecule_platform.services.messaging.tasks import task_log
from molecule_wire import JSONObject

STOP_SECONDS = 15.0
LISTEN_SECONDS = 60.0
# Each holds a connection. Whoever would be one more is hung up on at once.
MAX_LISTENERS = 1000

Attempt = tuple[str, int]
"""A message, and the epoch of the lease under which it was handed over."""


@dataclass(frozen=True)
class PendingCancel:
    """Who carried a message that has ended, and waits for the first word of its agent."""

    task: asyncio.Task[None]
    hangs_up: asyncio.TimerHandle


class CancelNotifier:
    """One per replica. Whoever carried a message that ended otherwise stays on as its listener."""

    def __init__(
        self,
        storage: Storage,
        log: Log,
        link: AgentClient,
        open_dispatch_secret: Callable[[Workspace], str | None],
        listen_seconds: float = LISTEN_SECONDS,
        most_listeners: int = MAX_LISTENERS,
    ) -> None:
        self.listen_seconds = listen_seconds
        self._storage = storage
        self._log = log
        self._link = link
        self._open_dispatch_secret = open_dispatch_secret
        self._most_listeners = most_listeners
        self._awaited: dict[Attempt, tuple[Message, Workspace]] = {}
        self._listeners: dict[Attempt, PendingCancel] = {}
        self._said: dict[str, JSONObject] = {}
        self._aside: set[asyncio.Task[None]] = set()
        self._stopping = False

    def watch(self, message: Message, workspace: Workspace) -> None:
        """The agent is given the message, and has named no task."""
        self._awaited[message.id, message.lease_epoch] = (message, workspace)

    def note(self, message_id: str, said: JSONObject) -> None:
        """What whoever calls a message off has to say to its agent, kept for as long as it may be told."""
        self._said[message_id] = said
        until = self.listen_seconds + STOP_SECONDS
        asyncio.get_running_loop().call_later(until, self._said.pop, message_id, None)

    def unwatch(self, message: Message) -> None:
        """The agent has spoken: nobody has to listen for its first word."""
        attempt = (message.id, message.lease_epoch)
        self._awaited.pop(attempt, None)
        if attempt in self._listeners:
            self._listeners[attempt].hangs_up.cancel()

    def takes_over(self, attempt: Attempt, task: asyncio.Task[None]) -> bool:
        """Make a listener of the task that carries a message which has ended; not if the agent has spoken."""
        awaited = self._awaited.get(attempt)
        if awaited is None or self._stopping or len(self._listeners) >= self._most_listeners:
            return False
        hangs_up = asyncio.get_running_loop().call_later(self.listen_seconds, task.cancel)
        self._listeners[attempt] = PendingCancel(task, hangs_up)
        task.add_done_callback(lambda _: self._leave(attempt))
        self.aside(self.stop_agent(*awaited))
        return True

    def _leave(self, attempt: Attempt) -> None:
        self._listeners.pop(attempt).hangs_up.cancel()

    def is_cancelled(self, message: Message) -> bool:
        """Whether the message has ended, and is carried no more."""
        return (message.id, message.lease_epoch) in self._listeners

    def notify_later(
        self, heard: TaskRecorder, workspace: Workspace, reply: Completed | DeliveryFailed
    ) -> None:
        """The last word of an agent came too late: a task that it names is not to go on."""
        task_id, is_over = heard.task_id, heard.is_over
        if isinstance(reply, Completed):
            task_id, is_over = reply.agent_task_id or task_id, reply.task_state in tasks.TERMINAL
        if task_id is not None and not is_over:
            self.aside(self.stop_agent(heard.message, workspace, task_id))

    async def stop_agent(self, message: Message, workspace: Workspace, task_id: str | None = None) -> None:
        """Have the agent's task cancelled, by its name or by another that it may know."""
        if self._stopping:
            return
        try:
            ended, name = await self._storage.read(lambda tx: _state_of(tx, message, workspace))
        except StorageDown:
            return
        if ended and (task_id or name):
            secret = self._open_dispatch_secret(workspace)
            stop = Delivery(workspace, message, secret, STOP_SECONDS)
            await self._link.cancel(stop, task_id or name, self._said.get(message.id))

    def aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something while others go on; nothing more once we stop."""
        if self._stopping:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._aside.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._aside.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._log.error("an agent could not be told to stop", exc_info=problem)

    async def stop(self) -> None:
        """Hang up on every agent, told or not."""
        self._stopping = True
        running = [*self._aside, *(listener.task for listener in self._listeners.values())]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _state_of(tx: Transaction, message: Message, workspace: Workspace) -> tuple[bool, str]:
    """Whether nobody waits for the work on a message, and by which name its agent may know that work."""
    current = tx.mailbox.get(message.id)
    # It may be offered again; or the agent has answered another way, and knows that it is done.
    wanted = current is not None and (current.is_open or current.status == "answered")
    task = task_log.task_of(tx, message)
    known = task.agent_task_id if task is not None and message.task_id != message.id else None
    return not wanted, known or (message.id if _takes_cancels(workspace) else "")


def _takes_cancels(workspace: Workspace) -> bool:
    """Whether the agent surely takes a cancel for one. The original push server, older than A2A 1.0, takes
    whatever it gets for a message; and so does many a plain web hook.
    """
    if dispatch.is_legacy(workspace.url):
        return any(version.startswith("1.") for version in workspace.spoken)
    return bool(workspace.spoken)
