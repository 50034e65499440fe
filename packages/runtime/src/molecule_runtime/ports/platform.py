"""The platform as the kit sees it."""

from typing import Protocol

from molecule_wire import JSON, JSONObject


class Platform(Protocol):
    """Calls of one workspace to its platform.

    Each is authenticated, and raises `molecule_wire.calls.CallFailed` when the platform refuses it, or
    OSError (TimeoutError among them) when it cannot be reached.
    """

    workspace_id: str

    @property
    def has_token(self) -> bool:
        """Whether the workspace can prove who it is."""
        ...

    async def peers(self) -> list[JSONObject]:
        """The workspaces that this one may talk to, as rows of `GET /registry/{id}/peers`."""
        ...

    async def workspace_info(self) -> JSONObject:
        """This workspace's own row."""
        ...

    async def shared_context(self, parent_id: str) -> list[JSONObject]:
        """What the parent shares with its children: `{path, content}` each."""
        ...

    async def instructions(self) -> str:
        """The platform's instructions for this workspace, as text."""
        ...

    async def delegate(self, target_id: str, task: str, idempotency_key: str) -> JSONObject:
        """Delegate a task; the platform's answer with `delegation_id`."""
        ...

    async def delegations(self) -> list[JSONObject]:
        """The newest delegations of this workspace."""
        ...

    async def delegation(self, delegation_id: str) -> JSONObject:
        """One delegation."""
        ...

    async def notify(self, message: str, attachments: list[JSON] | None = None, type: str = "") -> None:
        """Tell the user something."""
        ...

    async def log_activity(self, activity_type: str, summary: str, **fields: JSON) -> None:
        """Write a row of the activity log."""
        ...
