"""The client through which every call of the runtime to its platform goes.

`molecule_runtime.platform_client` is this module. Requests, replies and the retry rule are those of
`molecule_wire.calls`, which the agent SDK uses too.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

import molecule_runtime
from molecule_runtime.domain.heartbeats import HeartbeatReport
from molecule_runtime.kit.turns import turn_context
from molecule_runtime.links import tokens
from molecule_runtime.links.http_client import HttpClient, Timeouts
from molecule_runtime.links.inbox_calls import InboxCalls
from molecule_runtime.links.time_source import SYSTEM_TIME, TimeSource
from molecule_wire import JSON, JSONObject, caller_keys, ids
from molecule_wire.calls import (
    HeartbeatAnswer,
    Registration,
    Reply,
    Request,
    RetryPolicy,
    WorkspaceState,
    a2a,
    activity,
    delegations,
    failures,
    platform,
    registry,
    retry,
    workspaces,
)
from molecule_wire.calls.registry import DeliveryMode

USER_AGENT = f"molecule-ai-workspace-runtime/{molecule_runtime.__version__}"
CALL_TIMEOUTS = Timeouts(connect=5.0, read=30.0)
MESSAGE_TIMEOUTS = Timeouts(connect=30.0, read=300.0)
HEARTBEAT_TIMEOUTS = Timeouts(connect=5.0, read=5.0)
KEY_TIMEOUTS = Timeouts(connect=2.0, read=caller_keys.FETCH_TIMEOUT_SECONDS - 2.0)
AUTH_LOG_SECONDS = 60.0

_RETRY = RetryPolicy(max_retries=2, statuses=RetryPolicy.resilient().statuses, connection_errors=True)

T = TypeVar("T")

log = logging.getLogger("molecule_runtime")


class PlatformClient(InboxCalls):
    """Calls of one workspace to its platform; implements `ports.platform.Platform`. One event loop only.

    A call raises `molecule_wire.calls.CallFailed` when the platform refuses it, OSError (TimeoutError among
    them) when it cannot be reached. Nothing is sent before the first call.
    """

    def __init__(
        self,
        platform_url: str,
        workspace_id: str,
        *,
        org_id: str = "",
        traceparent: Callable[[], str] = lambda: "",
        time_source: TimeSource = SYSTEM_TIME,
    ) -> None:
        self.workspace_id = workspace_id
        self._http = HttpClient(platform_url)
        self._org_id = org_id
        self._traceparent = traceparent
        self._time = time_source
        self._auth_lost = False
        self._auth_logged_at: float | None = None

    @property
    def platform_url(self) -> str:
        """Where the platform is, without a slash at the end."""
        return self._http.base_url

    @property
    def has_token(self) -> bool:
        """Whether the workspace has a token to show."""
        return tokens.get_token() is not None

    @property
    def auth_lost(self) -> bool:
        """Whether the platform takes no token that this workspace has; an accepted call ends it."""
        return self._auth_lost

    async def close(self) -> None:
        """Give all connections up. The next call opens new ones."""
        await self._http.close()

    # Sending

    async def perform(
        self, request: Request, read: Callable[[Reply], T], timeouts: Timeouts | None = None
    ) -> T:
        """Send one call with the workspace's credentials and read its answer."""
        used = tokens.get_token()
        reply = await self._repeated(request, used, timeouts)
        if reply.status == 401 and (newer := tokens.replacement_for(used)):
            reply = await self._repeated(request, newer, timeouts)
        if used is not None:
            self._note_auth(reply)
        return read(reply)

    async def _repeated(self, request: Request, token: str | None, timeouts: Timeouts | None) -> Reply:
        waits = timeouts or CALL_TIMEOUTS._replace(read=max(CALL_TIMEOUTS.read, request.timeout))
        repeat = 1
        while True:
            reply = None
            try:
                reply = await self._http.send(request, self._headers(request, token), waits)
            except OSError:
                if not retry.may_repeat(_RETRY, request, repeat, None):
                    raise
            else:
                if not retry.may_repeat(_RETRY, request, repeat, reply.status):
                    return reply
            await self._time.sleep(self._wait_before(repeat, reply))
            repeat += 1

    def _wait_before(self, repeat: int, reply: Reply | None) -> float:
        retry_after, date = (reply.header("Retry-After"), reply.header("Date")) if reply else ("", "")
        now, chance = self._time.time(), self._time.chance()
        return retry.wait_before(_RETRY, repeat, retry_after, date, now=now, chance=chance)

    def _headers(self, request: Request, token: str | None) -> dict[str, str]:
        headers = {
            "User-Agent": USER_AGENT,
            "X-Workspace-ID": self.workspace_id,
            "X-Molecule-Org-Id": self._org_id,
            "traceparent": self._traceparent(),
            "Authorization": f"Bearer {token}" if token else "",
        }
        return {name: value for name, value in headers.items() if value} | dict(request.headers)

    def _note_auth(self, reply: Reply) -> None:
        if reply.ok:
            self._auth_lost, self._auth_logged_at = False, None
        elif reply.status == 401:
            self._auth_lost = True
            now = self._time.monotonic()
            if self._auth_logged_at is None or now - self._auth_logged_at >= AUTH_LOG_SECONDS:
                self._auth_logged_at = now
                log.error(
                    "the platform refuses the token of workspace %s (%s); ask an administrator for a new one"
                    " and write it to %s",
                    self.workspace_id,
                    failures.failure(reply),
                    tokens.configs_dir() / tokens.TOKEN_NAME,
                )

    # Registry

    async def register(
        self,
        url: str,
        agent_card: JSONObject,
        *,
        delivery_mode: DeliveryMode | None = None,
        dispatch_secret: str = "",
        replaces_worker: str = "",
        recovery_secret: str = "",
    ) -> Registration:
        """Announce the agent, once. With a recovery secret that is the proof, and no token is shown."""
        request = registry.register(
            self.workspace_id,
            url,
            agent_card,
            delivery_mode=delivery_mode,
            dispatch_secret=dispatch_secret,
            replaces_worker=replaces_worker,
            recovery_secret=recovery_secret,
        )
        if recovery_secret:
            return registry.read_registration(await self._repeated(request, None, None))
        return await self.perform(request, registry.read_registration)

    async def update_card(self, agent_card: JSONObject) -> None:
        """Replace the agent's card."""
        await self.perform(registry.update_card(self.workspace_id, agent_card), workspaces.read_nothing)

    async def heartbeat(self, report: HeartbeatReport) -> HeartbeatAnswer:
        """Send a heartbeat, once, and wait ten seconds at most."""
        request = report.request(self.workspace_id)
        return await self.perform(request, registry.read_heartbeat, HEARTBEAT_TIMEOUTS)

    async def jwks(self) -> JSON:
        """The document of the keys with which the platform signs; no credentials are sent for it."""
        request, most = Request("GET", caller_keys.KEYS_PATH), caller_keys.MAX_DOCUMENT_BYTES
        reply = await self._http.send(request, {"User-Agent": USER_AGENT}, KEY_TIMEOUTS, most)
        failures.check(reply)
        return reply.body

    async def server_time(self) -> float | None:
        """What the platform's clock says, to the second, if it does; no credentials are sent."""
        reply = await self._http.send(platform.health(), {"User-Agent": USER_AGENT}, KEY_TIMEOUTS)
        return platform.read_time(reply)

    async def peers(self, query: str = "") -> list[JSONObject]:
        """The workspaces that this one may talk to."""
        return await self.perform(registry.peers(self.workspace_id, query), registry.read_peer_rows)

    async def discover(self, target_id: str) -> str | None:
        """The URL under which a peer is called, or `None`."""
        return await self.perform(registry.discover(self.workspace_id, target_id), registry.read_discovery)

    # This workspace

    async def workspace_info(self) -> JSONObject:
        """This workspace's own row."""
        return await self.perform(workspaces.show(self.workspace_id), workspaces.read_object)

    async def state(self) -> WorkspaceState:
        """Whether the workspace is paused or removed."""
        return await self.perform(
            workspaces.state(self.workspace_id),
            lambda reply: workspaces.read_state(reply, self.workspace_id),
        )

    async def secrets(self) -> dict[str, str]:
        """The secret values of this workspace."""
        return await self.perform(workspaces.secrets(self.workspace_id), workspaces.read_secrets)

    async def shared_context(self, parent_id: str) -> list[JSONObject]:
        """What the parent shares with its children: `{path, content}` each."""
        return await self.perform(workspaces.shared_context(parent_id), workspaces.read_shared_context)

    async def instructions(self) -> str:
        """The platform's instructions for this workspace, as text."""
        return await self.perform(workspaces.instructions(self.workspace_id), workspaces.read_instructions)

    # Messages and delegations

    async def send_message(
        self,
        target_id: str,
        text: str,
        *,
        message_id: str = "",
        context_id: str | None = None,
        metadata: JSONObject | None = None,
        wait: bool = True,
    ) -> JSONObject:
        """Send a text to a peer, or to oneself; the JSON-RPC answer as it stands.

        The same message id and text again are the same message. Without `wait` the platform takes the message
        and answers at once.
        """
        message_id = message_id or ids.uuid7()
        if parent := turn_context.get_message_id():
            metadata = {"parent_message_id": parent, **(metadata or {})}
        request = a2a.send(
            self.workspace_id,
            target_id,
            text,
            rpc_id=message_id,
            message_id=message_id,
            context_id=context_id,
            metadata=metadata,
        )
        if not wait:
            request = request._replace(headers={**request.headers, "Prefer": "respond-async"})
        return await self.perform(request, a2a.read_envelope, MESSAGE_TIMEOUTS)

    async def delegate(
        self, target_id: str, task: str, idempotency_key: str, *, parent_delegation_id: str = ""
    ) -> JSONObject:
        """Delegate a task; the platform's answer with `delegation_id`.

        The parent is the delegation in which the agent works; it must be named where several turns run.
        """
        request = delegations.delegate(
            self.workspace_id,
            target_id,
            task,
            idempotency_key=idempotency_key,
            parent_delegation_id=parent_delegation_id,
            parent_message_id=turn_context.get_message_id(),
        )
        return await self.perform(request, workspaces.read_object)

    async def delegations(self) -> list[JSONObject]:
        """The newest delegations that this workspace gave."""
        return (await self.perform(delegations.list_page(self.workspace_id), delegations.read_page)).rows

    async def delegation(self, delegation_id: str) -> JSONObject:
        """One delegation."""
        return await self.perform(delegations.show(self.workspace_id, delegation_id), workspaces.read_object)

    # People

    async def notify(self, message: str, attachments: list[JSON] | None = None, type: str = "") -> None:
        """Tell the user something."""
        files = [file for file in attachments or [] if isinstance(file, dict)]
        request = activity.notify(self.workspace_id, message, attachments=files, type=type)
        await self.perform(request, workspaces.read_nothing)

    async def log_activity(self, activity_type: str, summary: str, **fields: JSON) -> None:
        """Write a row of the activity log; fields that are empty are not sent."""
        request = activity.log(self.workspace_id, activity_type, summary=summary)
        parameters = {name: value for name, value in fields.items() if value not in (None, "")}
        await self.perform(
            request._replace(json={**(request.json or {}), **parameters}), workspaces.read_nothing
        )
