"""The HTTP client of this package, on httpx, which no other module of it knows.

Redirects are not followed, cookies, proxies and `.netrc` are not used, and bodies are bounded. A name is
resolved once and the connection goes to the address that was checked, so a second answer of the name server
cannot lead anywhere else.
"""

import asyncio
import ipaddress
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    import httpx

MAX_BODY_BYTES = 32 * 1024 * 1024
CONNECT_SECONDS = 5.0


class AddressRefused(ValueError):
    """An address inside a private network, which a target from outside must not lead to."""


class HttpReply(NamedTuple):
    """One answer; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """Sends requests over kept connections. It belongs to one event loop."""

    def __init__(self, *, allow_private: bool = False) -> None:
        require_http()
        self._allow_private = allow_private
        self._client: httpx.AsyncClient | None = None

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        timeout: float,
        max_bytes: int = MAX_BODY_BYTES,
    ) -> HttpReply:
        """Send one request, once. Raises OSError (TimeoutError among them) when no answer came."""
        async with (
            asyncio.timeout(timeout),
            self.stream(method, url, headers=headers, content=content, timeout=timeout) as answer,
        ):
            pieces, size = list[bytes](), 0
            async for piece in answer.pieces():
                size += len(piece)
                if size > max_bytes:
                    raise ValueError(f"the answer is larger than {max_bytes} bytes")
                pieces.append(piece)
            return HttpReply(answer.status, answer.headers, b"".join(pieces))

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        timeout: float | None,
    ) -> AsyncGenerator["StreamingResponse"]:
        """Send one request and read its answer piece by piece. Raises OSError and AddressRefused."""
        import httpx

        pinned, host = await self._pinned(url)
        fields = {"accept-encoding": "identity", **(headers or {}), "host": host}
        limit = httpx.Timeout(timeout, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS)
        extensions = {"sni_hostname": urlsplit(url).hostname or ""}
        try:
            async with self._opened().stream(
                method, pinned, headers=fields, content=content, timeout=limit, extensions=extensions
            ) as response:
                yield StreamingResponse(response)
        except httpx.TimeoutException as problem:
            raise TimeoutError(f"{method} {origin(url)}: {type(problem).__name__}") from problem
        except httpx.HTTPError as problem:
            raise ConnectionError(f"{method} {origin(url)}: {type(problem).__name__}") from problem

    async def close(self) -> None:
        """Give the connections up; a later request opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _opened(self) -> "httpx.AsyncClient":
        import httpx

        if self._client is None:
            self._client = httpx.AsyncClient(trust_env=False, follow_redirects=False)
            self._client.cookies.jar.clear()
        return self._client

    async def _pinned(self, url: str) -> tuple[str, str]:
        """The URL with an address for its name, and what the header `Host` says."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise ValueError("a URL is http://… or https://…, without a user name")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        address = await self._address(parts.hostname, port)
        literal = f"[{address}]" if ":" in address else address
        pinned = urlunsplit((parts.scheme, f"{literal}:{port}", parts.path or "/", parts.query, ""))
        return pinned, parts.netloc

    async def _address(self, host: str, port: int) -> str:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except socket.gaierror as problem:
            raise ConnectionError(f"the name {host} is not known") from problem
        addresses = [str(entry[4][0]) for entry in found]
        # One private address among public ones is refused too: which of them is used is up to chance.
        if not self._allow_private and not all(is_public(address) for address in addresses):
            raise AddressRefused(f"{host} is an address of a private network: allow_private=True permits it")
        return addresses[0]


class StreamingResponse:
    """An answer whose body is still coming."""

    def __init__(self, response: "httpx.Response") -> None:
        self._response = response
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = {name.lower(): text for name, text in response.headers.items()}

    def pieces(self) -> AsyncGenerator[bytes, Any]:
        """The body as it comes."""
        return self._response.aiter_raw()  # type: ignore[return-value]


def origin(url: str) -> str:
    """Scheme, host and port of a URL: what a credential belongs to."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{(parts.hostname or '').lower()}:{port}"


def is_public(address: str) -> bool:
    """Whether an address belongs to nobody's private network; metadata services are link-local."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    return parsed.is_global and not parsed.is_multicast


def require_http() -> None:
    """Raise an `ImportError` that names the extra, unless httpx is installed."""
    try:
        import httpx  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as problem:
        sentence = "calls over HTTP need the extra 'http': pip install 'molecule-ai-skills[http]'"
        raise ImportError(sentence) from problem
