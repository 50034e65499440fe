"""`RemoteAgentClient`: a Python program, anywhere, as a workspace of a Molecule organisation."""

import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import requests

from molecule_agent import clocks, credentials, errors, handlers, open_clients, registration, responses
from molecule_agent import session as sessions
from molecule_agent.session_calls import GET_MAX_RETRIES, SessionCalls
from molecule_wire import JSONObject
from molecule_wire.calls import PeerInfo, RetryPolicy, WorkspaceState, a2a, delegations
from molecule_wire.calls import retry as retries

if TYPE_CHECKING:
    from molecule_agent import connections, loops
    from molecule_agent.a2a_server import A2AServer
    from molecule_agent.inbound import InboundDelivery
    from molecule_agent.plugin_policy import PluginPolicy
    from molecule_agent.plugins.management import InstalledPlugin
    from molecule_plugin.digest import compute_plugin_sha256, verify_plugin_sha256

DEFAULT_HEARTBEAT_INTERVAL = 30.0
DEFAULT_STATE_POLL_INTERVAL = 30.0
DEFAULT_URL_CACHE_TTL = 300.0
DEFAULT_GET_MAX_RETRIES = GET_MAX_RETRIES

T = TypeVar("T")

_WORKSPACE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})

log = logging.getLogger(__name__)

__all__ = [
    "DEFAULT_GET_MAX_RETRIES",
    "DEFAULT_HEARTBEAT_INTERVAL",
    "DEFAULT_STATE_POLL_INTERVAL",
    "DEFAULT_URL_CACHE_TTL",
    "PeerInfo",
    "RemoteAgentClient",
    "WorkspaceState",
    "compute_plugin_sha256",
    "make_idempotency_key",
    "strip_a2a_boundary",
    "verify_plugin_sha256",
]


_OF_PLUGINS = {
    "_safe_extract_tar": ("molecule_plugin.archive", "_safe_extract_tar"),
    "_walk_files": ("molecule_plugin.digest", "walk_files"),
    "_sha256_file": ("molecule_plugin.digest", "sha256_file"),
    "compute_plugin_sha256": ("molecule_plugin.digest", "compute_plugin_sha256"),
    "verify_plugin_sha256": ("molecule_plugin.digest", "verify_plugin_sha256"),
}
"""Names that programs of the first generation import from here; only they load the plugin SDK."""


def __getattr__(name: str) -> object:
    if name not in _OF_PLUGINS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _OF_PLUGINS[name]
    return getattr(import_module(module), attribute)


class _ModuleClock:
    """The module `time`, looked up at each call so that a program's patches of it take effect."""

    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float, /) -> None:
        time.sleep(seconds)


class RemoteAgentClient(credentials.Credentials, SessionCalls):
    """One workspace's connection to the platform; every method may be called from any thread.

    `reported_url` is where the platform can reach the agent; without one the agent fetches its messages.
    """

    def __init__(
        self,
        workspace_id: str,
        platform_url: str,
        agent_card: JSONObject | None = None,
        reported_url: str = "",
        token_dir: str | Path | None = None,
        heartbeat_interval: float = DEFAULT_HEARTBEAT_INTERVAL,
        state_poll_interval: float = DEFAULT_STATE_POLL_INTERVAL,
        url_cache_ttl: float = DEFAULT_URL_CACHE_TTL,
        session: responses.SessionLike | None = None,
        org_id: str = "",
        origin: str | None = "",
        *,
        enrolment_token: str | None = None,
        retry: RetryPolicy | None = None,
        plugin_policy: "PluginPolicy | None" = None,
        clock: clocks.Clock | None = None,
    ) -> None:
        self.workspace_id = _checked_id(workspace_id)
        self.platform_url = _checked_url(platform_url)
        self.agent_card = agent_card or {"name": f"remote-agent-{workspace_id[:8]}"}
        self.reported_url = reported_url
        self.heartbeat_interval = heartbeat_interval
        self.state_poll_interval = state_poll_interval
        self.url_cache_ttl = url_cache_ttl
        self.org_id = org_id
        self.origin = _origin(self.platform_url) if origin == "" else origin
        super().__init__(Path(token_dir or Path.home() / ".molecule" / workspace_id))
        self._session: responses.SessionLike = sessions.new_session() if session is None else session
        self._retry = retry or RetryPolicy()
        self._plugin_policy = plugin_policy
        self._installed_plugins, self._told_plugin_updates = set[str](), set[str]()
        self._clock = clock or _ModuleClock()
        self._url_cache = {}
        self._known_peers = ([], 0.0)
        self._peer_parents = {}
        self._dispatch_secret = self._announced_secret = ""
        self._reauthenticator = registration.Reauthenticator(
            self, enrolment_token or os.environ.get("MOLECULE_ENROLMENT_TOKEN")
        )
        self._stopping = threading.Event()
        self._running = threading.Lock()
        self._async_runner = handlers.LoopThread()
        self._heartbeat_if_due: Callable[[], None] | None = None
        self._contact: loops.ReachabilityLog | None = None
        self._born = self._clock.monotonic()
        open_clients.CLIENTS[self.workspace_id] = self

    @classmethod
    def from_connection(
        cls, source: "connections.Source | None" = None, **options: Any
    ) -> "RemoteAgentClient":
        """The client of a connection: a file, JSON text or a mapping as `POST /workspaces` answers.

        Without one it is what `MOLECULE_CONNECTION` names. Its token is used unless one is kept already;
        `options` are those of the constructor.
        """
        from molecule_agent import connections

        found = connections.read(source)
        if found.name:
            options.setdefault("agent_card", {"name": found.name})
        options.setdefault("org_id", found.org_id)
        client = cls(found.workspace_id, found.platform_url, **options)
        if found.auth_token and not client.load_token():
            client.save_token(found.auth_token)
        return client

    def __repr__(self) -> str:
        return f"RemoteAgentClient(workspace_id={self.workspace_id!r}, platform_url={self.platform_url!r})"

    def __enter__(self) -> "RemoteAgentClient":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what the client opened itself: its session and the event loop of async handlers."""
        if open_clients.CLIENTS.get(self.workspace_id) is self:
            del open_clients.CLIENTS[self.workspace_id]
        self._async_runner.close()
        self._worker_file.close()
        if isinstance(self._session, sessions.PlatformSession):
            self._session.close()

    @property
    def plugins_dir(self) -> Path:
        """Where plugins are installed."""
        return self._store.directory / "plugins"

    def proxy_url(self, target_id: str) -> str:
        """The URL at which the platform takes messages for a workspace."""
        return self.platform_url + a2a.proxy_path(target_id)

    def register(self) -> str:
        """Announce the agent to the platform; returns its token, or `""` when it got none."""
        return registration.register(self)

    def reenrol(self, token: str | None = None) -> str:
        """Get a new token now: by the enrolment token given, else by whatever proof is at hand."""
        return self._reauthenticator.reenrol(token)

    def start_a2a_server(
        self,
        handler: handlers.MessageHandler,
        *,
        public_url: str = "",
        host: str = "0.0.0.0",
        port: int = 0,
        **options: Any,
    ) -> "A2AServer":
        """Serve messages at an own URL, which the next `register()` tells the platform.

        `options` are those of `A2AServer`.
        """
        from molecule_agent import a2a_server

        return a2a_server.start_for(self, handler, public_url=public_url, host=host, port=port, **options)

    def install_plugin(
        self,
        name: str,
        source: str | None = None,
        run_setup_sh: bool = True,
        report_to_platform: bool = True,
        *,
        sha256: str | None = None,
        upgrade: bool = False,
        frozen: bool = False,
        allow_signer_change: bool = False,
        setup_env: Mapping[str, str] | Collection[str] | None = None,
    ) -> Path:
        """Install a plugin through the platform and return its directory.

        It is verified before it replaces a version that is there. `sha256` is a digest that you have from
        elsewhere; `upgrade` lets it differ from `plugins.lock`, `frozen` installs only what is locked. When
        the program starts, a local plugin that has changed stays as it is pinned, with a warning.
        `setup_env` names the variables that `setup.sh` may see, among those that the plugin asks for.
        """
        from molecule_agent.plugins import install

        request = install.PluginInstallRequest(
            name=name,
            source=source,
            run_setup=run_setup_sh,
            sha256=sha256,
            upgrade=upgrade,
            frozen=frozen,
            allow_signer_change=allow_signer_change,
            setup_env=setup_env or (),
            at_start=name not in self._installed_plugins,
        )
        return install.install(self, request, report=report_to_platform)

    def uninstall_plugin(self, name: str) -> bool:
        """Remove a plugin, except files that were edited or added; false when it was not installed."""
        from molecule_agent.plugins import management

        return management.uninstall(self, name)

    def list_plugins(self) -> "list[InstalledPlugin]":
        """The plugins in this agent's directory."""
        from molecule_agent.plugins import management

        return management.list_plugins(self)

    def verify_plugins(self) -> dict[str, list[str]]:
        """Each installed plugin with what is wrong with it; an empty list is good."""
        from molecule_agent.plugins import management

        return management.verify_plugins(self)

    def run_heartbeat_loop(
        self,
        max_iterations: int | None = None,
        task_supplier: "loops.TaskSupplier | None" = None,
        stop_event: threading.Event | None = None,
    ) -> str:
        """Heartbeat until the workspace is paused or removed; returns why it ended."""
        from molecule_agent import loops

        return loops.Loop(self, task_supplier, stop_event=stop_event).run(max_iterations)

    def run_agent_loop(
        self,
        handler: handlers.MessageHandler,
        delivery: "InboundDelivery | None" = None,
        max_iterations: int | None = None,
        task_supplier: "loops.TaskSupplier | None" = None,
        stop_event: threading.Event | None = None,
    ) -> str:
        """Heartbeat and handle messages until the workspace is paused or removed; returns why it ended.

        New programs call `run`, or pass `InboxDelivery(client)`; without a delivery it is
        `PollDelivery(client)`.
        """
        from molecule_agent import inbound, loops

        chosen = inbound.PollDelivery(self) if delivery is None else delivery
        return loops.Loop(self, task_supplier, handler, chosen, stop_event=stop_event).run(max_iterations)

    def run(
        self,
        handler: handlers.MessageHandler,
        *,
        delivery: "InboundDelivery | None" = None,
        stop_event: threading.Event | None = None,
    ) -> str:
        """Register, and answer messages with the handler until the workspace is paused or removed.

        Returns why it ended. Ctrl-C ends it as `"stopped"`; a platform that goes away and comes back is told
        on standard error, in a line each.
        """
        from molecule_agent import inbox, loops

        if not self._running.acquire(blocking=False):
            raise RuntimeError(f"{self!r} runs already: stop() ends it, another program needs its own client")
        try:
            self.register()
            loops.say(f"connected as {self.agent_card.get('name')}, waiting")
            chosen = inbox.InboxDelivery(self) if delivery is None else delivery
            contact = loops.ReachabilityLog(self.platform_url, loops.say)
            loop = loops.Loop(self, None, handler, chosen, stop_event=stop_event, contact=contact)
            return loop.run()
        except KeyboardInterrupt:
            return "stopped"
        finally:
            self._running.release()

    def stop(self) -> None:
        """End a running loop at its next tick; safe in any thread and in a signal handler."""
        self._stopping.set()

    @property
    def stopping(self) -> bool:
        """Whether `stop()` was called and no loop has ended since."""
        return self._stopping.is_set()

    def _auth_headers(self) -> dict[str, str]:
        token = self.load_token()
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _tenant_headers(self) -> dict[str, str]:
        headers = {"X-Molecule-Org-Id": self.org_id, "Origin": self.origin}
        return {name: value for name, value in headers.items() if value}

    def _request_headers(self, **extra: str) -> dict[str, str]:
        return self._auth_headers() | self._tenant_headers() | extra

    def _idempotency_key(self, task: str) -> str:
        if not isinstance(self._clock, _ModuleClock):
            return delegations.minute_key(task, self._clock.time())
        return make_idempotency_key(task)  # looked up at each call: programs patch it

    def _wait_before(self, repeat: int, refused: requests.Response | None) -> float:
        names = ("Retry-After", "Date")
        retry_after, date = ("" if refused is None else responses.header(refused, name) for name in names)
        chance = random.random()  # noqa: S311 - it spreads retries, no secret
        return retries.wait_before(
            self._retry, repeat, retry_after, date, now=self._clock.time(), chance=chance
        )


def make_idempotency_key(task_text: str) -> str:
    """A key that is the same for the same text within one minute."""
    return delegations.minute_key(task_text, time.time())


def strip_a2a_boundary(text: T) -> T | str:
    """The text of a peer's answer without the marks that older platforms put around it."""
    if not isinstance(text, str):
        return text
    opening, closing = "[A2A_RESULT_FROM_PEER]", "[/A2A_RESULT_FROM_PEER]"
    before, opened, rest = text.partition(opening)
    inside, closed, after = rest.rpartition(closing)
    if not (opened and closed):
        return text
    return before + inside.removeprefix("\n").removesuffix("\n") + after


def _checked_id(workspace_id: str) -> str:
    if not _WORKSPACE_ID.fullmatch(workspace_id):
        raise errors.ConfigurationError(
            f"{workspace_id!r} is not a workspace id: letters, digits, '.', '_' and '-', at most 128,"
            " the first a letter or digit"
        )
    return workspace_id


def _checked_url(platform_url: str) -> str:
    parts = urlsplit(platform_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise errors.ConfigurationError(
            f"{platform_url!r} is not a platform URL: write it like https://molecule.example.org"
        )
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK_HOSTS:
        log.warning("%s is not encrypted: the token can be read on the way; use https", parts.hostname)
    return platform_url.rstrip("/")


def _origin(platform_url: str) -> str:
    parts = urlsplit(platform_url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
