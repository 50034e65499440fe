"""As much of a platform as a workspace runtime needs: it registers, beats, and is sent messages.

The head of each request is made by the gateway's own code, so an agent cannot tell it from the platform's.
"""

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from molecule_platform.agents.client import HttpAgentClient
from molecule_platform.domain.messages import Message, new_message
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.egress import guard, heads
from molecule_platform.egress.connector import Outbound
from molecule_platform.keys import signing
from molecule_platform.ports.agents import Delivery
from molecule_platform.ports.signing import Signer
from molecule_platform.services.keys.active_signers import ActiveSigners
from molecule_platform.services.keys.caller_assertions import CallerAssertions
from molecule_wire import assertions, ids, jsontext

ORG_ID = ids.uuid7()
RUN_SECONDS = 600.0


class _OneKey:
    """Stands in for `ActiveSigners`."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def signer(self, alg: str) -> Signer:
        return self._signer


class PushingPlatform:
    """Answers one runtime at `url`; `request` makes what the gateway would send to it."""

    def __init__(self) -> None:
        key = signing.new_key("EdDSA")
        self.public_key = assertions.decoded(str(key.public["x"]))
        self._jwk = {**key.public, "kid": key.kid, "alg": key.alg, "use": "sig"}
        self._signer = Signer(key.kid, key.alg, signing.load(key.private))
        self.workspace_id = ids.uuid7()
        self.agent: dict[str, Any] = {}
        """What the runtime registered with."""
        self._registered = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def wait(self, seconds: float) -> None:
        """Wait until the runtime has registered."""
        assert self._registered.wait(seconds), "the runtime did not register"

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """What the runtime is told."""
        if path == "/registry/register":
            self.agent = body
            self._registered.set()
            return {"status": "registered", "delivery_mode": "push"}
        if path == "/registry/heartbeat":
            return {"status": "ok", "workspace_status": "online", "paused": False, "pending": 0}
        if path.startswith(f"/workspaces/{self.workspace_id}/delegations"):
            return {"delegations": []}
        if path.startswith("/ws"):
            return {}
        assert path == "/.well-known/jwks.json", path
        return {"issuer": self.url, "keys": [self._jwk]}

    def request(self, text: str, method: str, url: str, conversations: int) -> Callable[[int], bytes]:
        """The dispatches of messages with that text, each another one, of so many conversations; with none,
        each of them begins a conversation.
        """
        contexts = [ids.uuid7() for _ in range(conversations)]
        now = datetime.now(UTC)
        target = Workspace(self.workspace_id, ORG_ID, "echo", created_at=now, updated_at=now)
        signer = CallerAssertions(cast("ActiveSigners", _OneKey(self._signer)), self.url)
        link = HttpAgentClient(cast("Outbound", None), 0, lambda: datetime.now(UTC), signer.sign)
        way = heads.way_to(guard.CheckedUrl(url, "http", "127.0.0.1", 0, None))
        secret, base = self.agent["dispatch_secret"], _message(self.workspace_id)

        def dispatched(number: int) -> bytes:
            said: dict[str, Any] = {"messageId": ids.uuid7(), "role": "ROLE_USER", "parts": [{"text": text}]}
            if contexts:
                said["contextId"] = contexts[number % conversations]
            body = jsontext.encode(
                {
                    "method": method,
                    "params": {"message": said, "configuration": {}},
                    "id": ids.uuid7(),
                    "jsonrpc": "2.0",
                }
            )
            context_id = said.get("contextId") or ids.uuid7()
            named = base.but(id=ids.uuid7(), message_ref=said["messageId"], context_id=context_id)
            head = link._headers(Delivery(target, named, secret, RUN_SECONDS), "1.0")
            return heads.request(way, "POST", head, body)

        return dispatched

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        platform = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                self._say(platform.answer(self.path, json.loads(body)))

            def do_GET(self) -> None:
                self._say(platform.answer(self.path, {}))

            def _say(self, said: dict[str, Any]) -> None:
                body = json.dumps(said).encode()
                head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                self.wfile.write(head % len(body) + body)

        return Handler


def _message(workspace_id: str) -> Message:
    now = datetime.now(UTC)
    return new_message(
        org_id=ORG_ID,
        target_id=workspace_id,
        caller=f"workspace:{ids.uuid7()}",
        caller_name="Reviewer",
        deadline_at=now + timedelta(seconds=RUN_SECONDS),
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        request_id=ids.uuid7(),
        attempts=1,
    )


@contextmanager
def running() -> Generator[PushingPlatform]:
    """It, in a thread of this process."""
    platform = PushingPlatform()
    thread = threading.Thread(target=platform.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield platform
    finally:
        platform.server.shutdown()
        platform.server.server_close()
        thread.join()
