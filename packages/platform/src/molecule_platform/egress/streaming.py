"""One request whose answer may be long in coming: its head first, then its bytes as they arrive."""

import asyncio
from collections.abc import Awaitable, Mapping
from types import TracebackType
from typing import Self

from molecule_platform.egress import heads
from molecule_platform.egress.connection import ClientConnection
from molecule_platform.egress.connector import Outbound
from molecule_platform.egress.errors import BodyTooLarge, NoResponse
from molecule_platform.egress.heads import TargetOrigin


def opened(
    outbound: Outbound,
    url: str,
    *,
    headers: Mapping[str, str],
    data: bytes | None,
    seconds: float,
    most_bytes: int,
    method: str = "POST",
    whom: str = "the agent",
    head_seconds: float | None = None,
) -> "StreamingResponse":
    """Use as `async with opened(...) as answer`: sends, and waits for the head of the answer.

    `seconds` are for all of the answer, `head_seconds` for its head alone.
    Raises `guard.UnsafeUrl` or `UnsafeHeader` before anything is sent, `NoAnswer` when the other side fails.
    """
    way = outbound.way(url)
    request = heads.request(way, method, headers, data)
    return StreamingResponse(outbound, way, request, seconds, most_bytes, whom, head_seconds)


class StreamingResponse:
    """What the other side answers: the status and headers that came, and the body that is still to come.

    `is_stream` tells whether that body is a stream of events.
    """

    __slots__ = (
        "_connection",
        "_head_seconds",
        "_most_bytes",
        "_outbound",
        "_request",
        "_seconds",
        "_way",
        "_whom",
        "is_stream",
        "status",
    )

    _connection: ClientConnection
    status: int
    is_stream: bool

    def __init__(
        self,
        outbound: Outbound,
        way: TargetOrigin,
        request: bytes,
        seconds: float,
        most_bytes: int,
        whom: str,
        head_seconds: float | None,
    ) -> None:
        self._outbound = outbound
        self._way = way
        self._request = request
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._whom = whom
        self._head_seconds = head_seconds

    async def __aenter__(self) -> Self:
        deadline = asyncio.get_running_loop().time() + self._seconds
        connection = await self._outbound.connection(self._way, deadline, self._whom)
        try:
            connection.send(self._request, deadline, self._most_bytes, self._whom)
            self._request = b""
            if self._head_seconds is None:
                await connection.head()
            else:
                async with asyncio.timeout(self._head_seconds):
                    await connection.head()
        except TimeoutError as problem:
            connection.close()
            raise NoResponse(f"{self._whom} did not begin to answer in time", sent=True) from problem
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self.status, self.is_stream = connection.status, connection.is_stream
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Only a connection whose answer came to its end can carry another one; any other is closed.
        self._outbound.release(self._way, self._connection)

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers by their names in small letters."""
        return {
            name.lower().decode("latin-1"): value.decode("latin-1")
            for name, value in self._connection.headers
        }

    async def body(self) -> bytes:
        """The whole body. Raises `NoAnswer` or `AnswerTooLarge`."""
        connection, most_bytes = self._connection, self._most_bytes
        parts: list[bytes] = []
        size = 0
        while not parts or not connection.complete:
            parts.append(await connection.read_all())
            size += len(parts[-1])
            if size > most_bytes:
                raise BodyTooLarge(f"{self._whom}'s answer is larger than {most_bytes} bytes")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @property
    def has_unread(self) -> bool:
        """Whether a piece of the body waits to be taken."""
        return self._connection.has_unread

    def piece(self) -> Awaitable[bytes]:
        """What has come of the body since the last piece; nothing at its end. Raises `NoAnswer`.

        From then on the headers are not known any more.
        """
        return self._connection.piece()
