"""One request on a connection, and how it is answered."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from molecule_platform.api.exchange import Exchange, Gone, Overloaded, Stream, TooLarge
from molecule_platform.http.transport.telling import Telling

if TYPE_CHECKING:
    from molecule_platform.http.transport.connection import Connection

UNREAD_MOST_BYTES = 64 * 1024

# An answer above this is written piece by piece: a transport keeps copies of what it cannot send at once.
LARGE_BYTES = 1024 * 1024
PIECE_BYTES = 256 * 1024

_CLOSE = b"connection: close\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_FAILED = b"Internal Server Error"
_PLAIN = b"content-type: text/plain; charset=utf-8\r\n"
_WITHOUT_BODY: Final = (204, 304)
_NO_HEADERS: dict[str, str] = {}


class _Pieces(Stream):
    """A whole answer as a stream of its pieces."""

    def __init__(self, content: bytes) -> None:
        self._content = memoryview(content)

    def begin(self, call: Callable[[], None]) -> None:
        """See `Stream`; everything there is to say is there already."""

    def ready(self) -> bytes | None:
        """See `Stream`."""
        piece, self._content = bytes(self._content[:PIECE_BYTES]), self._content[PIECE_BYTES:]
        return piece or None

    async def next(self) -> bytes | None:
        """See `Stream`; nothing comes after the last piece."""

    def close(self) -> None:
        """See `Stream`."""
        self._content = memoryview(b"")


def _nothing() -> None:
    """What there is to do when a large answer is sent."""


class Request(Exchange):
    """See `Exchange`."""

    __slots__ = (
        "_body",
        "_connection",
        "_count",
        "_is_broken",
        "_is_refused",
        "_is_started",
        "_is_whole",
        "_left",
        "_most",
        "_news",
        "_telling",
        "_task",
        "is_begun",
        "is_modern",
        "is_over",
        "keeps",
    )

    def __init__(
        self,
        connection: "Connection",
        method: str,
        path: str,
        query: bytes,
        headers: dict[str, str],
        is_modern: bool,
        keeps: bool,
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.scheme = connection.scheme
        self.peer = connection.peer
        self.server = connection.server
        # Whether the client knows HTTP/1.1, and whether the connection stays open after the answer.
        self.is_modern = is_modern
        self.keeps = keeps
        self._connection = connection
        self._body: bytes | bytearray = b""
        # How much of the body somebody wants to read; nobody yet.
        self._most: int | None = None
        # Who counts it, and has said that there is no room.
        self._count: Callable[[int], bool] | None = None
        self._is_refused = False
        self._is_whole = self._is_broken = self._is_started = False
        self.is_begun = self.is_over = False
        # Whoever waits for more of the body, for room to write, or for the end of the connection.
        self._news: asyncio.Future[None] | None = None
        self._left: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._telling: Telling | None = None

    # What comes

    def took(self, body: bytes) -> None:
        """A piece of the body; after the answer it is thrown away."""
        if self.is_over:
            return
        if not self._body:
            self._body = body
        elif isinstance(self._body, bytes):
            self._body = bytearray(self._body) + body
        else:
            self._body += body
        if self._count is not None and not self._count(len(body)):
            self._is_refused = True
        if self._is_refused or len(self._body) > (UNREAD_MOST_BYTES if self._most is None else self._most):
            self._connection.pause_reading()
            self._wake()

    def took_all(self) -> None:
        """The body is whole."""
        self._is_whole = True
        self._wake()

    def broke(self) -> None:
        """What was to be the rest of the body is none."""
        self.keeps = False
        self._is_broken = True
        self._wake()

    def lost(self) -> None:
        """The connection is gone."""
        self._is_broken = True
        self._wake()
        if self._left is not None and not self._left.done():
            self._left.set_result(None)
        if self._telling is not None:
            telling, self._telling = self._telling, None
            telling.stop()
        elif self._is_started and not self.is_over and self._task is not None:
            self._task.cancel()

    def drained(self) -> None:
        """There is room to write again."""
        if self._telling is not None:
            self._telling.go()
        elif self._is_started:
            self._wake()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def _more(self) -> None:
        self._news = self._connection.front.loop.create_future()
        try:
            await self._news
        finally:
            self._news = None

    # Reading

    @property
    def is_gone(self) -> bool:
        """See `Exchange`."""
        return self._connection.is_gone

    async def gone(self) -> None:
        """See `Exchange`."""
        if self._left is None:
            self._left = self._connection.front.loop.create_future()
        if not self.is_gone:
            await asyncio.shield(self._left)

    def whole_body(self, most: int) -> bytes | None:
        """See `Exchange`."""
        return bytes(self._body) if self._is_whole and len(self._body) <= most else None

    async def body(self, most: int, count: Callable[[int], bool] | None = None) -> bytes:
        """See `Exchange`."""
        self._most, self._count = most, count
        if not self._is_whole:
            self._connection.began_upload()
        if count is not None and not count(len(self._body)):
            raise Overloaded
        if not self._is_whole and self.headers.get("expect", "").lower() == "100-continue":
            self._connection.transport.write(_CONTINUE)
        while not (self._is_whole or self._is_broken or self._is_refused) and len(self._body) <= most:
            self._connection.resume_reading()
            await self._more()
        if len(self._body) > most:
            raise TooLarge
        if self._is_refused:
            raise Overloaded
        if not self._is_whole:
            raise Gone
        # A large body is not kept twice.
        body, self._body = bytes(self._body), b""
        return body

    # Being answered

    def begin(self) -> None:
        """Have it answered, beside everything else."""
        self.is_begun = True
        front = self._connection.front
        # A name of its own would be written out for each.
        self._task = front.loop.create_task(self._serve(), name="request")
        front.state.tasks.add(self._task)

    async def _serve(self) -> None:
        front = self._connection.front
        try:
            await front.house.serve(self)
        except Exception as problem:  # noqa: BLE001 - the client gets an answer, the log gets the rest
            self._fail(problem)
        except BaseException:
            self._connection.transport.abort()
            raise
        finally:
            task, self._task = self._task, None
            if task is not None:
                front.state.tasks.discard(task)
        if not self._is_started:
            self._fail(RuntimeError("the request was not answered"))

    def _fail(self, problem: Exception) -> None:
        self._connection.front.log.error("request failed", path=self.path, exc_info=problem)
        self.keeps = False
        if self._is_started:
            self._connection.transport.abort()
        else:
            self.answer(500, _PLAIN, _FAILED)

    # Answering

    def answer(self, status: int, lines: bytes, body: bytes) -> None:
        """See `Exchange`."""
        self._is_started = True
        connection = self._connection
        if connection.is_gone:
            self.is_over = True
            return
        end = b"\r\n" if self.keeps else b"connection: close\r\n\r\n"
        if status in _WITHOUT_BODY:
            body = b""
        else:
            end = b"content-length: %d\r\n%b" % (len(body), end)
        content = b"" if self.method == "HEAD" else body
        head = b"".join((connection.front.head(status), lines, end))
        if len(content) <= LARGE_BYTES:
            connection.transport.write(head + content)
            self._finish()
            return
        # Its length is known, so its pieces need no frames; the client takes them as fast as it can.
        self.is_modern = False
        connection.transport.write(head)
        self._telling = Telling(self, connection, _Pieces(content), _nothing)
        self._telling.begin()

    async def tell(
        self, status: int, lines: bytes, chunks: AsyncGenerator[bytes], length: int | None = None
    ) -> None:
        """See `Exchange`."""
        if length is not None:
            # Whoever knows how much comes needs no other framing.
            self.is_modern = False
            lines += b"content-length: %d\r\n" % length
        self._start(status, lines)
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    self.say(chunk)
                    if self._connection.is_stuffed:
                        await self._more()
        except asyncio.CancelledError:
            if not self.is_gone:
                raise
            if self._task is not None:
                self._task.uncancel()
        self.end()

    def follow(self, status: int, lines: bytes, stream: Stream, ended: Callable[[], None]) -> None:
        """See `Exchange`."""
        self._start(status, lines)
        self._telling = Telling(self, self._connection, stream, ended)
        self._telling.begin()

    def _start(self, status: int, lines: bytes) -> None:
        """The head of an answer whose length nobody knows. What the request said is not needed any more."""
        self._is_started = True
        if not self.is_gone:
            framing = b"transfer-encoding: chunked\r\n" if self.is_modern else b""
            ending = b"\r\n" if self.keeps else b"connection: close\r\n\r\n"
            head = self._connection.front.head(status)
            self._connection.transport.write(b"".join((head, lines, framing, ending)))
            self._connection.release_parser()
        self.path, self.query, self.headers, self._body = "", b"", _NO_HEADERS, b""

    def say(self, chunk: bytes) -> None:
        """A piece of an answer that is told."""
        if chunk and not self.is_gone:
            framed = b"%x\r\n%b\r\n" % (len(chunk), chunk) if self.is_modern else chunk
            self._connection.transport.write(framed)

    def end(self) -> None:
        """An answer that was told is over."""
        self._telling = None
        if self.is_over or self.is_gone:
            self.is_over = True
            return
        if self.is_modern:
            self._connection.transport.write(b"0\r\n\r\n")
        self._finish()

    def _finish(self) -> None:
        self.is_over = True
        self._body = b""
        self._connection.answered(self)
