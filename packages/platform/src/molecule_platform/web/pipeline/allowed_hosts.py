"""The names of this platform: links, cards and signatures are made for these and for no other `Host`."""

import functools
import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::(?P<port>[0-9]{1,5}))?")
_DEFAULT_PORTS = {"http": 80, "https": 443}
# This machine, as programs on it and in its containers call it.
_HERE = frozenset({"localhost", "host.docker.internal"})


class AllowedHosts:
    """An allow-list of host names, each with one port or with any (None)."""

    def __init__(self, urls: Iterable[str] = (), named: Iterable[str] = ()) -> None:
        self._ports: dict[str, set[int | None]] = {host: {None} for host in _HERE}
        for url in urls:
            parts = urlsplit(url)
            port = parts.port or _DEFAULT_PORTS[parts.scheme]
            self._ports.setdefault(_bare(parts.hostname or ""), set()).add(port)
        for name in named:
            host, port = _split(name) or ("", None)
            self._ports.setdefault(host, set()).add(port)

    def allows(self, authority: str, server: str) -> bool:
        """Whether a `Host` is ours. `server` is the address, with its port, where the connection came in."""
        split = _split(authority)
        if split is None:
            # Who names no host comes by the address itself.
            return authority == server
        host, port = split
        ports = self._ports.get(host)
        # A proxy in front leaves a default port out, whatever scheme it speaks itself.
        if ports is not None and (port is None or None in ports or port in ports):
            return True
        bound, _, bound_port = server.rpartition(":")
        return _is_loopback(host) or (host, str(port)) == (_bare(bound), bound_port)


@functools.lru_cache(maxsize=1024)
def _split(authority: str) -> tuple[str, int | None] | None:
    match = _AUTHORITY.fullmatch(authority.lower())
    if match is None:
        return None
    return _bare(match["host"]), None if match["port"] is None else int(match["port"])


def _bare(host: str) -> str:
    return host.strip("[]").removesuffix(".")


@functools.lru_cache(maxsize=1024)
def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.endswith(".localhost")
