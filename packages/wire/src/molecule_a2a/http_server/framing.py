"""Strict framing: which heads of requests are refused, and the response that says so."""

from collections.abc import Iterable, Mapping

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from molecule_wire.a2a.server.bindings import refusal

MAX_HEAD_BYTES, MAX_HEADERS = 64 * 1024, 128

# Two readers of a request that repeats one of these may act on different values.
SINGLE_HEADERS = frozenset(
    {b"host", b"authorization", b"x-molecule-caller", b"content-length", b"transfer-encoding", b"upgrade"}
)
_CODES = {408: "timeout", 421: "misdirected-request", 429: "rate-limited", 503: "platform-unavailable"}


class RequestRefused(Exception):
    """A request that the server answers itself, with this status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status

    def response(self, default_headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        """Return the whole response; the connection closes after it."""
        reply = refusal(self.status, str(self), _CODES.get(self.status, "invalid-request"))
        lines = [STATUS_LINE[self.status]]
        lines += [b"%b: %b\r\n" % header for header in default_headers]
        lines.append(b"content-type: %b\r\ncontent-length: %d\r\n" % (reply.media.encode(), len(reply.body)))
        if self.status in (429, 503):
            lines.append(b"retry-after: 5\r\n")
        lines.append(b"connection: close\r\n\r\n")
        return b"".join([*lines, reply.body])


def head_too_large() -> RequestRefused:
    """Return the refusal of a head beyond the limits."""
    text = f"the head of a request has at most {MAX_HEADERS} headers and {MAX_HEAD_BYTES} bytes"
    return RequestRefused(431, text)


def check_head(version: str, single: Mapping[bytes, bytes]) -> None:
    """Check the version and the framing of a request by its unrepeatable headers. Raises RequestRefused."""
    if version not in ("1.1", "1.0"):
        raise RequestRefused(400, "speak HTTP/1.1")
    if version == "1.1" and b"host" not in single:
        raise RequestRefused(400, "send one Host header")
    coding = single.get(b"transfer-encoding")
    if coding is None:
        return
    if coding.strip().lower() != b"chunked":
        raise RequestRefused(501, "the only transfer coding is chunked")
    if version == "1.0" or b"content-length" in single:
        raise RequestRefused(400, "send either Content-Length or chunks; HTTP/1.0 has no chunks")


def split_target(method: str, url: bytes, host: bytes | None) -> tuple[bytes, bytes]:
    """Return path and query of a request target. Raises RequestRefused for one of another host."""
    target = httptools.parse_url(url)
    if url[:1] != b"/":
        if method == "CONNECT" or target.schema not in (b"http", b"https"):
            raise RequestRefused(400, "the target must be a path")
        # The authority of an absolute target counts, and the Host header repeats it.
        authority = url.partition(b"://")[2].partition(b"/")[0].partition(b"?")[0]
        if host is not None and authority.lower() != host.lower():
            raise RequestRefused(421, "the target names another host than the Host header")
    return target.path or b"/", target.query or b""
