"""Connections to checked addresses and nothing else. The only importer of the HTTP client."""

import errno
import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import aiohttp
import yarl
from aiohttp import abc

from molecule_platform.egress import guard

CONNECT_SECONDS = 5.0
_IDLE_SECONDS = 15.0

_AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]


class Outbound:
    """A pool of connections under one policy.

    No redirects, no cookies, no proxies from the environment, certificates verified, five seconds to connect
    and otherwise no timeout but the caller's. A kept connection leads to the address it was checked for;
    every new one resolves its host once, checks all answers, and connects to one of these very addresses.
    Make it and close it on the same running event loop.
    """

    def __init__(self, policy: guard.Policy, resolver: guard.Resolver = guard.system_resolver) -> None:
        self._policy = policy
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                resolver=_CheckingResolver(policy, resolver),
                socket_factory=_socket_factory(policy),
                use_dns_cache=False,
                limit=0,
                keepalive_timeout=_IDLE_SECONDS,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity"},
            skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
            timeout=_timeout(None, None),
            trust_env=False,
        )

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
        total_seconds: float | None = None,
        read_seconds: float | None = None,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Use as `async with outbound.request(...) as response`.

        Raises `guard.UnsafeUrl` before anything is sent, here or while connecting; `aiohttp.ClientError` or
        `TimeoutError` when the other side fails. A 3xx is an answer like any other.
        """
        checked = guard.check_url(url, self._policy)
        return self._session.request(
            method,
            yarl.URL(checked.url, encoded=True),
            headers=headers,
            data=data,
            allow_redirects=False,
            timeout=_timeout(total_seconds, read_seconds),
        )

    async def close(self) -> None:
        """Close every connection. Harmless when repeated."""
        await self._session.close()


class _CheckingResolver(abc.AbstractResolver):
    def __init__(self, policy: guard.Policy, resolver: guard.Resolver) -> None:
        self._policy = policy
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[abc.ResolveResult]:
        found = await guard.checked_addresses(host, port, self._policy, self._resolver)
        return [_pinned(host, address, port) for address in found]

    async def close(self) -> None:
        """Nothing is held between questions."""


def _pinned(host: str, address: str, port: int) -> abc.ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return abc.ResolveResult(
        hostname=host, host=address, port=port, family=family, proto=socket.IPPROTO_TCP, flags=flags
    )


def _socket_factory(policy: guard.Policy) -> Callable[[_AddressInfo], socket.socket]:
    """The last gate: whatever read the URL, no socket is made for an address that does not pass."""

    def make(info: _AddressInfo) -> socket.socket:
        family, kind, protocol, _, place = info
        try:
            guard.check_address(str(place[0]), policy)
        except guard.UnsafeUrl as problem:
            raise PermissionError(errno.EACCES, str(problem)) from problem
        return socket.socket(family=family, type=kind, proto=protocol)

    return make


def _timeout(total: float | None, read: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=total, sock_read=read, connect=CONNECT_SECONDS, sock_connect=CONNECT_SECONDS
    )
