"""The HTTP session of the SDK: `requests`, without its habit of adding credentials on its own."""

import os
from contextvars import ContextVar
from http.cookiejar import DefaultCookiePolicy
from urllib.parse import urljoin, urlsplit

import requests
from requests.adapters import BaseAdapter, HTTPAdapter

import molecule_wire

POOL_SIZE = 10

traceparent: ContextVar[str] = ContextVar("molecule_traceparent", default="")
"""The W3C trace context of the work in hand; sent along with every call made inside it."""


class PlatformSession(requests.Session):
    """No `.netrc`, no cookies, no redirect to another origin, and new connections after a fork."""

    def __init__(self) -> None:
        super().__init__()
        self.auth = _add_trace_context
        self.headers["User-Agent"] = f"molecule-ai-sdk/{molecule_wire.__version__}"
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._connect()

    def get_adapter(self, url: str) -> BaseAdapter:
        """Choose the connections for a URL; those of a parent process are never used."""
        if self._pid != os.getpid():
            self._connect()
        return super().get_adapter(url)

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Follow a redirect only inside the origin that was asked."""
        target = super().get_redirect_target(resp)
        if target and origin_of(urljoin(resp.url, target)) != origin_of(resp.url):
            return None
        return target

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        """Keep the headers of the first request; the original would look into `.netrc` here."""

    def _connect(self) -> None:
        self._pid = os.getpid()
        for scheme in ("https://", "http://"):
            self.mount(scheme, HTTPAdapter(pool_connections=POOL_SIZE, pool_maxsize=POOL_SIZE))


def new_session() -> requests.Session:
    """A session of the SDK's own; where a test has put another class in its place, one of that."""
    return PlatformSession() if requests.Session is PlatformSession.__base__ else requests.Session()


def origin_of(url: str) -> str:
    """The `scheme://host[:port]` of a URL, in one spelling."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    default = {"http": 80, "https": 443}.get(parts.scheme)
    port = f":{parts.port}" if parts.port not in (None, default) else ""
    return f"{parts.scheme}://{host}{port}"


def _add_trace_context(request: requests.PreparedRequest) -> requests.PreparedRequest:
    # An `auth` that is set, though it authenticates nothing, keeps requests from reading `.netrc`.
    if context := traceparent.get():
        request.headers["traceparent"] = context
    return request
