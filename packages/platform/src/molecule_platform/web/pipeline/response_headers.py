"""Headers of responses: for safety, for CORS and of limits."""

import re

from molecule_platform.web.pipeline.calls import Response
from molecule_platform.web.pipeline.request import EdgeSettings, Request

_SECURITY = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"strict-origin-when-cross-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)
_HSTS = (b"strict-transport-security", b"max-age=31536000")
_API = {
    "content-security-policy": (
        b"content-security-policy",
        b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    "cache-control": (b"cache-control", b"no-store"),
}


# The headers of an ordinary JSON response.
_PLAIN = (*_SECURITY, *_API.values(), (b"content-type", b"application/json"))
_BREAKS = re.compile(rb"[\r\n\0]")

_METHODS = "GET, POST, PUT, PATCH, DELETE, OPTIONS"
_REQUEST_HEADERS = (
    "Authorization, Content-Type, X-Workspace-ID, X-Molecule-Org-Id, X-CSRF-Token, X-Request-Id, "
    "Idempotency-Key, Last-Event-ID, A2A-Version, A2A-Extensions, If-Match, If-None-Match, X-Timeout, Prefer"
)
_EXPOSED_HEADERS = (
    "X-Request-Id, Retry-After, X-Next-Cursor, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, "
    "ETag, A2A-Extensions, Idempotency-Replayed"
)


def cors(arrival: Request, edge: EdgeSettings) -> dict[str, str]:
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


def preflight() -> Response:
    """The answer to a browser that asks before it sends."""
    allowed = (
        ("access-control-allow-methods", _METHODS),
        ("access-control-allow-headers", _REQUEST_HEADERS),
        ("access-control-max-age", "600"),
    )
    return Response(None, 204, allowed)


def headers(reply: Response, arrival: Request, extra: dict[str, str]) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response. Raises `ValueError` for a value that would begin another header."""
    request_id = (b"x-request-id", arrival.request_id.encode())
    is_plain = reply.status == 200 and reply.content_type == "application/json"
    if is_plain and not (extra or reply.headers or arrival.is_secure):
        return [*_PLAIN, request_id]
    own = {**extra, **dict(reply.headers)} if extra or reply.headers else {}
    if "vary" in extra and own["vary"] != extra["vary"]:
        own["vary"] += f", {extra['vary']}"
    pairs = [*_SECURITY, request_id, *(pair for name, pair in _API.items() if name not in own)]
    for name, value in own.items():
        pairs.append((name.encode(), value.encode("latin-1")))
    if reply.status != 204:
        pairs.append((b"content-type", reply.content_type.encode()))
    if arrival.is_secure:
        pairs.append(_HSTS)
    if any(_BREAKS.search(name) or _BREAKS.search(value) for name, value in pairs):
        raise ValueError("a header has a line break or a NUL in it")
    return pairs
