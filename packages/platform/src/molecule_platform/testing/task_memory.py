"""The tasks of the scripted agent: each an event log that any number of readers follow."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from molecule_platform.testing import behaviours
from molecule_wire import JSON, JSONObject, ids
from molecule_wire.a2a import errors, tasks
from molecule_wire.a2a.envelopes import A2ARequest

MAX_TASKS = 10_000


@dataclass
class ScriptedTask:
    """One task: its events in order, what they fold into, and whoever works on it."""

    id: str
    context_id: str
    events: list[JSONObject] = field(default_factory=list[JSONObject])
    folded: JSONObject | None = None
    at_work: "asyncio.Task[None] | None" = None
    _bell: asyncio.Event = field(default_factory=asyncio.Event)

    def append(self, event: JSONObject) -> None:
        """Write an event down and wake the readers."""
        self.folded = tasks.fold(self.folded, event)
        self.events.append(event)
        self.ring()

    def cancel(self) -> None:
        """End it, whoever works on it."""
        if self.at_work is not None:
            self.at_work.cancel()
        status: JSONObject = {"state": tasks.TaskState.CANCELED.value, "timestamp": behaviours.now()}
        ended: JSONObject = {"taskId": self.id, "contextId": self.context_id, "status": status}
        self.append({"statusUpdate": ended})

    def ring(self) -> None:
        """Wake the readers."""
        bell, self._bell = self._bell, asyncio.Event()
        bell.set()

    @property
    def rests(self) -> bool:
        """Whether nobody works on it: it is terminal, interrupted, or a bare message."""
        return self.at_work is None or self.at_work.done()

    @property
    def is_terminal(self) -> bool:
        """Whether no event may follow."""
        return self.folded is not None and (
            "status" not in self.folded or tasks.state_of(self.folded) in tasks.TERMINAL
        )

    async def follow(self, after: int = 0) -> AsyncIterator[tuple[int, JSONObject]]:
        """The events behind number `after`, as they come, until nobody works on the task."""
        while True:
            bell, rests = self._bell, self.rests
            while after < len(self.events):
                after += 1
                yield after, self.events[after - 1]
            if rests:
                return
            await bell.wait()

    async def settled(self) -> None:
        """Wait until nobody works on it."""
        while not self.rests:
            await self._bell.wait()


class TaskMemory:
    """Every task by its id; the oldest go when there are too many."""

    def __init__(self) -> None:
        self._tasks: dict[str, ScriptedTask] = {}

    def get(self, task_id: str | None) -> ScriptedTask:
        """The task, else the protocol's error."""
        found = self._tasks.get(task_id or "")
        if found is None:
            raise errors.protocol_error(errors.TASK_NOT_FOUND, "Task not found")
        return found

    def for_message(self, request: A2ARequest) -> ScriptedTask:
        """The task that a message continues, or a new one."""
        if request.task_id is None:
            made = ScriptedTask(ids.uuid7(), request.context_id or ids.uuid7())
            self._tasks[made.id] = made
            if len(self._tasks) > MAX_TASKS:
                del self._tasks[next(iter(self._tasks))]
            return made
        known = self.get(request.task_id)
        if request.context_id not in (None, known.context_id):
            wrong = errors.Violation("message.contextId", "is not the context of the task")
            raise errors.invalid_params(wrong)
        if known.is_terminal or not known.rests:
            raise errors.protocol_error(errors.UNSUPPORTED_OPERATION, "The task takes no message now")
        return known

    def page(self, context_id: str | None) -> list[ScriptedTask]:
        """The newest tasks first, all or those of a context."""
        newest = list(self._tasks.values())[::-1]
        return [task for task in newest if context_id in (None, task.context_id)]


def begin(task: ScriptedTask, turn: behaviours.Turn, script: behaviours.Script) -> None:
    """Play the script into the task, in the background."""
    task.at_work = asyncio.create_task(_work(task, turn, script))
    task.at_work.add_done_callback(lambda _: task.ring())


async def _work(task: ScriptedTask, turn: behaviours.Turn, script: behaviours.Script) -> None:
    """Whatever a script says, but for a bare message, stands behind the Task with the message in it."""
    began = False
    try:
        async for event in script(turn):
            if not began and "message" not in event:
                task.append(_with_message(task, turn))
            began = True
            task.append(event)
    except tasks.EventRefused:
        return  # it was cancelled under the script


def _with_message(task: ScriptedTask, turn: behaviours.Turn) -> JSONObject:
    submitted = turn.status(tasks.TaskState.SUBMITTED)["statusUpdate"]
    assert isinstance(submitted, dict)
    said: JSONObject = {**turn.message, "taskId": task.id, "contextId": task.context_id}
    earlier = (task.folded or {}).get("history")
    history: list[JSON] = [*earlier, said] if isinstance(earlier, list) else [said]
    whole: JSONObject = {"id": task.id, "contextId": task.context_id, "status": submitted["status"]}
    return {"task": {**whole, "history": history}}
