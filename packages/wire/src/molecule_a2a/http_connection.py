"""HTTP/1.1 on httptools: the requests of one connection in their order, each answered before the next."""

import asyncio
import functools
from collections import deque
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import unquote

import httptools

from molecule_a2a.asgi_exchange import DECODED_HEADERS, STATUS_LINES, Application, AsgiExchange
from molecule_wire.a2a.server.bindings import Response, refusal

MAX_HEAD_BYTES, MAX_HEADERS = 64 * 1024, 128
MAX_WAITING_REQUESTS = 16
MAX_KNOWN_NAME_BYTES = 64
LINGER_SECONDS = 5.0

_NO_DEADLINE = float("inf")
_ASGI = {"version": "3.0", "spec_version": "2.3"}


class Timeouts(NamedTuple):
    """How long a client may keep a connection waiting: between requests, for a head, for a body, to read."""

    idle: float = 60.0
    head: float = 30.0
    body: float = 60.0
    stalled: float = 60.0


class ConnectionHost(Protocol):
    """What the connections of one listener share."""

    @property
    def app(self) -> Application:
        """Who answers."""
        ...

    loop: asyncio.AbstractEventLoop
    timeouts: Timeouts
    connections: set["HttpConnection"]
    exchanges: set[AsgiExchange]

    @property
    def is_full(self) -> bool:
        """Whether no further connection is taken."""
        ...

    def date_line(self) -> bytes:
        """The header `date` of now."""
        ...


class HttpConnection(asyncio.Protocol):
    """Reads requests, and has each of them answered by an `AsgiExchange`.

    `deadline`, in seconds of the loop's clock, is looked at by the listener once a second: a timer for each
    request would cost as much as parsing it.
    """

    transport: asyncio.Transport

    def __init__(self, server: ConnectionHost) -> None:
        self.server = server
        self.deadline = _NO_DEADLINE
        self.is_stuffed = False
        self._parser: Any = httptools.HttpRequestParser(self)
        self._answering: AsgiExchange | None = None
        self._coming: AsgiExchange | None = None
        """The request whose body is still to come."""
        self._waiting: deque[AsgiExchange] = deque()
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] | None = None
        """The headers of a head that is not whole yet."""
        self._head_bytes = self._chunk_bytes = 0
        self._ignores_input = self._is_stopping = self._is_paused = False
        self._drained: asyncio.Future[None] | None = None
        self._client = self._local = ("", 0)

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self.transport = cast("asyncio.Transport", transport)
        self._client = _address(transport, "peername")
        self._local = _address(transport, "sockname")
        if self.server.is_full:
            self._ignores_input = True
            self.write(refusal(503, "too many connections", "agent-busy", (("retry-after", "1"),)))
            return self.transport.close()
        self.server.connections.add(self)
        self.deadline = self.server.loop.time() + self.server.timeouts.head
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`; what is being answered goes on without its reader."""
        self.server.connections.discard(self)
        self._ignores_input = True
        # The parser holds our methods: without this only the garbage collector would free the two.
        self._parser = None
        for exchange in (self._answering, self._coming):
            if exchange is not None:
                exchange.lose_client()
        self._answering = self._coming = None
        self._waiting.clear()
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._ignores_input:
            return None
        self._chunk_bytes = len(data)
        if self._answering is None and self._headers is None:
            self.deadline = self.server.loop.time() + self.server.timeouts.head
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # The request was answered as if it had asked for nothing else; what follows is no HTTP.
            self._ignores_input = True
        except httptools.HttpParserError as problem:
            refused = problem.__context__
            if not isinstance(refused, _HeadRefused):
                refused = _HeadRefused(400, "bad request: this is not HTTP/1.1")
            return self.refuse(refusal(refused.status, str(refused)))
        if self._headers is not None:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                return self.refuse(refusal(431, f"the head is larger than {MAX_HEAD_BYTES} bytes"))
        return None

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self.is_stuffed = True
        self.deadline = self.server.loop.time() + self.server.timeouts.stalled

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        is_idle = self._answering is None
        self.is_stuffed = False
        self.deadline = self.server.loop.time() + self.server.timeouts.idle if is_idle else _NO_DEADLINE
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    # What the parser calls

    def on_message_begin(self) -> None:
        """A request begins."""
        self._url, self._headers, self._head_bytes = b"", [], 0

    def on_url(self, url: bytes) -> None:
        """The target, or a piece of it."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; what looks like one behind a body is none."""
        if self._headers is not None:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is whole: somebody can begin to answer."""
        parser = self._parser
        assert self._headers is not None
        headers, fields = _lowered(self._headers)
        is_modern = parser.get_http_version() == "1.1"
        self._check_head(headers, fields, is_modern)
        self._headers = None
        path, query = _target(self._url)
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": "1.1" if is_modern else "1.0",
            "method": parser.get_method().decode("ascii"),
            "scheme": "http",
            "path": unquote(path) if "%" in path else path,
            "raw_path": path.encode("ascii"),
            "query_string": query,
            "root_path": "",
            "headers": headers,
            DECODED_HEADERS: fields,
            "client": self._client,
            "server": self._local,
        }
        keeps = is_modern and parser.should_keep_alive() and not parser.should_upgrade()
        exchange = self._coming = AsgiExchange(
            self, scope, keeps_connection=keeps, expects="expect" in fields
        )
        if self._answering is None:
            self._answering = exchange
            self.deadline = self.server.loop.time() + self.server.timeouts.body
            exchange.start()
            return
        if len(self._waiting) >= MAX_WAITING_REQUESTS:
            raise _HeadRefused(400, "bad request: too many requests before the first answer")
        self._waiting.append(exchange)
        self.pause_reading()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._coming is not None:
            self._coming.feed(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        exchange, self._coming = self._coming, None
        if exchange is not None:
            exchange.feed_end()
            self._ignores_input = not exchange.keeps_connection
            if exchange is self._answering:
                self.deadline = _NO_DEADLINE

    def _check_head(
        self, headers: list[tuple[bytes, bytes]], fields: dict[str, str], is_modern: bool
    ) -> None:
        if self._chunk_bytes > MAX_HEAD_BYTES or len(headers) > MAX_HEADERS:
            size = len(self._url) + sum(len(name) + len(value) for name, value in headers)
            if size > MAX_HEAD_BYTES or len(headers) > MAX_HEADERS:
                sentence = f"the head has more than {MAX_HEADERS} headers or {MAX_HEAD_BYTES} bytes"
                raise _HeadRefused(431, sentence)
        if is_modern and "host" not in fields:
            raise _HeadRefused(400, "bad request: send one Host")
        if len(fields) != len(headers):
            _check_repeated([name for name, _ in headers])
        if "upgrade" in fields and ("content-length" in fields or "transfer-encoding" in fields):
            raise _HeadRefused(400, "bad request: an upgrade has no body")

    # What an exchange calls

    def pause_reading(self) -> None:
        """Take nothing more for now. Harmless when repeated."""
        if not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on. Harmless when repeated."""
        if self._is_paused and not self.transport.is_closing():
            self._is_paused = False
            self.transport.resume_reading()

    async def drain(self) -> None:
        """Wait until the client has taken most of what was written, or has gone."""
        if self.is_stuffed:
            self._drained = self._drained or self.server.loop.create_future()
            await asyncio.shield(self._drained)

    def write(self, response: Response, *, keeps_connection: bool = False, has_body: bool = True) -> None:
        """Send a whole answer."""
        lines = [f"{name}: {said}\r\n" for name, said in response.headers]
        if not keeps_connection:
            lines.append("connection: close\r\n")
        head = f"content-type: {response.media}\r\n{''.join(lines)}content-length: {len(response.body)}\r\n"
        pieces = (
            STATUS_LINES.get(response.status) or b"HTTP/1.1 %d \r\n" % response.status,
            head.encode("latin-1"),
            self.server.date_line(),
            b"\r\n",
            response.body if has_body else b"",
        )
        self.transport.write(b"".join(pieces))

    def finish(self, exchange: AsgiExchange) -> None:
        """The answer to the first request was written."""
        if exchange is self._coming:
            return self._hang_up()  # it was answered before its body came
        if not exchange.keeps_connection or self._is_stopping:
            return self.transport.close()
        self.deadline = self.server.loop.time() + self.server.timeouts.idle
        self._answering = None
        if self._waiting:
            self._answering = self._waiting.popleft()
            self._answering.start()
        if not self._waiting:
            self.resume_reading()
        return None

    # What the listener calls

    def shut_down(self) -> None:
        """Close as soon as what is being answered is answered."""
        self._is_stopping = True
        if self._answering is None:
            self.transport.close()

    def expire(self) -> None:
        """The client kept us waiting for too long."""
        if self._coming is not None and self._coming is self._answering and not self._coming.has_begun:
            sentence = f"the body did not come within {self.server.timeouts.body:g} s"
            return self.refuse(refusal(408, sentence))
        return self.transport.close() if self._answering is None else self.transport.abort()

    def refuse(self, response: Response) -> None:
        """Answer in place of the application, and close. Harmless when something was answered already."""
        answering, self._answering, self._coming = self._answering, None, None
        self._waiting.clear()
        if answering is not None:
            answering.lose_client()
        if answering is None or not answering.has_begun:
            self.write(response)
        self._hang_up()

    def _hang_up(self) -> None:
        """Close, but not before a client that is still sending had time to read why."""
        self._ignores_input, self._parser = True, None
        if self.transport.is_closing() or not self.transport.can_write_eof():
            return self.transport.close()
        self.transport.write_eof()
        self.resume_reading()
        self.server.connections.add(self)
        self.deadline = self.server.loop.time() + LINGER_SECONDS
        return None


class _HeadRefused(Exception):
    """A head that is not taken, and the status that says so."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def _lowered(head: list[tuple[bytes, bytes]]) -> tuple[list[tuple[bytes, bytes]], dict[str, str]]:
    """The headers with names in lower case, and the last of each name as text."""
    headers: list[tuple[bytes, bytes]] = []
    fields: dict[str, str] = {}
    for name, value in head:
        lower, text = _known_name(name) if len(name) <= MAX_KNOWN_NAME_BYTES else _lowered_name(name)
        headers.append((lower, value))
        fields[text] = value.decode("latin-1")
    return headers, fields


def _lowered_name(name: bytes) -> tuple[bytes, str]:
    lower = name.lower()
    return lower, lower.decode("latin-1")


# Clients spell the same few names in the same way. Long ones are not kept: a stranger could fill 40 MB.
_known_name = functools.lru_cache(maxsize=256)(_lowered_name)


def _check_repeated(names: list[bytes]) -> None:
    """Two readers could take different ones of these for the right one."""
    if names.count(b"host") > 1:
        raise _HeadRefused(400, "bad request: send one Host")
    if names.count(b"authorization") > 1 or names.count(b"x-molecule-caller") > 1:
        raise _HeadRefused(400, "bad request: a credential is sent twice")


def _target(url: bytes) -> tuple[str, bytes]:
    """The path and the query of a request."""
    if url[:1] == b"/":
        path, _, query = url.partition(b"?")
        return path.decode("ascii", "replace"), query
    parsed = httptools.parse_url(url)
    return (parsed.path or b"/").decode("ascii", "replace"), parsed.query or b""


def _address(transport: asyncio.BaseTransport, which: str) -> tuple[str, int]:
    """The address of one end; a socket of the file system has none."""
    name: Any = transport.get_extra_info(which)
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else ("", 0)  # pyright: ignore[reportUnknownArgumentType]
