"""The platform's calls as methods; how they are sent is the client's business."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from molecule_agent import clocks, errors, handlers, peers
from molecule_wire import JSONObject
from molecule_wire.calls import (
    InboundMessage,
    PeerInfo,
    Reply,
    Request,
    WorkspaceState,
    activity,
    delegations,
    inbox,
    registry,
    replies,
    workspaces,
)
from molecule_wire.errors import TABLE

STRAY_404_LIMIT = 3
"""So many 404s in a row that do not come from the platform's own code mean that the workspace is gone."""

T = TypeVar("T")


class PlatformCalls(ABC):
    """Everything an agent can ask of the platform, over one way of sending."""

    workspace_id: str
    agent_card: JSONObject
    url_cache_ttl: float
    _url_cache: dict[str, tuple[str, float]]
    _known_peers: tuple[list[PeerInfo], float]
    _peer_parents: dict[str, str]
    _lock: threading.RLock
    _clock: clocks.Clock
    _born: float
    _stray_404s: int = 0

    @abstractmethod
    def _perform(self, request: Request, read: Callable[[Reply], T]) -> T:
        """Send a request with the workspace's credentials, again by the retry rule, and read its answer."""

    @abstractmethod
    def _persist_token_again(self) -> None:
        """Write the token to disk if it has vanished from there."""

    @abstractmethod
    def _idempotency_key(self, task: str) -> str:
        """The key of a delegation for which the caller gives none."""

    @abstractmethod
    def proxy_url(self, target_id: str) -> str:
        """The URL at which the platform takes messages for a workspace."""

    @abstractmethod
    def _post_message(self, url: str, request: Request) -> JSONObject:
        """Send an A2A message to a URL, with credentials only if it is the platform's."""

    def pull_secrets(self) -> dict[str, str]:
        """The secrets of this workspace, name to value."""
        return self._perform(workspaces.secrets(self.workspace_id), workspaces.read_secrets)

    def poll_state(self) -> WorkspaceState:
        """What the operator wants of this workspace: run, pause, or be gone."""
        request = workspaces.state(self.workspace_id)
        try:
            state = self._perform(request, lambda reply: workspaces.read_state(reply, self.workspace_id))
        except errors.NotFoundError as error:
            return self._removed_after_repeats(error)
        self._stray_404s = 0
        return state

    def heartbeat(
        self,
        current_task: str = "",
        active_tasks: int = 0,
        error_rate: float = 0.0,
        sample_error: str = "",
        *,
        runtime_metadata: JSONObject | None = None,
    ) -> None:
        """Say that the agent lives and what it is doing."""
        request = registry.heartbeat(
            self.workspace_id,
            current_task=current_task,
            active_tasks=active_tasks,
            error_rate=error_rate,
            sample_error=sample_error,
            uptime_seconds=int(self._clock.monotonic() - self._born),
            runtime_metadata=runtime_metadata,
        )
        self._perform(request, workspaces.read_nothing)
        self._persist_token_again()

    def whoami(self) -> JSONObject:
        """This workspace as the platform sees it."""
        return self._perform(workspaces.show(self.workspace_id), workspaces.read_object)

    def update_card(self, card: JSONObject) -> None:
        """Replace the agent's card."""
        self._perform(registry.update_card(self.workspace_id, card), workspaces.read_nothing)
        self.agent_card = card

    def notify(self, text: str, attachments: list[JSONObject] | None = None) -> None:
        """Tell the people of the organisation something."""
        request = activity.notify(self.workspace_id, text, attachments=attachments)
        self._perform(request, workspaces.read_nothing)

    def get_peers(self, query: str | None = None) -> list[PeerInfo]:
        """The workspaces this one may call; `query` narrows by name, role or skill."""
        rows: list[JSONObject] = []

        def read(reply: Reply) -> list[PeerInfo]:
            rows.extend(registry.read_peer_rows(reply))
            return registry.read_peers(reply)

        found = self._perform(registry.peers(self.workspace_id, query), read)
        peers.remember(self, found, rows, is_all=not query)
        return found

    def discover_peer(self, target_id: str) -> str | None:
        """Where a peer can be called, or `None` when it cannot."""
        return peers.by_any_name(self, target_id, lambda peer: peers.discover(self, peer))

    def invalidate_peer_url(self, target_id: str) -> None:
        """Forget what was discovered about a peer."""
        with self._lock:
            self._url_cache.pop(target_id, None)

    def call_peer(
        self,
        target_id: str,
        message: str,
        prefer_direct: bool = True,
        *,
        timeout: float = 30.0,
        context_id: str | None = None,
        message_id: str | None = None,
        metadata: JSONObject | None = None,
    ) -> JSONObject:
        """Send a peer a text; returns the JSON-RPC answer as it stands, which may be a task still open."""

        def call(peer: str) -> JSONObject:
            request = peers.message_to(
                self.workspace_id,
                peer,
                message,
                timeout=timeout,
                context_id=context_id,
                message_id=message_id,
                metadata=metadata,
            )
            return peers.deliver(self, peer, request, prefer_direct=prefer_direct)

        return peers.by_any_name(self, target_id, call)

    def ask_peer(self, target_id: str, message: str, *, timeout: float = 300.0) -> str:
        """Send a peer a text and wait for the text of its answer."""
        return peers.by_any_name(self, target_id, lambda peer: peers.ask(self, peer, message, timeout))

    def ask(self, peer: str, text: str, context: str | None = None, *, timeout: float = 300.0) -> str:
        """Ask a peer, by its id, name or path, and wait for the text of its answer.

        The same `context`, any text of your choice or `message.context_id`, goes on with the same
        conversation.
        """
        return peers.ask(self, peers.resolve(self, peer), text, timeout, context)

    def delegate(
        self, task: str, target_id: str, idempotency_key: str | None = None, timeout: float = 300.0
    ) -> JSONObject:
        """Ask a peer for a piece of work; `get_delegation` tells how it ended.

        The same key and task again are the same delegation; without a key that holds within one minute.
        """
        key = idempotency_key or self._idempotency_key(task)

        def call(peer: str) -> JSONObject:
            request = delegations.delegate(
                self.workspace_id,
                peer,
                task,
                idempotency_key=key,
                parent_message_id=handlers.message_in_hand.get(),
                timeout=timeout,
            )
            return self._perform(request, workspaces.read_object)

        return peers.by_any_name(self, target_id, call)

    def get_delegation(self, delegation_id: str) -> JSONObject:
        """One delegation of this workspace, with its outcome once it has one."""
        return self._perform(delegations.show(self.workspace_id, delegation_id), workspaces.read_object)

    def fetch_inbound(
        self,
        since_id: str | None = None,
        limit: int = 100,
        type: str = "a2a_receive",
        peer_id: str | None = None,
        before_ts: str | None = None,
        *,
        wait: float = 0.0,
    ) -> list[InboundMessage]:
        """Rows of the own activity log after a cursor, oldest first."""
        request = activity.fetch(
            self.workspace_id,
            since_id=since_id,
            limit=limit,
            type=type,
            peer_id=peer_id,
            before_ts=before_ts,
            wait=wait,
        )
        return self._perform(request, activity.read_rows)

    def reply(self, message: InboundMessage, text: str) -> None:
        """Answer a message, by the way it came."""
        ids = {"rpc_id": peers.fresh_id(), "message_id": peers.fresh_id()}
        self._perform(replies.reply(self.workspace_id, message, text, **ids), workspaces.read_nothing)

    def progress(
        self,
        message: InboundMessage,
        text: str | None = None,
        *,
        state: str | None = None,
        artifact: JSONObject | None = None,
    ) -> None:
        """Tell the sender of a leased message how far the work is.

        Sets `message.cancelled` when the sender no longer wants it.
        """
        if message.lease is None:
            raise ValueError("progress needs a message with a lease, as InboxDelivery gives them")
        with message.lease.reports.next() as number:
            request = inbox.progress(
                self.workspace_id,
                message.message_id,
                lease_token=message.lease.token,
                text=text,
                state=state,
                artifact=artifact,
                number=number,
            )
            is_cancelled = self._perform(request, inbox.read_progress)
        if is_cancelled:
            message.cancelled.set()

    def _removed_after_repeats(self, error: errors.NotFoundError) -> WorkspaceState:
        # A wrong org header or a misrouting proxy also answers 404; neither may end the agent.
        self._stray_404s = 0 if error.code in TABLE else self._stray_404s + 1
        if self._stray_404s < STRAY_404_LIMIT:
            raise error
        return workspaces.removed(self.workspace_id)
