"""The outgoing URL guard: which URLs may be called at all, decided before anything is sent.

`check_url` and `check_address` are pure. `resolve_and_check` asks a resolver once and checks every answer;
`egress.connector` connects to nothing else.
"""

import asyncio
import functools
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from molecule_platform.egress import addresses

MAX_URL_CHARACTERS = 2048
MAX_ADDRESSES = 64
RESOLVE_SECONDS = 5.0
DEFAULT_PORTS = {"http": 80, "https": 443}

_VISIBLE_ASCII = re.compile(r"[!-\[\]-~]+")
_HOST_NAME = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*"
)
_AUTHORITY = re.compile(r"(?:\[(?P<bracketed>[^\[\]]+)\]|(?P<name>[^\[\]:]+))(?::(?P<port>[0-9]{0,9}))?")
_LOOKS_NUMERIC = re.compile(r"(.*\.)?(0x[0-9a-f]*|[0-9]+)")

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to the texts of its addresses; raises `OSError` when there are none."""


class UnsafeUrl(Exception):
    """The URL may not be called. The text says why and, where one exists, which setting allows it."""


class UnresolvedHost(OSError):
    """The name has no address right now. Nothing is wrong with the URL itself: try again later."""


@dataclass(frozen=True)
class Policy:
    """Which loopback and private networks may be called, and the setting that says so."""

    allowed: tuple[addresses.Network, ...]
    setting: str


@dataclass(frozen=True)
class CheckedUrl:
    """A URL whose form is sound; `address` is set when its host is an address rather than a name."""

    url: str
    scheme: str
    host: str
    port: int
    address: addresses.Address | None


@dataclass(frozen=True)
class CheckedTarget:
    """Where a URL leads: every address passed the guard. `tls_name` is what the certificate must name."""

    host: str
    port: int
    addresses: tuple[str, ...]
    tls_name: str | None
    url: str


def agent_policy(allow_private_urls: Iterable[str]) -> Policy:
    """For addresses of agents: `loopback`, `private` and networks, as in `MOLECULE_ALLOW_PRIVATE_URLS`."""
    allowed = [network for word in allow_private_urls for network in _networks(word)]
    return Policy(tuple(allowed), "MOLECULE_ALLOW_PRIVATE_URLS")


def caller_policy(push_allow_private: bool) -> Policy:
    """For URLs that callers name, push notifications for instance."""
    words = ("loopback", "private") if push_allow_private else ()
    return Policy(agent_policy(words).allowed, "MOLECULE_PUSH_ALLOW_PRIVATE")


def check_address(address: str, policy: Policy) -> addresses.Address:
    """Read one address and refuse it unless the policy lets it be called."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise UnsafeUrl(f"{_shown(address)} is not an IP address.") from None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.scope_id is not None:
        raise UnsafeUrl(
            f"{_shown(address)} names a network interface; addresses with a zone are never called."
        )
    for form in addresses.forms_of(parsed):
        _check_form(form, address, policy)
    return parsed


@functools.lru_cache(maxsize=4096)
def check_url(url: str, policy: Policy) -> CheckedUrl:
    """Refuse everything that can be refused without asking a resolver."""
    parts = _split(url)
    host, address, port = _authority(parts)
    if address is not None:
        check_address(host, policy)
    elif host == "localhost" or host.endswith(".localhost"):
        check_address("127.0.0.1", policy)
    return CheckedUrl(_rebuilt(parts, host, port), parts.scheme, host, port, address)


async def resolve_and_check(url: str, policy: Policy, resolver: Resolver | None = None) -> CheckedTarget:
    """Ask for all addresses of the host once; every one must pass. Raises `UnsafeUrl` or `UnresolvedHost`."""
    checked = check_url(url, policy)
    found = [checked.host]
    if checked.address is None:
        found = await checked_addresses(checked.host, checked.port, policy, resolver or system_resolver)
    tls_name = checked.host if checked.scheme == "https" else None
    return CheckedTarget(checked.host, checked.port, tuple(found), tls_name, checked.url)


async def checked_addresses(host: str, port: int, policy: Policy, resolver: Resolver) -> list[str]:
    """All addresses of a name, each of them allowed."""
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            answers = await resolver(host, port)
    except (OSError, UnicodeError) as problem:
        raise UnresolvedHost(f"{host} has no address: check the name and your DNS.") from problem
    if not answers:
        raise UnresolvedHost(f"{host} has no address: check the name and your DNS.")
    return [str(check_address(answer, policy)) for answer in dict.fromkeys(answers[:MAX_ADDRESSES])]


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """The operating system's answer."""
    loop = asyncio.get_running_loop()
    answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(answer[4][0]) for answer in answers]


def _networks(word: str) -> list[addresses.Network]:
    if word in (addresses.AddressScope.LOOPBACK.value, addresses.AddressScope.PRIVATE.value):
        return [rule.network for rule in addresses.RULES if rule.reach.value == word]
    return [ipaddress.ip_network(word)]


def _check_form(form: addresses.Address, shown: str, policy: Policy) -> None:
    rule = addresses.rule_for(form)
    if rule is None:
        return
    if rule.reach is addresses.AddressScope.NEVER:
        raise UnsafeUrl(f"{shown} is {rule.what}, which is never called: use a public address.")
    if not any(form in network for network in policy.allowed):
        raise UnsafeUrl(f"{shown} is {rule.what}, which is called only if {policy.setting} allows it.")


def _split(url: str) -> SplitResult:
    if len(url) > MAX_URL_CHARACTERS:
        raise UnsafeUrl(f"The URL is longer than {MAX_URL_CHARACTERS} characters.")
    if not _VISIBLE_ASCII.fullmatch(url):
        raise UnsafeUrl(
            "A URL is visible ASCII without backslashes: percent-encode the path and write the host as xn--…"
        )
    try:
        parts = urlsplit(url)
    except ValueError:
        raise UnsafeUrl("The URL cannot be read: write http://host:port/path.") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise UnsafeUrl("Only http:// and https:// URLs are called.")
    if "@" in parts.netloc:
        raise UnsafeUrl("A URL with a user name or password is not called: remove everything before the @.")
    return parts


def _authority(parts: SplitResult) -> tuple[str, addresses.Address | None, int]:
    match = _AUTHORITY.fullmatch(parts.netloc.lower())
    if match is None:
        raise UnsafeUrl("The host and port of the URL cannot be read: write http://host:port/path.")
    address = _literal(match)
    host = str(address) if address is not None else _name(match["name"] or match["bracketed"])
    return host, address, _port(match["port"], parts.scheme)


def _literal(match: re.Match[str]) -> addresses.Address | None:
    try:
        if match["bracketed"]:
            return ipaddress.IPv6Address(match["bracketed"])
        return ipaddress.IPv4Address(match["name"].removesuffix("."))
    except ValueError:
        return None


def _name(text: str) -> str:
    host = text.removesuffix(".")
    if not _HOST_NAME.fullmatch(host):
        raise UnsafeUrl(
            f"{_shown(text)} is not a host that can be called: write a DNS name or an IP address."
        )
    if _LOOKS_NUMERIC.fullmatch(host):
        raise UnsafeUrl(f"{_shown(text)} is not an address: write IPv4 as four decimal numbers.")
    return host


def _port(text: str | None, scheme: str) -> int:
    if text is None:
        return DEFAULT_PORTS[scheme]
    port = int(text) if text else 0
    if not 1 <= port <= 65535:
        raise UnsafeUrl("The port of a URL is a number from 1 to 65535.")
    return port


def _rebuilt(parts: SplitResult, host: str, port: int) -> str:
    """From the checked pieces alone, so that no other reader of URLs can see another host in it."""
    place = f"[{host}]" if ":" in host else host
    if port != DEFAULT_PORTS[parts.scheme]:
        place = f"{place}:{port}"
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{place}{parts.path or '/'}{query}"


def _shown(text: str) -> str:
    return repr(text[:80])
