"""Replies on their way out: bytes, headers of safety, of CORS and of limits."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

from molecule_platform.api.arrival import Arrival, Edge
from molecule_platform.api.calls import Reply

Send = Callable[[dict[str, Any]], Awaitable[None]]
# A client that takes nothing for so long is gone, whatever its socket says.
STALLED_SECONDS = 60.0

Gone = Callable[[], Awaitable[None]]

_SECURITY = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"strict-origin-when-cross-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)
_HSTS = (b"strict-transport-security", b"max-age=31536000")
_API = {
    "content-security-policy": (b"content-security-policy", b"default-src 'none'"),
    "cache-control": (b"cache-control", b"no-store"),
}

# The headers of an ordinary JSON answer, ready to send.
PLAIN = (*_SECURITY, *_API.values(), (b"content-type", b"application/json"))

_METHODS = "GET, POST, PUT, PATCH, DELETE, OPTIONS"
_REQUEST_HEADERS = (
    "Authorization, Content-Type, X-Workspace-ID, X-Molecule-Org-Id, X-CSRF-Token, X-Request-Id, "
    "Idempotency-Key, Last-Event-ID, A2A-Version, A2A-Extensions, If-Match, If-None-Match, X-Timeout, Prefer"
)
_EXPOSED_HEADERS = (
    "X-Request-Id, Retry-After, X-Next-Cursor, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, "
    "ETag, A2A-Extensions, Idempotency-Replayed"
)


def cors(arrival: Arrival, edge: Edge) -> dict[str, str]:
    """What a browser is told about reading this reply from another page: nothing, unless it is listed."""
    origin = arrival.headers.get("origin")
    if origin is None:
        return {}
    if origin != arrival.base_url and origin not in edge.cors_origins:
        return {"vary": "Origin"}
    return {
        "access-control-allow-origin": origin,
        "access-control-allow-credentials": "true",
        "access-control-expose-headers": _EXPOSED_HEADERS,
        "vary": "Origin",
    }


def preflight() -> Reply:
    """The answer to a browser that asks before it sends."""
    allowed = (
        ("access-control-allow-methods", _METHODS),
        ("access-control-allow-headers", _REQUEST_HEADERS),
        ("access-control-max-age", "600"),
    )
    return Reply(None, 204, allowed)


async def send(send: Send, reply: Reply, arrival: Arrival, extra: dict[str, str], gone: Gone) -> None:
    """Write the reply; a stream ends when it ends, or when the caller has gone."""
    headers = _headers(reply, arrival, extra)
    if reply.stream is not None:
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await _stream(send, reply.stream, gone)
        return
    body = reply.encoded()
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if arrival.method == "HEAD" else body})


def _headers(reply: Reply, arrival: Arrival, extra: dict[str, str]) -> list[tuple[bytes, bytes]]:
    name = (b"x-request-id", arrival.request_id.encode())
    is_plain = reply.status == 200 and reply.content_type == "application/json"
    if is_plain and not (extra or reply.headers or arrival.is_secure):
        return [*PLAIN, name]
    headers = [*_SECURITY, name]
    own = {**extra, **dict(reply.headers)} if extra or reply.headers else {}
    if "vary" in extra and own["vary"] != extra["vary"]:
        own["vary"] += f", {extra['vary']}"
    headers += [pair for name, pair in _API.items() if name not in own]
    headers += [(name.encode(), value.encode("latin-1")) for name, value in own.items()]
    if reply.status != 204:
        headers.append((b"content-type", reply.content_type.encode()))
    if arrival.is_secure:
        headers.append(_HSTS)
    return headers


async def _stream(send: Send, chunks: AsyncGenerator[bytes], gone: Gone) -> None:
    leaving = asyncio.ensure_future(gone())
    limit = asyncio.timeout(None)

    def end(_left: object) -> None:
        with suppress(RuntimeError):  # the stream may have ended in the same moment
            limit.reschedule(0)

    try:
        async with limit, aclosing(chunks):
            leaving.add_done_callback(end)
            async for chunk in chunks:
                async with asyncio.timeout(STALLED_SECONDS):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    except TimeoutError:
        # The caller has gone, or takes nothing any more.
        return
    finally:
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
