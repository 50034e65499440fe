"""A platform in memory: it answers from its fields and remembers what it was told."""

import asyncio
from dataclasses import dataclass, field

from molecule_wire import JSON, JSONObject
from molecule_wire.calls.values import CallFailed


@dataclass
class MemoryPlatform:
    """Implements the port `Platform`. `failure` is raised by every call; `delay` seconds pass before each."""

    workspace_id: str = "ws-self"
    peer_rows: list[JSONObject] = field(default_factory=list[JSONObject])
    shared: dict[str, list[JSONObject]] = field(default_factory=dict[str, list[JSONObject]])
    instruction_text: str = ""
    delegation_rows: dict[str, JSONObject] = field(default_factory=dict[str, JSONObject])
    notifications: list[str] = field(default_factory=list[str])
    activity: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    keys: list[str] = field(default_factory=list[str])
    has_token: bool = True
    failure: Exception | None = None
    delay: float = 0.0

    async def peers(self) -> list[JSONObject]:
        """The rows in `peer_rows`."""
        await self._answer()
        return self.peer_rows

    async def workspace_info(self) -> JSONObject:
        """A row with the id."""
        await self._answer()
        return {"id": self.workspace_id, "name": "Self"}

    async def shared_context(self, parent_id: str) -> list[JSONObject]:
        """What `shared` holds for the parent."""
        await self._answer()
        return self.shared.get(parent_id, [])

    async def instructions(self) -> str:
        """The text in `instruction_text`."""
        await self._answer()
        return self.instruction_text

    async def delegate(self, target_id: str, task: str, idempotency_key: str) -> JSONObject:
        """Record a delegation; it stays dispatched until a test changes its row."""
        await self._answer()
        delegation_id = f"d-{len(self.delegation_rows) + 1}"
        self.keys.append(idempotency_key)
        self.delegation_rows[delegation_id] = {
            "delegation_id": delegation_id,
            "target_id": target_id,
            "task": task,
            "status": "dispatched",
        }
        return {"delegation_id": delegation_id, "status": "delegated", "target_id": target_id}

    async def delegations(self) -> list[JSONObject]:
        """All delegations, newest first."""
        await self._answer()
        return list(reversed(self.delegation_rows.values()))

    async def delegation(self, delegation_id: str) -> JSONObject:
        """One delegation, or 404."""
        await self._answer()
        if delegation_id not in self.delegation_rows:
            raise CallFailed(404, "delegation-not-found", "there is no such delegation")
        return self.delegation_rows[delegation_id]

    async def notify(self, message: str, attachments: list[JSON] | None = None, type: str = "") -> None:
        """Remember the message."""
        await self._answer()
        self.notifications.append(message)

    async def log_activity(self, activity_type: str, summary: str, **fields: JSON) -> None:
        """Remember the row."""
        await self._answer()
        self.activity.append((activity_type, summary))

    async def _answer(self) -> None:
        await asyncio.sleep(self.delay)
        if self.failure is not None:
            raise self.failure
