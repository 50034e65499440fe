"""Tasks that the platform keeps: what a sender asks about a message it sent."""

from typing import Any

from molecule_platform.domain import results
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.storage import Storage
from molecule_platform.services.delivery import may_see
from molecule_wire.a2a import errors
from molecule_wire.a2a.envelopes import Request


class Tasks:
    """Reads tasks from the mailbox."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def get(self, principal: Principal, workspace: Workspace, request: Request) -> dict[str, Any]:
        """The task as it stands, in the dialect of the request; for strangers it does not exist."""
        task_id = request.task_id or ""
        message = await self._storage.read(lambda tx: tx.mailbox.by_task(workspace.id, task_id))
        if message is None or not may_see(principal, message):
            raise errors.protocol_error(errors.TASK_NOT_FOUND)
        return results.snapshot(message, request.dialect)
