"""One HTTP/1.1 connection: a request goes out in one write, its answer is read as it comes."""

import asyncio
import select
import socket
from typing import cast

import httptools

from molecule_platform.egress.errors import NoResponse

MAX_HEAD_BYTES = 64 * 1024
MAX_UNREAD_BYTES = 64 * 1024
EVENT_STREAM = b"text/event-stream"

_NO_BODY = frozenset({204, 304})
_NOTHING: list[tuple[bytes, bytes]] = []


class UnsolicitedData(Exception):
    """Something came that no request asked for, or more of it than is taken."""


class ClientConnection(asyncio.Protocol):
    """Carries one request at a time. Whoever asks reads the answer, then lets it rest or closes it.

    The reader is woken for the head of a stream and for each piece of it, and otherwise once: when the answer
    is whole, when as much of it waits as may wait, or when it breaks off.
    """

    __slots__ = (
        "_eager",
        "_enough",
        "_fault",
        "_framed",
        "_gone",
        "_goodbyes",
        "_has_head",
        "_head_bytes",
        "_idle_bytes",
        "_keep",
        "_loop",
        "_open_ones",
        "_parser",
        "_paused",
        "_pieces",
        "_progress",
        "_timer",
        "_transport",
        "_unread",
        "_waiter",
        "_whom",
        "complete",
        "headers",
        "idle_since",
        "is_stream",
        "status",
    )

    def __init__(
        self, endpoint: socket.socket, loop: asyncio.AbstractEventLoop, open_ones: set["ClientConnection"]
    ) -> None:
        self._loop = loop
        self._open_ones = open_ones
        self._goodbyes = select.poll()
        self._goodbyes.register(endpoint, select.POLLIN)
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._gone = self._paused = False
        self.complete = True
        self.idle_since = 0.0
        self._forget("")

    def _forget(self, whom: str) -> None:
        """Make room for the next answer."""
        self._whom = whom
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._fault: str | None = None
        self.is_stream = self._has_head = self._keep = self._eager = self._progress = self._framed = False
        self._unread = self._head_bytes = self._idle_bytes = 0
        self._enough = MAX_UNREAD_BYTES

    # What the asker does

    def send(self, request: bytes, deadline: float, most_bytes: int, whom: str) -> None:
        """Send a request. Raises `NoAnswer` when the connection is gone already."""
        if self._gone or self._transport is None:
            raise NoResponse(f"the connection to {whom} broke", sent=False)
        self._forget(whom)
        self._enough = min(most_bytes, MAX_UNREAD_BYTES)
        self.complete = False
        self._timer = self._loop.call_at(deadline, self._too_late)
        self._transport.write(request)

    async def head(self) -> None:
        """Wait until status and headers are known. Raises `NoAnswer`."""
        while not (self.complete or self._has_head and (self._eager or self._unread > self._enough)):
            await self._news()

    @property
    def has_unread(self) -> bool:
        """Whether something of the body has come that nobody has taken yet."""
        return bool(self._pieces)

    async def read_all(self) -> bytes:
        """Wait until the rest of the body is here, and take it; or for the first bytes over the limit."""
        while not self.complete and self._unread <= self._enough:
            await self._news()
        return self._taken()

    async def piece(self) -> bytes:
        """Take what has come of the body, at least a byte; nothing at its end. Raises `NoAnswer`."""
        self._eager = True
        # A stream may go on for hours, and thousands may at once.
        self.headers = _NOTHING if self._has_head else self.headers
        while not self._pieces and not self.complete:
            await self._news()
        return self._taken()

    def _news(self) -> "asyncio.Future[None]":
        """What to wait for until something comes. Raises `NoAnswer` when nothing will."""
        if self._fault is not None:
            raise NoResponse(self._fault, sent=True)
        self._waiter = self._loop.create_future()
        return self._waiter

    def _taken(self) -> bytes:
        pieces = self._pieces
        taken = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._unread = 0
        if self._paused and self._transport is not None and not self._gone:
            self._paused = False
            self._transport.resume_reading()
        return taken

    # What the pool does

    def drain(self) -> bool:
        """Stand ready for another request, if the answer was whole and the other side agrees."""
        clean = self.complete and self._keep and not self._gone and not self._paused
        if not clean or self._transport is None or self._transport.get_write_buffer_size():
            return False
        self._pieces = []
        self.idle_since = self._loop.time()
        return True

    def is_ready(self) -> bool:
        """Whether the connection still stands: a socket that has anything to say now says goodbye."""
        if self._gone or self._transport is None or self._transport.is_closing():
            return False
        return not self._goodbyes.poll(0)

    def close(self) -> None:
        """Close at once, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()
        self._end(f"the connection to {self._whom} broke")

    # What the event loop does

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast(asyncio.Transport, transport)
        self._open_ones.add(self)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._parser is None:
            return
        self._progress = False
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._misunderstood()
            return
        if self._has_head and self.status in _NO_BODY and not self.complete:
            self._completed(keep=False)
        self._idle_bytes = 0 if self._progress else self._idle_bytes + len(data)
        if self._idle_bytes > MAX_HEAD_BYTES:
            self._misunderstood()
            return
        self._mind_the_unread()
        if self._eager or self.complete or self._unread > self._enough:
            self._wake()

    def eof_received(self) -> None:
        """See `asyncio.Protocol`."""
        if not self.complete and self._has_head and not self._framed:
            self._completed(keep=False)
        self._end(f"the connection to {self._whom} broke")

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._end(f"the connection to {self._whom} broke")
        # The parser holds our methods: without this, only the collector of garbage would free the two.
        self._parser = self._transport = None
        self._open_ones.discard(self)

    def _mind_the_unread(self) -> None:
        if self._unread > MAX_UNREAD_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _misunderstood(self) -> None:
        fault = f"{self._whom} did not answer in HTTP"
        if self._head_bytes > MAX_HEAD_BYTES or self._idle_bytes > MAX_HEAD_BYTES:
            fault = f"{self._whom} answered with a head of more than {MAX_HEAD_BYTES} bytes"
        self._end(fault)
        if self._transport is not None:
            self._transport.abort()

    def _too_late(self) -> None:
        self._end(f"{self._whom} did not answer in time")
        if self._transport is not None:
            self._transport.abort()

    def _completed(self, keep: bool) -> None:
        self.complete = True
        self._keep = keep
        self._progress = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, fault: str) -> None:
        """Nothing more will come; what is complete stays so."""
        self._gone = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.complete and self._fault is None:
            self._fault = fault
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # What the parser does

    def on_message_begin(self) -> None:
        """An answer begins: one that was asked for, it must be."""
        if self.complete:
            raise UnsolicitedData

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or at the end of a body something like it."""
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > MAX_HEAD_BYTES:
            raise UnsolicitedData
        if not self._has_head:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is whole, unless it only says that one will come."""
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < 200:
            self.headers.clear()
            return
        self.status = status
        self._has_head = self._progress = True
        self._read_head()

    def _read_head(self) -> None:
        """Whether a stream of events follows, and whether its end is told otherwise than by closing."""
        media = None
        for name, value in self.headers:
            match name.lower():
                case b"content-length":
                    self._framed = True
                case b"transfer-encoding":
                    self._framed |= value.strip().lower().endswith(b"chunked")
                case b"content-type" if media is None:
                    media = value.partition(b";")[0].strip().lower()
                case _:
                    pass
        self.is_stream = self._eager = media == EVENT_STREAM

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._progress = True
        self._unread += len(body)
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        """The answer is whole."""
        if self._has_head and not self.complete and self._parser is not None:
            self._completed(self._parser.should_keep_alive())
