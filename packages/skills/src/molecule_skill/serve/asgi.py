"""Requests and responses of plain ASGI: bodies bounded before they are decoded, answers written at once."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias
from urllib.parse import parse_qs

from molecule_a2a import asgi
from molecule_a2a.asgi import Receive, Scope, Send
from molecule_skill.errors import RunRefused
from molecule_wire import JSONObject, ids, jsontext

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_BODY_SECONDS = 60.0
_STREAM_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)


class AsgiRequest:
    """One HTTP request; names of headers are in lower case, `path` is that below the mount point."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.method: str = scope["method"]
        root: str = scope.get("root_path", "")
        path: str = scope["path"]
        self.root = root
        self.path = (path[len(root) :] if root and path.startswith(root) else path) or "/"
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}

    @cached_property
    def request_id(self) -> str:
        """The id under which this request stands in logs and answers."""
        return ids.uuid7()

    @cached_property
    def query(self) -> Mapping[str, str]:
        """The parameters of the URL; of a repeated one the last counts."""
        text: bytes = self.scope.get("query_string", b"")
        return {name: values[-1] for name, values in parse_qs(text.decode("latin-1")).items()} if text else {}

    @property
    def peer(self) -> str:
        """The address of the client; empty where the transport does not tell."""
        client = self.scope.get("client")
        return str(client[0]) if client else ""

    @property
    def accepts_stream(self) -> bool:
        """Whether the client asked for server-sent events."""
        return "text/event-stream" in self.headers.get("accept", "")

    @property
    def base_url(self) -> str:
        """The address under which the client reached this application, without a slash at the end."""
        host = self.headers.get("host", "localhost")
        return f"{self.scope.get('scheme', 'http')}://{host}{self.root.rstrip('/')}"

    async def body(self) -> bytes:
        """The whole body. Raises RunRefused: 413 when it is too large, 408 when it does not come."""
        declared = self.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > MAX_BODY_BYTES:
            raise _too_large()
        try:
            async with asyncio.timeout(MAX_BODY_SECONDS):
                body = await asgi.read_body(self.receive, MAX_BODY_BYTES)
        except TimeoutError as problem:
            sentence = f"the body did not come within {MAX_BODY_SECONDS:g} s"
            raise RunRefused("invalid-request", sentence) from problem
        if body is None:
            raise _too_large()
        return body

    async def json_object(self) -> JSONObject:
        """The body as a JSON object; an empty body is an empty one. Raises RunRefused."""
        media = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media and media != "application/json" and not media.endswith("+json"):
            raise RunRefused("unsupported-media-type", "send the body as application/json")
        body = await self.body()
        if not body.strip():
            return {}
        try:
            value = jsontext.decode_unique(body)
        except jsontext.NotJSON as problem:
            raise RunRefused("invalid-json", f"the body cannot be read as JSON: {problem}") from problem
        if not isinstance(value, dict):
            raise RunRefused("invalid-request", "the body must be a JSON object")
        return value

    async def disconnected(self) -> None:
        """Return when the client is gone; only for a request whose body was read."""
        await asgi.wait_for_disconnect(self.receive)


@dataclass(slots=True)
class Response:
    """A whole answer."""

    status: int
    body: bytes = b""
    media: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict[str, str])

    async def send(self, request: AsgiRequest, send: Send) -> None:
        """Write it; a HEAD gets the headers alone."""
        headers = [
            (b"content-type", self.media.encode()),
            *((name.encode(), text.encode("latin-1", "replace")) for name, text in self.headers.items()),
        ]
        await asgi.send_response(send, self.status, headers, self.body)


@dataclass(slots=True)
class Stream:
    """An answer that is written piece by piece; `gone` is called when the client left before its end."""

    pieces: AsyncGenerator[bytes]
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = _STREAM_HEADERS
    gone: Callable[[], None] | None = None

    async def send(self, request: AsgiRequest, send: Send) -> None:
        """Write until the end, or until the client is gone."""
        headers = [*self.headers, (b"x-request-id", request.request_id.encode())]
        finished = False
        try:
            finished = await asgi.send_stream(request.receive, send, self.status, headers, self.pieces)
        finally:
            if not finished and self.gone is not None:
                self.gone()


Answer: TypeAlias = Response | Stream


def json_response(value: JSONObject, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON object as an answer."""
    return Response(status, jsontext.encode(value), headers=headers or {})


async def with_pings(pieces: AsyncIterator[bytes], seconds: float) -> AsyncGenerator[bytes]:
    """The pieces, and a comment whenever there was none for so long: proxies close what is silent."""
    waiting: asyncio.Task[bytes] | None = None
    try:
        while True:
            if waiting is None:
                waiting = asyncio.ensure_future(_next(pieces))
            done, _ = await asyncio.wait({waiting}, timeout=seconds)
            if not done:
                yield b": ping\n\n"
                continue
            finished, waiting = waiting, None
            try:
                piece = finished.result()
            except StopAsyncIteration:
                return
            yield piece
    finally:
        if waiting is not None:
            waiting.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration, Exception):
                await waiting
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()


async def _next(pieces: AsyncIterator[bytes]) -> bytes:
    return await anext(pieces)


def _too_large() -> RunRefused:
    sentence = f"the body is larger than {MAX_BODY_BYTES} bytes"
    return RunRefused("payload-too-large", sentence, limit_bytes=MAX_BODY_BYTES)
