"""A request as it arrives: what its line, its headers and the way it came tell, before anyone is asked."""

import ipaddress
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from molecule_platform.domain.errors import ApiError
from molecule_platform.web.exchange import HttpInput
from molecule_platform.web.pipeline.allowed_hosts import AllowedHosts
from molecule_wire import ids
from molecule_wire.ids import random_word
from molecule_wire.jsonlimits import DEFAULT_LIMITS, JSONLimits

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# A request that brings no id of its own gets one of this process.
_PROCESS, _NUMBERS = ids.uuid7(), itertools.count(1)

_NO_QUERY: dict[str, list[str]] = {}
_NOTHING = HttpInput("", "", b"", {})
SESSION_COOKIE = "molecule_session"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_TRACEPARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})")


@dataclass(frozen=True)
class EdgeSettings:
    """What the operator says about the outer wall."""

    max_body_bytes: int = 1024 * 1024
    a2a_max_body_bytes: int = 16 * 1024 * 1024
    plugin_max_body_bytes: int = 64 * 1024
    json: JSONLimits = DEFAULT_LIMITS
    work_max_bytes: int = 64 * 1024 * 1024
    principal_work_max_bytes: int = 32 * 1024 * 1024
    external_url: str | None = None
    cors_origins: frozenset[str] = frozenset()
    trusted_proxies: tuple[Network, ...] = ()
    hosts: AllowedHosts = field(default_factory=AllowedHosts)
    # Of one address, and requests of one principal or address that are not answered yet; 0 means no cap.
    max_connections: int = 2000
    max_open_requests: int = 1000
    # Streams of one principal to one agent.
    max_agent_streams: int = 32

    def is_proxy(self, address: str) -> bool:
        """Whether what comes from there comes from many."""
        return _is_trusted(address, self.trusted_proxies)

    def max_bytes(self, limit: Literal["api", "a2a", "plugin"]) -> int:
        """The largest body of a kind of route."""
        if limit == "api":
            return self.max_body_bytes
        return self.a2a_max_body_bytes if limit == "a2a" else self.plugin_max_body_bytes


class Request:
    """One request, before its route is known. What few requests need is worked out when it is asked for."""

    __slots__ = ("_edge", "_incoming", "_traceparent", "headers", "method", "path", "query", "request_id")

    def __init__(self, incoming: HttpInput, edge: EdgeSettings) -> None:
        self.method = incoming.method
        self.path = incoming.path
        self.headers = incoming.headers
        given = self.headers.get("x-request-id")
        self.request_id = given if given and _REQUEST_ID.fullmatch(given) else new_request_id()
        text = incoming.query
        self.query = parse_qs(text.decode("latin-1"), keep_blank_values=True) if text else _NO_QUERY
        self._incoming = incoming
        self._edge = edge
        self._traceparent = ""

    def release(self) -> None:
        """Keep what names the request and let the rest go: the answer may take hours."""
        assert self.traceparent
        self._incoming = _NOTHING
        self.headers, self.query = _NOTHING.headers, _NO_QUERY

    @property
    def max_agent_streams(self) -> int:
        """Streams of one principal to one agent that may be open at the same time."""
        return self._edge.max_agent_streams

    @property
    def is_proxied(self) -> bool:
        """Whether a trusted proxy brought it."""
        trusted = self._edge.trusted_proxies
        return bool(trusted) and _is_trusted(self._incoming.peer, trusted)

    @property
    def address(self) -> str:
        """Where the caller is; what a proxy says of it counts only when the proxy is trusted."""
        peer = self._incoming.peer
        return _client(peer, self.headers, self._edge.trusted_proxies) if self.is_proxied else peer

    @property
    def base_url(self) -> str:
        """The origin that the caller used, or the one that the operator says is ours."""
        return self._edge.external_url or base_url(self._incoming, proxied=self.is_proxied)

    def check_host(self) -> None:
        """Refuse a name that is not ours: a card or a link that is made for it would vouch for a stranger."""
        if self._edge.external_url and self.is_proxied:
            return
        host = authority(self._incoming, proxied=self.is_proxied)
        if not self._edge.hosts.allows(host, self._incoming.server):
            sentence = (
                f"{host[:100]!r} is not a name of this platform: use its own address, or let its operator"
            )
            raise ApiError("misdirected-request", f"{sentence} add the name to MOLECULE_ALLOWED_HOSTS")

    @property
    def is_secure(self) -> bool:
        """Whether the caller came over TLS."""
        behind = self._edge.external_url or self._edge.trusted_proxies
        return self.base_url.startswith("https:") if behind else self._incoming.scheme in ("https", "wss")

    @property
    def traceparent(self) -> str:
        """The trace goes on with a step of our own; without one, or with a malformed one, it begins here."""
        if not self._traceparent:
            given = self.headers.get("traceparent")
            known = _TRACEPARENT.fullmatch(given.strip().lower()) if given else None
            trace, flags = known.groups() if known else (random_word() + random_word(), "00")
            self._traceparent = f"00-{trace}-{random_word()}-{flags}"
        return self._traceparent

    @property
    def begins_trace(self) -> bool:
        """Whether the caller named no trace to go on with."""
        given = self.headers.get("traceparent")
        return given is None or self.trace_id not in given.lower()

    @property
    def trace_id(self) -> str:
        """The trace that this request belongs to."""
        return self.traceparent.split("-")[1]

    @property
    def bearer(self) -> str | None:
        """The token of the Authorization header, if it is one."""
        return bearer_token(self.headers)

    @property
    def session(self) -> str | None:
        """The session of the Cookie header, if there is one."""
        cookies = self.headers.get("cookie")
        return None if cookies is None else session_cookie(cookies, self.session_name)

    @property
    def session_name(self) -> str:
        """The cookie of a session. Browsers do not tell the ports of a host apart, so its name does."""
        base = self.base_url
        port = re.search(r":([0-9]{1,5})$", urlsplit(base).netloc)
        return f"{SESSION_COOKIE}_{port[1] if port else 443 if base.startswith('https:') else 80}"

    @property
    def is_from_own_page(self) -> bool:
        """Whether a browser says that the request comes from our own page, or from one the operator lists."""
        said = self.headers.get("origin") or self.headers.get("referer", "")
        parts = urlsplit(said)
        origin = f"{parts.scheme}://{parts.netloc}"
        return origin == self.base_url or origin in self._edge.cors_origins

    def first(self, name: str) -> str | None:
        """A parameter of the query."""
        return self.query[name][0] if name in self.query else None

    def check_text(self) -> None:
        """No database keeps a NUL in a text, and no honest request has one."""
        path, query = self.path, self.query
        if "%00" in path or "\0" in path or (query and "\0" in "".join(itertools.chain(*query.values()))):
            raise ApiError("invalid-request", "no path and no query may contain NUL", field="path")


def base_url(incoming: HttpInput, *, proxied: bool = False) -> str:
    """The origin that the caller used; what a proxy says of it counts only when the proxy is trusted."""
    scheme = incoming.scheme.replace("ws", "http")
    if proxied:
        scheme = incoming.headers.get("x-forwarded-proto", scheme).split(",")[0].strip()
    return f"{scheme}://{authority(incoming, proxied=proxied)}"


def authority(incoming: HttpInput, *, proxied: bool = False) -> str:
    """The host, with its port, that the caller named."""
    host = incoming.headers.get("host") or incoming.server
    return incoming.headers.get("x-forwarded-host", host).split(",")[0].strip() if proxied else host


def bearer_token(headers: Mapping[str, str]) -> str | None:
    """The token of the Authorization header, if it is one."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() or None if kind.lower() == "bearer" else None


def session_cookie(cookies: str, name: str) -> str | None:
    """The session in a Cookie header, if there is one; a client may also send it without the port."""
    found: dict[str, str] = {}
    for pair in cookies.split(";"):
        key, _, value = pair.strip().partition("=")
        if key in (name, SESSION_COOKIE) and value:
            found.setdefault(key, value.strip('"'))
    return found.get(name) or found.get(SESSION_COOKIE)


def new_request_id() -> str:
    """A name for a request that brings none."""
    return f"{_PROCESS}-{next(_NUMBERS):x}"


def _is_trusted(address: str, trusted: Sequence[Network]) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(parsed in network for network in trusted)


def _client(peer: str, headers: Mapping[str, str], trusted: Sequence[Network]) -> str:
    """The nearest address that no trusted proxy has: whatever stands left of it could be made up."""
    for hop in reversed([hop.strip() for hop in headers.get("x-forwarded-for", "").split(",")]):
        if not _is_trusted(hop, trusted):
            return hop[:64] or peer
    return peer
