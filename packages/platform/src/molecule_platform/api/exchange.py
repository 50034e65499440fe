"""A request on its connection and the way to answer it: all that the house knows of whoever serves it."""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Protocol

Scope = Mapping[str, Any]


class Gone(Exception):
    """The caller hung up before its request was whole."""


class TooLarge(Exception):
    """The body is larger than it may be."""


class Overloaded(Exception):
    """There is no room for more of the body now."""


class Incoming:
    """What came before any body: the line and the headers of a request, and how it came."""

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
        # As it was written: a slash that is encoded separates nothing.
        self.path = path
        self.query = query
        # By their names in small letters.
        self.headers = headers
        self.scheme = scheme
        # The addresses of the two ends.
        self.peer = peer
        self.server = server


def of_socket(scope: Scope) -> Incoming:
    """The request that asks for a WebSocket, from its ASGI scope."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    host, port = scope.get("server") or ("localhost", 80)
    return Incoming(
        "GET",
        scope["path"],
        scope["query_string"],
        headers,
        scope.get("scheme", "ws"),
        str((scope.get("client") or ("",))[0]),
        f"{host}:{port}",
    )


class Stream(Protocol):
    """An answer that goes on for long. It calls when there is more to say; nobody waits for it meanwhile."""

    def begin(self, call: Callable[[], None]) -> None:
        """Call that function, from now on, whenever there may be something to say."""
        ...

    def ready(self) -> bytes | None:
        """What can be said at once, perhaps nothing; None when that can only be told by `next`."""
        ...

    async def next(self) -> bytes | None:
        """What is to be said now, perhaps nothing; None at the end."""
        ...

    def close(self) -> None:
        """Nobody listens any more. Harmless when repeated."""
        ...


async def pieces(stream: Stream) -> AsyncGenerator[bytes]:
    """What a stream says, for somebody who does wait for it."""
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


class Exchange(Incoming):
    """One request, and its answer: whole, or told as it comes."""

    __slots__ = ()

    @property
    @abstractmethod
    def is_gone(self) -> bool:
        """Whether the caller has hung up."""

    @abstractmethod
    async def gone(self) -> None:
        """Ends when the caller has hung up."""

    @abstractmethod
    async def body(self, most: int, count: Callable[[int], bool] | None = None) -> bytes:
        """The whole body; `count` is told of what came and says whether there is room for it.

        Raises `TooLarge`, `Overloaded` or `Gone`.
        """

    @abstractmethod
    def whole_body(self, most: int) -> bytes | None:
        """The whole body if it is here already and not larger than that."""

    @abstractmethod
    def answer(self, status: int, lines: bytes, body: bytes) -> None:
        """Send a whole answer. Each line of the head ends with CRLF; the length is added."""

    @abstractmethod
    async def tell(
        self, status: int, lines: bytes, chunks: AsyncGenerator[bytes], length: int | None = None
    ) -> None:
        """Send an answer piece by piece, until its end or until the caller is gone.

        With a length the pieces are exactly as many bytes together.
        """

    @abstractmethod
    def follow(self, status: int, lines: bytes, stream: Stream, ended: Callable[[], None]) -> None:
        """Begin an answer that the stream goes on with; `ended` is called once, when it is over."""
