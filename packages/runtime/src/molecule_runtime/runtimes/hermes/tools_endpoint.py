"""The tools of a workspace for the engine beside it: on this machine alone, and only with a token."""

import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from molecule_runtime.runtimes.hermes.reply_server import BodyTooLarge, ReplyRequest

if TYPE_CHECKING:
    from molecule_a2a import HttpServer
    from molecule_runtime.kit.tools.tool_set import ToolSet

OFFERED = (
    "delegate_to_workspace",
    "check_delegation_status",
    "list_peers",
    "get_workspace_info",
    "send_message_to_user",
)
"""Those that need no turn: a call of hermes does not say for which message it is."""
STOP_SECONDS = 1.0


@dataclass(frozen=True)
class ToolsAddress:
    """Where the tools are, and the token that is asked for there."""

    url: str
    token: str = field(repr=False)


def new_token() -> str:
    """A random token."""
    return secrets.token_urlsafe(32)


class ToolsEndpoint:
    """An ASGI application: `GET /tools`, `POST /tools/<name>`."""

    def __init__(self, tools: "ToolSet", token: str) -> None:
        self._tools = tools
        self._token = token.encode()
        self._server: HttpServer | None = None

    async def listen(self, url: str = "http://127.0.0.1:0") -> str:
        """Serve on the address of a URL, port 0 for a free one; the real URL. Raises PortTaken."""
        from molecule_a2a import HttpServer, bind

        parts = urlsplit(url)
        host = parts.hostname or "127.0.0.1"
        listener = bind(host, parts.port or 0)
        self._server = HttpServer(self)
        await self._server.start(listener)
        return f"http://{host}:{listener.getsockname()[1]}"

    async def stop(self) -> None:
        """Serve no more. Harmless when repeated."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(STOP_SECONDS)

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            return
        status, value = await self._answer(scope, receive)
        body = json.dumps(value).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Mapping[str, Any], receive: Any) -> tuple[int, Any]:
        request = ReplyRequest(scope, receive)
        token = (
            request.headers.get("authorization", "").removeprefix("Bearer ").encode(errors="surrogateescape")
        )
        if not hmac.compare_digest(token, self._token):
            return 401, {"error": "unauthorized"}
        offered = [spec for spec in self._tools.specs if spec.name in OFFERED]
        method, path = scope["method"], str(scope["path"])
        if (method, path) == ("GET", "/tools"):
            return 200, [
                {"name": spec.name, "description": spec.description, "input_schema": spec.input_schema}
                for spec in offered
            ]
        name = path.removeprefix("/tools/")
        if method != "POST" or name not in [spec.name for spec in offered]:
            return 404, {"error": "there is no such tool"}
        try:
            arguments = await request.json()
        except BodyTooLarge:
            return 413, {"error": "the arguments are too large"}
        except (ValueError, RecursionError):
            return 400, {"error": "the arguments are no JSON"}
        return 200, await self._tools.call(name, arguments)
