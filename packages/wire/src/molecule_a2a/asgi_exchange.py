"""One request and its answer, as ASGI has them; the head of an answer goes out with its first piece."""

import asyncio
import http
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import TYPE_CHECKING, Any, TypeAlias

from molecule_wire.a2a.server.bindings import Response

if TYPE_CHECKING:
    from molecule_a2a.http_connection import ConnectionHost, HttpConnection

Event: TypeAlias = MutableMapping[str, Any]
Application: TypeAlias = Callable[
    [Event, Callable[[], Awaitable[Event]], Callable[[Event], Awaitable[None]]], Awaitable[None]
]

EXCHANGE = "molecule.exchange"
"""Where an application finds the exchange in its scope."""

DECODED_HEADERS = "molecule.headers"
"""Where the scope has the headers by their names in lower case, as text."""

MAX_UNREAD_BYTES = 64 * 1024
"""How much of a body is held before the application asks for it."""

STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in http.HTTPStatus
}
_DISCONNECT = {"type": "http.disconnect"}
_NO_BODY = frozenset({204, 304})

log = logging.getLogger("molecule_a2a")


class ClientLost(OSError):
    """Nobody reads the answer any more."""


class AsgiExchange:
    """Runs the application for one request. A client that goes away ends neither it nor its work."""

    __slots__ = (
        "_connection",
        "_expects",
        "_is_chunked",
        "_is_over",
        "_is_whole",
        "_news",
        "_pieces",
        "_scope",
        "_start",
        "_task",
        "_unread",
        "_was_told_whole",
        "has_begun",
        "keeps_connection",
    )

    def __init__(
        self, connection: "HttpConnection", scope: dict[str, Any], *, keeps_connection: bool, expects: bool
    ) -> None:
        """`expects` tells that the client sends its body when it is asked for it."""
        self._connection: HttpConnection | None = connection
        self._scope = scope
        self.keeps_connection = keeps_connection
        self.has_begun = False
        """Whether anything of the answer was written."""
        self._pieces: list[bytes] = []
        self._unread = 0
        self._is_whole = self._was_told_whole = self._is_over = self._is_chunked = False
        self._expects = expects
        self._news: asyncio.Future[None] | None = None
        self._start: Event | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to answer."""
        assert self._connection is not None
        server = self._connection.server
        server.exchanges.add(self)
        self._task = server.loop.create_task(self._run(server))

    def cancel(self) -> None:
        """End the application's work."""
        if self._task is not None:
            self._task.cancel()

    # What the connection says

    def feed(self, body: bytes) -> None:
        """A piece of the body has come."""
        self._pieces.append(body)
        self._unread += len(body)
        if self._unread > MAX_UNREAD_BYTES and self._connection is not None:
            self._connection.pause_reading()
        self._tell()

    def feed_end(self) -> None:
        """All of the body has come."""
        self._is_whole = True
        self._tell()

    def lose_client(self) -> None:
        """Nobody reads the answer any more."""
        self._connection = None
        self._tell()

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    # The application

    async def _run(self, server: "ConnectionHost") -> None:
        self._scope[EXCHANGE] = self
        try:
            await server.app(self._scope, self.receive, self.send)
        except ClientLost:
            log.debug("nobody read the answer to %s %s", self._scope["method"], self._scope["path"])
        except Exception:
            log.exception("the request %s %s failed", self._scope["method"], self._scope["path"])
        finally:
            server.exchanges.discard(self)
            del self._scope[EXCHANGE]  # the two hold each other
            if self._connection is not None and not self._is_over:
                self._break_off(self._connection)

    def _break_off(self, connection: "HttpConnection") -> None:
        """The application has ended without an answer, or in the middle of one."""
        if self.has_begun:
            connection.transport.abort()
        else:
            body = b'{"error":"internal error","code":"internal"}'
            self._start = {"status": 500, "headers": [(b"content-type", b"application/json")]}
            self.keeps_connection = False
            self._write(connection, body, more=False)

    async def receive(self) -> Event:
        """See ASGI: what has come of the body, or that the client has gone."""
        while True:
            connection = self._connection
            if connection is None or self._is_over:
                return _DISCONNECT
            if self._pieces or (self._is_whole and not self._was_told_whole):
                body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
                self._pieces, self._unread = [], 0
                self._was_told_whole = self._is_whole
                connection.resume_reading()
                return {"type": "http.request", "body": body, "more_body": not self._is_whole}
            if self._expects and not self._is_whole and not self.has_begun:
                self._expects = False
                connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._news = connection.server.loop.create_future()
            await self._news

    async def send(self, event: Event) -> None:
        """See ASGI. Raises ClientLost: a stream without an end must not go on for nobody."""
        connection = self._connection
        if connection is None:
            raise ClientLost("the client has gone")
        if event["type"] == "http.response.start":
            self._start = event
            return
        self._write(connection, event.get("body", b""), more=event.get("more_body", False))
        if connection.is_stuffed:
            await connection.drain()

    # The same in one step, for applications that know of it: events of ASGI cost a tenth of a small request

    def take_body(self) -> bytes | None:
        """The whole body, if it has come already; nearly every one comes with its head."""
        connection = self._connection
        if connection is None or self._was_told_whole or not self._is_whole:
            return None
        pieces, self._pieces, self._unread = self._pieces, [], 0
        self._was_told_whole = True
        connection.resume_reading()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def respond(self, response: Response) -> None:
        """Answer. Raises ClientLost."""
        connection = self._connection
        if connection is None:
            raise ClientLost("the client has gone")
        if self._is_over:
            return
        has_body = self._scope["method"] != "HEAD" and response.status not in _NO_BODY
        self.has_begun = self._is_over = True
        connection.write(response, keeps_connection=self.keeps_connection, has_body=has_body)
        self._tell()
        connection.finish(self)

    def _write(self, connection: "HttpConnection", body: bytes, *, more: bool) -> None:
        start = self._start
        assert start is not None, "http.response.start comes first"
        if self._is_over:
            return
        if self._scope["method"] == "HEAD" or start["status"] in _NO_BODY:
            piece = b""
        elif self.has_begun:
            piece = self._framed(body, more)
        else:
            headers: Iterable[tuple[bytes, bytes]] = start.get("headers", ())
            is_sized = any(name == b"content-length" for name, _ in headers)
            self._is_chunked = not is_sized and self.keeps_connection
            self.keeps_connection = self.keeps_connection and (is_sized or self._is_chunked)
            piece = self._framed(body, more)
        if not self.has_begun:
            self.has_begun = True
            piece = self._head(connection, start) + piece
        if piece:
            connection.transport.write(piece)
        if not more:
            self._is_over = True
            self._tell()
            connection.finish(self)

    def _framed(self, body: bytes, more: bool) -> bytes:
        if not self._is_chunked:
            return body
        chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
        return chunk if more else chunk + b"0\r\n\r\n"

    def _head(self, connection: "HttpConnection", start: Event) -> bytes:
        lines = [STATUS_LINES.get(start["status"]) or b"HTTP/1.1 %d \r\n" % start["status"]]
        lines += [b"%b: %b\r\n" % header for header in start.get("headers", ())]
        lines.append(connection.server.date_line())
        if self._is_chunked:
            lines.append(b"transfer-encoding: chunked\r\n")
        if not self.keeps_connection:
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)
