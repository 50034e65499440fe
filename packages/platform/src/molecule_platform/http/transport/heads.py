"""Parts of a request's head: the usual names of headers, and the target."""

import httptools

# The names that most clients send, in the two ways they are usually written.
_USUAL = """
    accept accept-encoding accept-language authorization connection content-length content-type cookie expect
    host idempotency-key last-event-id origin prefer referer traceparent transfer-encoding user-agent
    x-request-id x-timeout x-workspace-id a2a-version a2a-extensions
"""
NAMES = {spelled.encode(): name for name in _USUAL.split() for spelled in (name, name.title())}


def target(url: bytes) -> tuple[str, bytes]:
    """The path and the query of a request, as they were written: decoding is for who knows their parts."""
    if url[:1] == b"/" and b"#" not in url:
        raw, _, query = url.partition(b"?")
    else:
        parsed = httptools.parse_url(url)
        raw, query = parsed.path or b"/", parsed.query or b""
    return raw.decode("ascii"), query
