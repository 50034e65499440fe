"""One connection of a client: its requests in their order, each answered before the next one is begun."""

import asyncio
from collections import deque
from typing import Any, cast

import httptools

from molecule_platform.http.transport.front import Front
from molecule_platform.http.transport.heads import NAMES, target
from molecule_platform.http.transport.request import Request
from molecule_platform.services.waits import Waits

HEAD_MOST_BYTES = 64 * 1024
HEADERS_MOST = 128
WAITING_MOST = 64

_ONCE = frozenset({"host", "authorization"})


class _Refused(Exception):
    """A request that is not taken, and why."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Connection(asyncio.Protocol):
    """Reads requests and has them answered. Thousands are open at once, most of them quiet."""

    __slots__ = (
        "_answering",
        "_chunk",
        "_coming",
        "_fed",
        "_headers",
        "_is_advancing",
        "_is_deaf",
        "_parser",
        "_progress",
        "_reads",
        "_refusal",
        "_unsent",
        "_url",
        "_waiting",
        "_waits",
        "front",
        "is_gone",
        "is_stuffed",
        "peer",
        "scheme",
        "server",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, front: Front) -> None:
        # What all connections share.
        self.front = front
        self._parser: httptools.HttpRequestParser | None = None
        # The request that is answered now, those behind it, and the one whose body is still coming.
        self._answering: Request | None = None
        self._waiting: deque[Request] | None = None
        self._coming: Request | None = None
        # What is known of a head that is not whole yet.
        self._url = b""
        self._headers: dict[str, str] | None = None
        # How much came without bringing us any further, before the chunk that is read now and with it.
        self._fed = self._chunk = 0
        self._progress = False
        # The last answer, when what comes behind all others cannot be understood.
        self._refusal: _Refused | None = None
        self._waits: Waits[Connection] | None = None
        self._unsent = 0
        self._reads = True
        self._is_deaf = self._is_advancing = False
        self.is_gone = self.is_stuffed = False
        self.scheme = "http"
        self.peer = ""

    # What the event loop does

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self.transport = cast("asyncio.Transport", transport)
        self.scheme = "http" if transport.get_extra_info("sslcontext") is None else "https"
        self.peer = _ends(transport, "peername")[0]
        self.server = "{}:{}".format(*_ends(transport, "sockname"))
        self.front.state.connections.add(self)
        self._wait(self.front.asking)
        if not self.front.addresses.enter(self.peer):
            self._refuse(_Refused(429, self.front.addresses.sentence))

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self.front.state.connections.discard(self)
        self.front.addresses.leave(self.peer)
        self.front.stalled.end(self)
        self.front.uploading.end(self)
        self._wait(None)
        self.is_gone = self._is_deaf = True
        # The parser holds our methods: without this, only the collector of garbage would free the two.
        self._parser = None
        lost = [] if self._answering is None else [self._answering, *(self._waiting or ())]
        self._answering = self._coming = self._waiting = None
        for request in lost:
            request.lost()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._is_deaf:
            return
        parser = self._parser
        if parser is None:
            parser = self._parser = httptools.HttpRequestParser(self)
        self._progress = False
        self._chunk = len(data)
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as problem:
            cause = problem.__context__
            refused = _Refused(400, "Invalid HTTP request received.")
            self._refuse(cause if isinstance(cause, _Refused) else refused)
        if self._coming is not None or self._headers is not None:
            self._mind_the_rest()
        self.advance()

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self.is_stuffed = True
        self._unsent = self.transport.get_write_buffer_size()
        self.front.stalled.begin(self)

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self.is_stuffed = False
        self.front.stalled.end(self)
        if self._answering is not None:
            self._answering.drained()
        self.advance()

    # What the server does

    def shutdown(self) -> None:
        """Close as soon as what is under way is answered."""
        self._is_deaf = True
        self._waiting = None
        if self._answering is None:
            self.transport.close()
        else:
            self._answering.keeps = False

    def give_up(self) -> None:
        """The client kept us waiting for too long."""
        self._is_deaf = True
        self._waits = None
        self.transport.close()

    def look_whether_stalled(self) -> None:
        """Hang up when the client has taken nothing since we last looked."""
        unsent = self.transport.get_write_buffer_size()
        if unsent >= self._unsent:
            self.transport.abort()
        else:
            self._unsent = unsent
            self.front.stalled.begin(self)

    # What the parser does

    def on_message_begin(self) -> None:
        """A request begins."""
        self._url = b""
        self._headers = {}

    def on_url(self, url: bytes) -> None:
        """The target of the request, or a piece of it."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; what looks like one behind a body is none."""
        headers = self._headers
        if headers is None:
            return
        known = NAMES.get(name) or name.lower().decode("latin-1")
        if known in headers and known in _ONCE:
            # Whoever stands before us may go by the first, and we by the last.
            raise _Refused(400, f"A request has one {known.title()} header.")
        headers[known] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The head is whole: somebody can begin to answer."""
        parser, headers = self._parser, self._headers
        assert parser is not None
        assert headers is not None
        if self._fed + self._chunk > HEAD_MOST_BYTES or len(headers) > HEADERS_MOST:
            self._check_size(headers)
        is_modern = parser.get_http_version() == "1.1"
        if is_modern and "host" not in headers:
            raise _Refused(400, "A request has a Host header.")
        wants_other = "upgrade" in headers and parser.should_upgrade()
        if wants_other and headers["upgrade"].lower() == "websocket":
            if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
                raise _Refused(400, "A request for a WebSocket has no body.")
            return
        self._headers = None
        self._progress = True
        method = parser.get_method().decode("ascii")
        path, query = target(self._url)
        keeps = is_modern and not wants_other and method != "CONNECT" and parser.should_keep_alive()
        self._line_up(Request(self, method, path, query, headers, is_modern, keeps))

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._progress = True
        if self._coming is not None:
            self._coming.took(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._progress = True
        self._fed = 0
        request, self._coming = self._coming, None
        if request is not None:
            self.front.uploading.end(self)
            request.took_all()
            # Whoever wants no further answer is not listened to.
            self._is_deaf = not request.keeps

    # Reading

    def pause_reading(self) -> None:
        """Take nothing more for now. Harmless when repeated."""
        if self._reads and not self.is_gone:
            self._reads = False
            self.transport.pause_reading()
            self._wait(None)

    def resume_reading(self) -> None:
        """Read on. Harmless when repeated."""
        if not self._reads and not self.is_gone:
            self._reads = True
            self.transport.resume_reading()
            if self._coming is not None or self._headers is not None:
                self._wait(self.front.asking)

    def release_parser(self) -> None:
        """Between two requests nothing is known that a new parser would not find out."""
        if self._coming is None and self._headers is None:
            self._parser = None

    def _line_up(self, request: Request) -> None:
        if self._answering is None:
            self._answering = request
            self._wait(None)
        else:
            self._waiting = self._waiting or deque()
            if len(self._waiting) >= WAITING_MOST:
                raise _Refused(400, "Too many requests before the first answer.")
            self._waiting.append(request)
            self.pause_reading()
        self._coming = request

    def began_upload(self) -> None:
        """Somebody reads a body that has not come yet: all of it has one deadline, however it trickles."""
        self.front.uploading.begin(self)

    def _wait(self, waits: Waits["Connection"] | None) -> None:
        """What the client may keep us waiting for now."""
        if self._waits is not None:
            self._waits.end(self)
        self._waits = waits
        if waits is not None:
            waits.begin(self)

    def _mind_the_rest(self) -> None:
        """More of a request is to come: it may neither take for ever nor grow without end."""
        self._fed = 0 if self._progress else self._fed + self._chunk
        if self._fed > HEAD_MOST_BYTES:
            self._refuse(_Refused(431, "The head of the request is too large."))
        elif self._reads and not self._is_deaf and (self._progress or self._waits is not self.front.asking):
            self._wait(self.front.asking)

    def _check_size(self, headers: dict[str, str]) -> None:
        size = len(self._url) + sum(len(name) + len(value) + 4 for name, value in headers.items())
        if size > HEAD_MOST_BYTES or len(headers) > HEADERS_MOST:
            raise _Refused(431, "The head of the request is too large.")

    def _refuse(self, refused: _Refused) -> None:
        """What comes cannot be understood: answer what came before, say so, and close."""
        if self._is_deaf:
            return
        self._is_deaf = True
        self._parser = self._headers = None
        coming, self._coming = self._coming, None
        self._refusal = refused
        if coming is not None and not coming.is_over:
            coming.broke()
        elif self._answering is None:
            self._say_refusal(refused)

    def _say_refusal(self, refused: _Refused) -> None:
        said = str(refused).encode()
        lines = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(self.front.head(refused.status) + lines % len(said) + said)
        self._hang_up()

    def _hang_up(self) -> None:
        """Close, but not before a client that is still talking had time to hear why."""
        if self.is_gone or not self.transport.can_write_eof():
            self.transport.close()
            return
        self.transport.write_eof()
        self._reads = True
        self.transport.resume_reading()
        self._wait(self.front.resting)

    def _upgrade(self, rest: bytes) -> None:
        """Another protocol goes on from here, if it is one that we speak."""
        headers = self._headers
        if headers is None:
            self._is_deaf = True
            return
        if self._answering is not None:
            self._refuse(_Refused(400, "A WebSocket needs a connection of its own."))
            return
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        assert self._parser is not None
        head = b"%b %b HTTP/1.1\r\n%b\r\n" % (self._parser.get_method(), self._url, lines.encode("latin-1"))
        self._headers = self._parser = None
        self._is_deaf = True
        self._wait(None)
        self.front.state.connections.discard(self)
        # From here on its door counts it.
        self.front.addresses.leave(self.peer)
        socket = self.front.socket()
        socket.connection_made(self.transport)
        self.transport.set_protocol(socket)
        socket.data_received(head + rest)

    # Answering

    def advance(self) -> None:
        """Begin with the next request, unless the client does not even take the answers that it has."""
        if self._is_advancing:
            return
        self._is_advancing = True
        while self._answering is not None and not self._answering.is_begun and not self.is_stuffed:
            self._answering.begin()
        self._is_advancing = False

    def answered(self, request: Request) -> None:
        """The answer to the first request is sent."""
        self._answering = self._waiting.popleft() if self._waiting else None
        if not request.keeps:
            self._part_with(request)
        elif self._answering is not None:
            self.advance()
        elif self._refusal is not None:
            self._say_refusal(self._refusal)
        else:
            is_between = self._coming is None and self._headers is None
            self._wait(self.front.resting if is_between else self.front.asking)
            if not self._reads:
                self.resume_reading()

    def _part_with(self, request: Request) -> None:
        """Nothing is answered after this; what follows is not even read."""
        still_talks = self._coming is request or self._refusal is not None
        self._is_deaf = True
        self._answering = self._coming = self._waiting = self._headers = None
        if still_talks:
            self._hang_up()
        else:
            self.transport.close()


def _ends(transport: asyncio.BaseTransport, which: str) -> tuple[str, int]:
    """The address of one end of the connection; on a socket of the file system it has none."""
    name: Any = transport.get_extra_info(which)
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else ("", 0)  # pyright: ignore[reportUnknownArgumentType]
