"""The HTTP client of the bridge, on httpx, which is loaded with the first request.

Every request has a connection of its own: a turn takes seconds, and what is cancelled is closed at once.
Redirects are not followed and bodies are bounded.
"""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlsplit

from molecule_wire import callers

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 10.0
MAX_BODY_BYTES = 32 * 1024 * 1024
EARLY_SECONDS = 1.0
"""A connection that is lost without an answer within this time was not worked on."""


class HermesUnreachable(Exception):
    """No answer came, or only a part of it. `kind` is the class of the error; the text names the place.

    `is_lost` when there was a connection and it broke: whoever had the request has ended.
    """

    def __init__(
        self,
        kind: str,
        place: str,
        *,
        is_early: bool = False,
        is_timeout: bool = False,
        is_lost: bool = False,
    ) -> None:
        super().__init__(f"{kind} {place}")
        self.kind = kind
        self.is_early = is_early
        self.is_timeout = is_timeout
        self.is_lost = is_lost


class HermesReply(NamedTuple):
    """A whole answer; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The decoded body; None when it is no JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


@dataclass(frozen=True)
class OpenReply:
    """An answer whose body is still to come."""

    status: int
    headers: Mapping[str, str]
    response: "httpx.Response"
    place: str

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises HermesUnreachable when it ends early."""
        import httpx

        try:
            async for piece in self.response.aiter_bytes():
                yield piece
        except httpx.HTTPError as problem:
            raise HermesUnreachable(
                type(problem).__name__, self.place, is_lost=_is_lost(problem)
            ) from problem

    async def read(self, max_bytes: int = MAX_BODY_BYTES, *, cut: bool = False) -> HermesReply:
        """The whole answer, or with `cut` its beginning. Raises HermesUnreachable when it is larger."""
        body = bytearray()
        async for piece in self.pieces():
            body += piece
            if len(body) > max_bytes:
                if cut:
                    break
                raise HermesUnreachable("AnswerTooLarge", self.place)
        return HermesReply(self.status, self.headers, bytes(body[:max_bytes]))


@asynccontextmanager
async def open_request(
    method: str, url: str, headers: Mapping[str, str], timeout: float, content: bytes | None = None
) -> AsyncGenerator[OpenReply]:
    """Send a request; leaving the block closes its connection. `timeout` is for all of it, in seconds.

    Raises HermesUnreachable when the connection fails, also inside the block.
    """
    import httpx

    place, began, is_answered = place_of(url), time.monotonic(), False
    for name, value in headers.items():
        # httpx would quote the value, which may be a key, in its exception.
        if not (value.isascii() and value.isprintable()):
            raise HermesUnreachable(f"header {name} cannot be sent", place)
    limits = httpx.Timeout(None, connect=CONNECT_SECONDS)
    try:
        async with (
            asyncio.timeout(timeout),
            await _new_client(url, limits) as client,
            client.stream(method, url, headers=dict(headers), content=content) as response,
        ):
            is_answered = True
            yield OpenReply(response.status_code, dict(response.headers), response, place)
    except (TimeoutError, httpx.TimeoutException) as problem:
        is_early = isinstance(problem, httpx.ConnectTimeout)
        raise HermesUnreachable(
            type(problem).__name__, place, is_early=is_early, is_timeout=True
        ) from problem
    except (httpx.HTTPError, httpx.InvalidURL) as problem:
        is_early = isinstance(problem, httpx.NetworkError | httpx.RemoteProtocolError)
        is_early = is_early and not is_answered and time.monotonic() - began < EARLY_SECONDS
        raise HermesUnreachable(
            type(problem).__name__, place, is_early=is_early, is_lost=_is_lost(problem)
        ) from problem


async def send(
    method: str, url: str, headers: Mapping[str, str], timeout: float, body: Any = None
) -> HermesReply:
    """Send a request once, `body` as JSON; the beginning of the answer is read. Raises HermesUnreachable."""
    content = None if body is None else json.dumps(body).encode()
    async with open_request(method, url, headers, timeout, content) as reply:
        return await reply.read(cut=True)


def as_object(value: Any) -> dict[str, Any]:
    """A JSON object; empty for any other value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def place_of(url: str) -> str:
    """Host and port of a URL."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
    except ValueError:
        return "an invalid address"


def _is_lost(problem: Exception) -> bool:
    import httpx

    broken = (httpx.ReadError, httpx.WriteError, httpx.CloseError, httpx.RemoteProtocolError)
    return isinstance(problem, broken)


async def _new_client(url: str, timeout: "httpx.Timeout") -> "httpx.AsyncClient":
    import httpx

    if url.startswith("https:"):
        # Reading the authorities' certificates takes tens of milliseconds.
        verify = await asyncio.to_thread(httpx.create_ssl_context)
    else:
        verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    is_loopback = callers.is_loopback(place_of(url).rpartition(":")[0])
    plain = {"Accept-Encoding": "identity"}
    return httpx.AsyncClient(verify=verify, trust_env=not is_loopback, timeout=timeout, headers=plain)
