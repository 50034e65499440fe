"""Calls of the durable inbox, for a workspace that polls."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from molecule_runtime.links.http_client import Timeouts
from molecule_wire import JSON, JSONObject
from molecule_wire.calls import Reply, Request, inbox, workspaces

T = TypeVar("T")


class InboxCalls(ABC):
    """The part of the platform client that leases messages and settles them.

    None is repeated by the client: whoever holds a lease knows how long to go on. A lease that is lost is a
    `CallFailed` with the code `lease-lost`.
    """

    workspace_id: str

    @abstractmethod
    async def perform(
        self, request: Request, read: Callable[[Reply], T], timeouts: Timeouts | None = None
    ) -> T:
        """Send one call with the workspace's credentials and read its answer."""

    async def lease(
        self, *, worker: str, limit: int = 1, wait: float = 30.0, lease: float = 120.0
    ) -> inbox.Leased:
        """Claim messages for `lease` seconds, waiting up to `wait` for the first."""
        request = inbox.lease(self.workspace_id, limit=limit, wait=wait, lease=lease, worker=worker)
        return await self.perform(request, inbox.read_leased)

    async def extend(self, message_id: str, lease_token: str, seconds: float) -> inbox.Extended:
        """Keep a lease for `seconds` from now; tells also whether the sender wants the work stopped."""
        request = inbox.extend(self.workspace_id, message_id, lease_token=lease_token, seconds=seconds)
        return await self.perform(request, inbox.read_extended)

    async def progress(
        self,
        message_id: str,
        lease_token: str,
        *,
        text: str | None = None,
        state: str | None = None,
        artifact: JSONObject | None = None,
        number: int | None = None,
    ) -> bool:
        """Report how far the work is; true when the sender wants it stopped."""
        request = inbox.progress(
            self.workspace_id,
            message_id,
            lease_token=lease_token,
            text=text,
            state=state,
            artifact=artifact,
            number=number,
        )
        return await self.perform(request, inbox.read_progress)

    async def answer(
        self,
        message_id: str,
        lease_token: str,
        *,
        text: str | None = None,
        parts: list[JSON] | None = None,
        message: JSONObject | None = None,
        state: str | None = None,
    ) -> None:
        """Settle a message with an answer; `state="input-required"` leaves its task open."""
        request = inbox.answer(
            self.workspace_id,
            message_id,
            text=text,
            parts=parts,
            message=message,
            lease_token=lease_token,
            state=state,
        )
        await self.perform(request, workspaces.read_nothing)

    async def fail(
        self,
        message_id: str,
        lease_token: str,
        *,
        error: str,
        retryable: bool,
        delay_seconds: float | None = None,
    ) -> None:
        """Give a message back as failed; `retryable` lets the platform offer it again."""
        request = inbox.fail(
            self.workspace_id,
            message_id,
            error=error,
            retryable=retryable,
            lease_token=lease_token,
            delay_seconds=delay_seconds,
        )
        await self.perform(request, workspaces.read_nothing)

    async def release(self, message_id: str, lease_token: str) -> None:
        """Give a message back unstarted."""
        request = inbox.release(self.workspace_id, message_id, lease_token=lease_token)
        await self.perform(request, workspaces.read_nothing)
