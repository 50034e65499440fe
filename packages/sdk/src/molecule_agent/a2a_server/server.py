"""`A2AServer`: an agent's own HTTP server, to which the platform delivers."""

import os
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import urlsplit

from molecule_agent import handlers, open_clients, session
from molecule_agent.a2a_server import admission, app, callers, http_messages, http_server, payloads, runs
from molecule_agent.streamed_text import TextStream
from molecule_wire import JSONObject
from molecule_wire.a2a.server.card import complete_card
from molecule_wire.calls import inbound, values

if TYPE_CHECKING:
    from molecule_agent.client import RemoteAgentClient

PayloadHandler: TypeAlias = Callable[[payloads.Payload], Any]

_WILDCARDS = frozenset({"0.0.0.0", "::", ""})
_deadline: ContextVar[str] = ContextVar("molecule_deadline", default="")


class A2AServer:
    """Serves messages over HTTP: A2A in both dialects, and the plain form of earlier clients.

    The handler gets one dictionary and returns text, a JSON value, or `None`; it may be a coroutine function.
    """

    def __init__(
        self,
        agent_id: str,
        inbound_url: str,
        message_handler: PayloadHandler,
        host: str = "0.0.0.0",
        port: int = 0,
        *,
        agent_card: JSONObject | None = None,
        client: "RemoteAgentClient | None" = None,
        platform_url: str | None = None,
        verify_callers: admission.VerifyCallers = "auto",
        dispatch_secret: str | None = None,
        max_body_bytes: int = 16777216,
        max_concurrency: int = 16,
        handler_timeout: float = 300.0,
    ) -> None:
        self.agent_id = agent_id
        self.inbound_url = inbound_url
        self.host = host
        self.port = port
        self.platform_url = platform_url
        self._agent_card = agent_card
        self._handler = message_handler
        self._dispatch_secret = dispatch_secret or ""
        self._max_body_bytes = max_body_bytes
        self._max_concurrency = max_concurrency
        self._timeout = handler_timeout
        check = callers.Callers(agent_id, callers.PlatformKeys())
        self._admission = admission.Admission(
            verify_callers, self._dispatch_secret, check, self._platform, self._is_announced
        )
        self._client: RemoteAgentClient | None = None
        self._async_runner = handlers.LoopThread()
        self._lock = threading.RLock()
        self._runs: runs.Runs | None = None
        self._server: http_server.AgentHttpServer | None = None
        if client is not None:
            self.bind(client)

    @property
    def url(self) -> str:
        """Where this process can be called; another machine needs the address that leads here."""
        host = "127.0.0.1" if self.host in _WILDCARDS else self.host
        host = f"[{host}]" if ":" in host else host
        path = urlsplit(self.inbound_url).path or app.LEGACY_PATH
        return f"http://{host}:{self.port}{path}"

    def bind(self, client: "RemoteAgentClient") -> None:
        """Belong to a client: its next `register()` tells the platform the dispatch secret."""
        self._client = client
        if self._dispatch_secret:
            client._dispatch_secret = self._dispatch_secret

    def _is_announced(self) -> bool:
        client = self._client
        return client is None or client._announced_secret == self._dispatch_secret

    def _platform(self) -> str:
        """The platform whose calls are served: the one given, the client's, or the environment's."""
        client = self._client or open_clients.CLIENTS.get(self.agent_id)
        known = self.platform_url or (client.platform_url if client else "")
        return (known or os.environ.get("MOLECULE_PLATFORM_URL", "")).rstrip("/")

    def __enter__(self) -> "A2AServer":
        self.start_in_background()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def start_in_background(self) -> None:
        """Listen, in a thread of its own; afterwards `port` and `url` are the real ones."""
        with self._lock:
            if self._server is not None:
                return
            self._admission.check_at_start()
            self._runs = runs.Runs(self._respond, self._max_concurrency, self._timeout)
            own_path = http_messages.plain(urlsplit(self.inbound_url).path)
            serving = app.App(self._admission, self._runs, own_path, self._card)
            self._server = http_server.AgentHttpServer(self.host, self.port, serving, self._max_body_bytes)
            self.port = int(self._server.server_address[1])
            self._server.start("molecule-a2a")

    def stop(self, timeout: float = 5.0) -> None:
        """Take no more work, let running handlers finish for at most `timeout` seconds, stop listening."""
        with self._lock:
            server, running = self._server, self._runs
            self._server = self._runs = None
        if server is not None and running is not None:
            running.drain(timeout)
            server.stop(timeout)
            self._async_runner.close()

    def _card(self) -> JSONObject:
        card = self._agent_card or (self._client.agent_card if self._client else {})
        public = self.inbound_url if urlsplit(self.inbound_url).scheme else self.url
        return complete_card(card, self.agent_id, public)

    def _respond(self, payload: payloads.Payload, request: http_messages.ServerRequest) -> Any:
        session.traceparent.set(request.header("traceparent"))  # each turn has a context of its own
        _deadline.set(request.header("X-Molecule-Deadline"))
        return handlers.resolve(self._handler(payload), self._client or self)


def start_for(
    client: "RemoteAgentClient",
    handler: handlers.MessageHandler,
    *,
    public_url: str = "",
    host: str = "0.0.0.0",
    port: int = 0,
    **options: Any,
) -> A2AServer:
    """Start a server whose handler gets `(InboundMessage, client)`, and report its URL."""

    def answer(payload: payloads.Payload) -> Any:
        message, hand = inbound.parse_push(payload), runs.in_hand.get()
        assert hand is not None, "a handler runs in a turn"
        message.deadline, message.cancelled = _deadline.get() or None, hand.cancelled
        try:
            with TextStream(hand.tell) as stream:
                result = handlers.call(handler, message, client, stream.write)
        except handlers.Cancelled:
            return None  # the turn has its end already
        if result is None:
            return None
        for artifact in result.artifacts:
            hand.tell_artifact(cast(JSONObject, artifact))
        return {"parts": result.all_parts} if result.parts else result.text

    if options.get("verify_callers") is not False:
        options["dispatch_secret"] = options.get("dispatch_secret") or os.urandom(32).hex()
    # Not the path of the original server, which the platform takes for one that knows no tasks.
    server = A2AServer(
        client.workspace_id, public_url or "/a2a", answer, host, port, client=client, **options
    )
    capabilities = values.object_of(client.agent_card.get("capabilities"))
    client.agent_card = {**client.agent_card, "capabilities": {"streaming": True, **capabilities}}
    server.start_in_background()
    client.reported_url = public_url or server.url
    return server
