"""The reply server: an ASGI application on a loopback port that takes the replies of the gateway plugin."""

import asyncio
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from molecule_runtime.runtimes.hermes import failures
from molecule_runtime.runtimes.hermes.client import as_object
from molecule_runtime.runtimes.hermes.plugin_link import SECRET_HEADER

if TYPE_CHECKING:
    from molecule_a2a import HttpServer

MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_LOGGED_CHARACTERS = 100
STOP_SECONDS = 1.0
HEALTH_PATH = "/a2a/health"

log = logging.getLogger(__name__)


class ReplyResponse(NamedTuple):
    """The answer to a reply: its status, and its body as JSON."""

    status: int
    body: bytes


class BodyTooLarge(Exception):
    """More bytes came than a reply may have."""


class ReplyRequest:
    """What the handler of replies needs of a request: its headers, and its body when it is asked for."""

    def __init__(self, scope: Mapping[str, Any], receive: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
        pairs: list[tuple[bytes, bytes]] = scope["headers"]
        self.headers = {
            name.decode("latin-1"): value.decode(errors="surrogateescape") for name, value in pairs
        }
        self._receive = receive

    async def json(self) -> Any:
        """The decoded body. Raises ValueError when it is no JSON, BodyTooLarge when it is too large."""
        body = bytearray()
        while True:
            event = await self._receive()
            body += event.get("body", b"")
            if len(body) > MAX_BODY_BYTES:
                raise BodyTooLarge
            if event["type"] != "http.request" or not event.get("more_body"):
                return json.loads(body)


class ReplyServer:
    """The application. `handle` answers a reply; `count_pending` says how many messages wait for one."""

    def __init__(
        self,
        path: str,
        handle: Callable[[ReplyRequest], Awaitable[ReplyResponse]],
        count_pending: Callable[[], int],
    ) -> None:
        self._path = path
        self._handle = handle
        self._count_pending = count_pending
        self._is_closed = False

    async def cleanup(self) -> None:
        """Answer nothing any more, also on connections that are still open."""
        self._is_closed = True

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            return
        response = await self._response(scope, receive)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(response.body))]
        if response.status == 413:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})

    async def _response(self, scope: Mapping[str, Any], receive: Any) -> ReplyResponse:
        methods = {self._path: "POST", HEALTH_PATH: "GET"}
        asked_for = methods.get(str(scope["path"]))
        if self._is_closed:
            return _response(503, ok=False, error="stopped")
        if asked_for is None:
            return _response(404, ok=False, error="not found")
        if scope["method"] != asked_for:
            return _response(405, ok=False, error="method not allowed")
        if asked_for == "GET":
            return _response(200, ok=True, pending=self._count_pending())
        try:
            return await self._handle(ReplyRequest(scope, receive))
        except BodyTooLarge:
            return _response(413, ok=False, error="body too large")


class ReplyListener:
    """The socket of a reply server."""

    def __init__(self, server: "HttpServer") -> None:
        self._server = server

    async def stop(self) -> None:
        """Accept nothing more; what is being answered goes out."""
        await self._server.stop(STOP_SECONDS)


async def listen(host: str, port: int, server: ReplyServer) -> tuple[ReplyListener, int]:
    """Serve on an address; the port that was really bound. Raises OSError when it cannot be had."""
    from molecule_a2a import HttpServer, bind

    listener, http_server = bind(host, port), HttpServer(server)
    await http_server.start(listener)
    return ReplyListener(http_server), listener.getsockname()[1]


async def handle_reply(
    request: Any,
    secret: str,
    pending: "Mapping[str, asyncio.Future[str]]",
    report_progress: Callable[[str, str, Mapping[str, Any]], None],
) -> ReplyResponse:
    """Resolve the message that a reply belongs to, and say what became of it."""
    if secret and not _is_secret(request.headers, secret):
        return _response(401, ok=False, error="unauthorized")
    try:
        body: Any = await request.json()
    except (ValueError, RecursionError, TypeError):
        return _response(400, ok=False, error="invalid json")
    reply = as_object(body)
    reply_to, content = reply.get("reply_to"), reply.get("content")
    if not isinstance(reply_to, str) or not reply_to or not isinstance(content, str):
        return _response(400, ok=False, error="reply_to and content required")
    future = pending.get(reply_to)
    if future is None:
        logged_id = "".join(filter(str.isprintable, reply_to))[:MAX_LOGGED_CHARACTERS]
        log.warning("hermes plugin: reply for unknown message_id=%s", logged_id)
        return _response(200, ok=True, stale=True)
    metadata = as_object(reply.get("metadata"))
    if metadata.get("final") is False:
        report_progress(reply_to, content, metadata)
    elif not future.done() and (error := metadata.get("error")):
        future.set_exception(failures.TurnNotAnswered(content, is_retryable=error == "stopped"))
    elif not future.done():
        future.set_result(content)
    return _response(200, ok=True)


def _is_secret(headers: Mapping[str, str], secret: str) -> bool:
    name = SECRET_HEADER.lower()
    header = next((value for key, value in headers.items() if key.lower() == name), "")
    return hmac.compare_digest(_bytes(header), _bytes(secret))


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _response(status: int, **body: Any) -> ReplyResponse:
    return ReplyResponse(status, json.dumps(body).encode())
