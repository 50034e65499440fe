"""The head of a request as bytes: one line each, and no value that could begin another."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from molecule_platform.egress.errors import UnsafeHeader
from molecule_platform.egress.guard import CheckedUrl

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# These say where a request ends and whom it is for, which is never the caller's to say.
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "expect"})
_CONTROLS = bytes(code for code in (*range(32), 127) if code != 9)


@dataclass(frozen=True, slots=True)
class TargetOrigin:
    """How a URL is asked: which connections lead there, and what every request to it says first."""

    place: CheckedUrl
    key: tuple[str, str, int]
    target: bytes
    first_headers: bytes


def way_to(place: CheckedUrl) -> TargetOrigin:
    """Read from the checked URL alone."""
    authority, _, rest = place.url.removeprefix(f"{place.scheme}://").partition("/")
    first_headers = f" HTTP/1.1\r\nHost: {authority}\r\nAccept-Encoding: identity\r\n"
    key = (place.scheme, place.host, place.port)
    return TargetOrigin(place, key, f"/{rest}".encode("ascii"), first_headers.encode("ascii"))


def request(way: TargetOrigin, method: str, headers: Mapping[str, str], data: bytes | None) -> bytes:
    """The whole request, ready for one write. Raises `UnsafeHeader`."""
    said = _encoded(_lines(tuple(headers)) % tuple(headers.values()))
    if len(said) - len(said.translate(None, _CONTROLS)) != 2 * len(headers):
        raise UnsafeHeader("A header's value has a line break or another control character in it.")
    start = method.encode("ascii") + b" " + way.target + way.first_headers
    if data is None:
        return start + said + b"\r\n"
    return b"%b%bContent-Length: %d\r\n\r\n%b" % (start, said, len(data), data)


def _encoded(lines: str) -> bytes:
    try:
        return lines.encode()
    except UnicodeEncodeError:
        # The error would carry all headers along, secrets among them.
        raise UnsafeHeader("A header's value is not text.") from None


@functools.lru_cache(maxsize=256)
def _lines(names: tuple[str, ...]) -> str:
    """The lines of headers, with a place for each of their values: few sets of names are ever sent."""
    for name in names:
        if not _TOKEN.fullmatch(name):
            raise UnsafeHeader("A header's name is letters, digits and hyphens.")
        if name.lower() in _OURS:
            raise UnsafeHeader(f"The header {name} is written by the connection: leave it out.")
    return "".join(name.replace("%", "%%") + ": %s\r\n" for name in names)
