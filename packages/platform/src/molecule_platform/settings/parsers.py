"""From what an operator wrote to a value, or to a sentence about what is allowed."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

Parser = Callable[[str], object]
"""Raises `ValueError` with what is allowed, as the end of a sentence that starts with 'must be'."""

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


class SettingProblem(Exception):
    """A setting is malformed. The text names it and says what is allowed; it never shows a secret's value."""


def text(value: str) -> str:
    """Any text."""
    return value


def flag(value: str) -> bool:
    """true or false, in the usual spellings."""
    if value.lower() in (*_TRUE, *_FALSE):
        return value.lower() in _TRUE
    raise ValueError("true or false")


def whole(lowest: int, highest: int) -> Parser:
    """A whole number within bounds."""

    def parse(value: str) -> int:
        try:
            number = int(value) if value.isascii() else lowest - 1
        except ValueError:
            number = lowest - 1
        if not lowest <= number <= highest:
            raise ValueError(f"a whole number from {lowest} to {highest}")
        return number

    return parse


def seconds(lowest: float, highest: float) -> Parser:
    """A number of seconds within bounds, fractions allowed."""

    def parse(value: str) -> float:
        try:
            number = float(value)
        except ValueError:
            number = lowest - 1
        if not lowest <= number <= highest:
            raise ValueError(f"a number of seconds from {lowest:g} to {highest:g}")
        return number

    return parse


def duration(lowest: int, highest: int) -> Parser:
    """Seconds, as `300`, `300s` or `5m`."""

    def parse(value: str) -> float:
        match = re.fullmatch(r"([0-9]{1,9})(s|m|h)?", value)
        seconds = int(match[1]) * {None: 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else lowest - 1
        if not lowest <= seconds <= highest:
            raise ValueError(f"a time such as 300, 300s or 5m, from {lowest} to {highest} seconds")
        return float(seconds)

    return parse


def choice(meanings: Mapping[str, str]) -> Parser:
    """One of a few words, each standing for a value."""

    def parse(value: str) -> str:
        if value.lower() not in meanings:
            raise ValueError("one of " + ", ".join(meanings))
        return meanings[value.lower()]

    return parse


def folder(value: str) -> Path:
    """An absolute folder; `~` is the home directory."""
    try:
        return Path(value).expanduser().absolute()
    except RuntimeError:
        raise ValueError("a path whose ~ stands for a known home directory") from None


def folders(value: str) -> tuple[str, ...]:
    """Absolute folders, separated by commas."""
    words = [word.strip() for word in value.split(",") if word.strip()]
    if not all(word.startswith("/") and ".." not in word.split("/") for word in words):
        raise ValueError("absolute paths without .., separated by commas")
    return tuple(words)


def host(value: str) -> str:
    """An address or name to listen on, without a port."""
    if any(character.isspace() or character in "/@[]" for character in value):
        raise ValueError("an IP address or a host name, without a port")
    return value


def base_url(value: str) -> str:
    """An http(s) URL to which paths are appended."""
    parts = _split(value)
    if parts is None or parts.scheme not in ("http", "https") or "@" in parts.netloc:
        raise ValueError(
            "an http:// or https:// URL without a user name, such as https://molecule.example.com"
        )
    if parts.query or parts.fragment:
        raise ValueError("a URL without ? and #")
    return value.rstrip("/")


def source_url(value: str) -> str:
    """A base URL over https; plain http only on this machine."""
    parts = urlsplit(base_url(value))
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise ValueError("an https:// URL; plain http:// only with an address of this machine")
    return value.rstrip("/")


def is_loopback(host: str) -> bool:
    """Whether a host of a URL is this machine, by its address or as localhost."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def database_url(value: str) -> str:
    """`postgresql://…`, or SQLite as `sqlite:///path`; a plain absolute path means the latter."""
    if value.startswith(("/", "~")):
        return f"sqlite:///{Path(value).expanduser().absolute()}"
    scheme, _, rest = value.partition("://")
    if scheme == "sqlite" and len(rest) > 1 and rest.startswith("/"):
        return value
    if scheme in ("postgres", "postgresql") and _split(value) is not None:
        return f"postgresql://{rest}"
    raise ValueError("postgresql://user:password@host:port/database or the absolute path of an SQLite file")


def nats_url(value: str) -> str:
    """One or more `nats://` or `tls://` servers, separated by commas."""
    for server in value.split(","):
        parts = _split(server.strip())
        if parts is None or parts.scheme not in ("nats", "tls"):
            raise ValueError("nats://host:port or tls://host:port, several separated by commas")
    return value


def header_token(value: str) -> str:
    """What fits into an Authorization header."""
    if len(value) < 8 or not value.isascii() or any(not "!" <= character <= "~" for character in value):
        raise ValueError("at least 8 visible ASCII characters without spaces")
    return value


def private_networks(value: str) -> tuple[str, ...]:
    """`none`, or `loopback`, `private` and networks, separated by commas."""
    words = [word.strip().lower() for word in value.split(",") if word.strip()]
    if words == ["none"]:
        return ()
    return tuple(dict.fromkeys(_network_word(word) for word in words))


def slug(value: str) -> str:
    """A short name for addresses."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", value):
        raise ValueError("1 to 63 small letters, digits and hyphens")
    return value


def origins(value: str) -> frozenset[str]:
    """Origins of pages, as a browser names them, separated by commas."""
    words = frozenset(word.strip().rstrip("/") for word in value.split(",") if word.strip())
    for word in words:
        parts = _split(word)
        if parts is None or parts.scheme not in ("http", "https") or parts.path or parts.query:
            raise ValueError("origins such as https://app.example.com, separated by commas")
    return words


def hosts(value: str) -> frozenset[str]:
    """Hosts with their ports, separated by commas; without a port it is that of https."""
    found: set[str] = set()
    for word in (word.strip().lower() for word in value.split(",") if word.strip()):
        parts = _split(f"https://{word}")
        if parts is None or parts.hostname is None or parts.netloc != word or "@" in word:
            raise ValueError("hosts such as keys.example.com or keys.example.com:8443, separated by commas")
        found.add(f"{parts.hostname}:{parts.port or 443}")
    return frozenset(found)


def host_names(value: str) -> tuple[str, ...]:
    """Hosts with or without a port, separated by commas."""
    words = tuple(word.strip().lower() for word in value.split(",") if word.strip())
    for word in words:
        parts = _split(f"http://{word}")
        if parts is None or parts.hostname is None or parts.netloc != word or "@" in word:
            raise ValueError("hosts such as molecule or molecule.internal:8080, separated by commas")
    return words


def networks(value: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """Addresses and networks, separated by commas."""
    try:
        return tuple(ipaddress.ip_network(word.strip()) for word in value.split(",") if word.strip())
    except ValueError:
        raise ValueError("addresses or networks such as 10.0.0.0/8, separated by commas") from None


def _network_word(word: str) -> str:
    if word in ("loopback", "private"):
        return word
    try:
        return str(ipaddress.ip_network(word))
    except ValueError:
        raise ValueError(
            "none, or a comma-separated list of loopback, private and networks such as 10.1.0.0/16"
        ) from None


def _split(value: str) -> SplitResult | None:
    """The parts of a URL that names a host and, if any, a real port."""
    try:
        parts = urlsplit(value)
        readable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    has_space = any(character.isspace() for character in value)
    return parts if readable and not has_space else None
