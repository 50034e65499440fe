"""One HTTP request and its response, over ASGI."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Protocol
from urllib.parse import quote

from molecule_a2a import asgi
from molecule_a2a.asgi import Headers, Receive, Scope, Send

# A response above this is sent in pieces: the transport would keep a copy of what the client has not read.
LARGE_BYTES = 1024 * 1024
PIECE_BYTES = 256 * 1024

_NO_HEADERS: dict[str, str] = {}


class ClientDisconnected(Exception):
    """The client disconnected before its request was complete."""


class TooLarge(Exception):
    """The body exceeds its limit."""


class Overloaded(Exception):
    """There is no room for more of the body now."""


class HttpInput:
    """Head of a request: its line, its headers, and the addresses of both ends."""

    __slots__ = ("headers", "method", "path", "peer", "query", "scheme", "server")

    def __init__(
        self,
        method: str,
        path: str,
        query: bytes,
        headers: Mapping[str, str],
        scheme: str = "http",
        peer: str = "",
        server: str = "localhost:80",
    ) -> None:
        self.method = method
        # As it was sent: an encoded slash separates nothing.
        self.path = path
        self.query = query
        # By lower-case names.
        self.headers = headers
        self.scheme = scheme
        self.peer = peer
        self.server = server


def read_head(scope: Scope) -> HttpInput:
    """Return the head of the request in an ASGI scope, of HTTP or of a WebSocket."""
    client, server = scope.get("client"), scope.get("server")
    raw_path: bytes | None = scope.get("raw_path")
    return HttpInput(
        scope.get("method", "GET"),
        quote(scope["path"]) if raw_path is None else raw_path.decode("latin-1"),
        scope["query_string"],
        {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
        scope.get("scheme", "http"),
        client[0] if client else "",
        f"{server[0]}:{server[1]}" if server else "localhost:80",
    )


class EventStream(Protocol):
    """Response of unknown length whose source calls when it has more."""

    def begin(self, call: Callable[[], None]) -> None:
        """Call that function, from now on, whenever there may be something to send."""
        ...

    def ready(self) -> bytes | None:
        """Return what can be sent at once, perhaps nothing; None if only `next` can tell."""
        ...

    async def next(self) -> bytes | None:
        """Return what is to be sent now, perhaps nothing; None at the end."""
        ...

    def close(self) -> None:
        """Release the stream. Idempotent."""
        ...


async def pieces(stream: EventStream) -> AsyncGenerator[bytes]:
    """Iterate over the chunks of a stream."""
    called = asyncio.Event()
    stream.begin(called.set)
    try:
        while True:
            called.clear()
            chunk = stream.ready()
            if chunk is None:
                chunk = await stream.next()
            if chunk is None:
                return
            if chunk:
                yield chunk
            else:
                await called.wait()
    finally:
        stream.close()


class HttpExchange:
    """One request and its response."""

    __slots__ = ("_receive", "_scope", "_send", "_watched_gone", "_watcher", "head")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.head = read_head(scope)
        self._watched_gone = False
        self._scope, self._receive, self._send = scope, receive, send
        self._watcher: asyncio.Task[None] | None = None

    @property
    def is_disconnected(self) -> bool:
        """True if the client has disconnected. Under another ASGI server only `gone` and `watch` see it."""
        return self._watched_gone or asgi.is_disconnected(self._scope)

    def identify(self, principal: str) -> bool:
        """Count the connection for a verified principal; return False if the principal has too many."""
        return asgi.count_connection(self._scope, principal)

    async def disconnected(self) -> None:
        """Return when the client has disconnected. Only for a request whose body was read."""
        await asgi.wait_for_disconnect(self._receive)
        self._watched_gone = True

    def watch(self) -> None:
        """Keep `is_gone` true to life until the response is sent."""
        if self._watcher is None:
            self._watcher = asyncio.get_running_loop().create_task(self.disconnected())

    async def body(self, most: int, count: Callable[[int], bool]) -> bytes:
        """Return the whole body; `count` is given the size of each piece and returns False if none fits.

        A body that arrived with its head is small and is not counted. Raises TooLarge, Overloaded or Gone.
        """
        received, size = list[bytes](), 0
        while True:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                raise ClientDisconnected
            piece: bytes = event.get("body", b"")
            more: bool = event.get("more_body", False)
            size += len(piece)
            if size > most:
                raise TooLarge
            if not more and not received:
                return piece
            if not count(len(piece)):
                raise Overloaded
            received.append(piece)
            if not more:
                return b"".join(received)

    async def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a complete response."""
        if len(body) <= LARGE_BYTES or self.head.method == "HEAD":
            await asgi.send_response(self._send, status, headers, body)
            return
        length = (b"content-length", b"%d" % len(body))
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
        for start in range(0, len(body), PIECE_BYTES):
            end = start + PIECE_BYTES
            more = end < len(body)
            await self._send({"type": "http.response.body", "body": body[start:end], "more_body": more})

    async def stream(self, status: int, headers: Headers, chunks: AsyncGenerator[bytes]) -> None:
        """Send a response chunk by chunk, until its end or until the client disconnects."""
        # A stream may last for hours: it does not need what its request said.
        self.head.headers, self.head.query, self.head.path = _NO_HEADERS, b"", ""
        self._scope["headers"] = []
        await asgi.send_stream(self._receive, self._send, status, headers, chunks)


def as_socket_response(status: int, headers: Headers, body: bytes) -> list[dict[str, Any]]:
    """Return the ASGI events that refuse a WebSocket handshake with an HTTP response."""
    head = [*headers, (b"content-length", b"%d" % len(body))]
    return [
        {"type": "websocket.http.response.start", "status": status, "headers": head},
        {"type": "websocket.http.response.body", "body": body},
    ]
