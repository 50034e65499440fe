"""The HTTP client of the runtime: requests and replies as values of `molecule_wire.calls`, sent by httpx.

No other module knows httpx. It is loaded with the first request. Redirects are not followed, cookies and
`.netrc` are not used, bodies are bounded and come as they are, without compression.
"""

import asyncio
import ssl
from collections.abc import Mapping
from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode, urlsplit

from molecule_wire import JSON, callers, jsontext
from molecule_wire.calls import CallFailed, Reply, Request

if TYPE_CHECKING:
    import httpx

MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_CONNECTIONS = 100
# Longer than the time between two heartbeats, so that they share a connection.
KEEPALIVE_SECONDS = 60.0


class Timeouts(NamedTuple):
    """Seconds to wait for a connection, and then for the answer."""

    connect: float = 5.0
    read: float = 30.0


class _Pool:
    """The connections of one httpx client; closed when nobody uses them any more."""

    def __init__(self, client: "httpx.AsyncClient") -> None:
        self.client = client
        self.users = 0
        self.is_retired = False

    async def close_if_unused(self) -> None:
        if self.is_retired and self.users == 0:
            await self.client.aclose()


class HttpClient:
    """Sends requests to one origin over kept connections. It belongs to one event loop."""

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not an http(s) URL: {base_url!r}")
        self.base_url = base_url.rstrip("/")
        self._is_loopback = callers.is_loopback(parts.hostname)
        self._pool: _Pool | None = None

    async def send(
        self,
        request: Request,
        headers: Mapping[str, str],
        timeouts: Timeouts,
        max_bytes: int = MAX_BODY_BYTES,
    ) -> Reply:
        """Send one request, once. Raises OSError (TimeoutError among them) when no answer came.

        A larger answer than `max_bytes` is a `CallFailed`.
        """
        import httpx

        query = f"?{urlencode(request.params)}" if request.params else ""
        url = f"{self.base_url}{request.path}{query}"
        content = None if request.json is None else jsontext.encode(request.json)
        request_headers = {"Accept": "application/json", "Accept-Encoding": "identity", **headers}
        if content is not None:
            request_headers.setdefault("Content-Type", "application/json")
        timeout = httpx.Timeout(timeouts.read, connect=timeouts.connect, pool=timeouts.connect)
        pool = self._opened()
        pool.users += 1
        try:
            # httpx counts the time between two pieces; together they may not take longer either.
            async with (
                asyncio.timeout(timeouts.connect + timeouts.read),
                pool.client.stream(
                    request.method, url, headers=request_headers, content=content, timeout=timeout
                ) as response,
            ):
                body = await _bounded(response, max_bytes)
        except httpx.TimeoutException as problem:
            raise TimeoutError(f"{request.method} {request.path}: {type(problem).__name__}") from problem
        except httpx.HTTPError as problem:
            sentence = f"{request.method} {request.path}: {type(problem).__name__}: {problem}"
            raise ConnectionError(sentence) from problem
        finally:
            pool.users -= 1
            await pool.close_if_unused()
        return _reply(response.status_code, dict(response.headers), body)

    async def close(self) -> None:
        """Give the connections up; those in use are closed after their answer. A later request opens new."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.is_retired = True
            await pool.close_if_unused()

    def _opened(self) -> _Pool:
        if self._pool is None:
            self._pool = _Pool(self._new_client())
        return self._pool

    def _new_client(self) -> "httpx.AsyncClient":
        import httpx

        # Certificates of authorities take megabytes, and plain HTTP needs none.
        plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client = httpx.AsyncClient(
            verify=httpx.create_ssl_context() if self.base_url.startswith("https:") else plain,
            trust_env=not self._is_loopback,
            follow_redirects=False,
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=KEEPALIVE_SECONDS),
        )
        client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        return client


async def _bounded(response: "httpx.Response", max_bytes: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in response.aiter_raw():
        size += len(piece)
        if size > max_bytes:
            sentence = f"the answer is larger than {max_bytes} bytes"
            raise CallFailed(response.status_code, "invalid-agent-response", sentence)
        pieces.append(piece)
    return b"".join(pieces)


def _reply(status: int, headers: Mapping[str, str], body: bytes) -> Reply:
    decoded: JSON = None
    readable = True
    if body:
        try:
            decoded = jsontext.decode(body)
        except jsontext.NotJSON:
            readable = False
    return Reply(status, headers, decoded, readable)
