"""What happened to one task, event by event; whoever follows it reads along from memory."""

import threading
import uuid
from datetime import UTC, datetime
from typing import NamedTuple, cast

from molecule_wire import JSON, JSONObject, times
from molecule_wire.a2a import tasks


class Owner(NamedTuple):
    """Whose task it is: for anybody else it does not exist."""

    principal: str = ""
    tenant: str = ""


class TaskLog:
    """The events of a task in the form of A2A 1.0, numbered from 1."""

    def __init__(self, task_id: str, context_id: str, owner: Owner, message: JSONObject) -> None:
        self.id = task_id
        self.context_id = context_id
        self.owner = owner
        self._changed = threading.Condition()
        self._events: list[JSONObject] = []
        self._whole: JSONObject = {}
        task: JSONObject = {
            "id": task_id,
            "contextId": context_id,
            "status": self._status("SUBMITTED"),
            "history": [{**message, "taskId": task_id, "contextId": context_id}],
        }
        self._add({"task": task})

    @property
    def whole(self) -> JSONObject:
        """The task as it stands."""
        return self._whole

    @property
    def number(self) -> int:
        """The number of its newest event."""
        return len(self._events)

    @property
    def is_over(self) -> bool:
        """Whether no event can follow."""
        return tasks.state_of(self._whole) in tasks.TERMINAL

    @property
    def status_at(self) -> str:
        """When its status last changed."""
        return str(cast(JSONObject, self._whole["status"])["timestamp"])

    def tell(self, state: str, parts: list[JSON] | None = None) -> None:
        """Add a status, with what the agent says; after the end nothing is added."""
        with self._changed:
            if self.is_over:
                return
            named: JSONObject = {"taskId": self.id, "contextId": self.context_id}
            self._add({"statusUpdate": {**named, "status": self._status(state, parts)}})
            self._changed.notify_all()

    def after(self, number: int, seconds: float) -> list[tuple[int, JSONObject]]:
        """The events after a number; waits for one, and is empty when none came in time."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._events) > number, seconds)
            return list(enumerate(self._events[number:], start=number + 1))

    def as_of(self, number: int) -> JSONObject:
        """The task as it stood after an event."""
        whole: JSONObject | None = None
        for event in self._events[:number]:
            whole = tasks.fold(whole, event)
        assert whole is not None
        return whole

    def _add(self, event: JSONObject) -> None:
        self._whole = tasks.fold(self._whole or None, event)
        self._events.append(event)

    def _status(self, state: str, parts: list[JSON] | None = None) -> JSONObject:
        status: JSONObject = {
            "state": f"TASK_STATE_{state}",
            "timestamp": times.format_time(datetime.now(UTC)),
        }
        if parts:
            status["message"] = {
                "messageId": str(uuid.uuid5(uuid.NAMESPACE_OID, self.id)),
                "role": "ROLE_AGENT",
                "parts": parts,
                "taskId": self.id,
                "contextId": self.context_id,
            }
        return status
