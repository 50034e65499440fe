"""Connections to checked addresses and nothing else. The only place that opens any."""

import asyncio
import functools
import socket
import ssl

from molecule_platform.egress import guard, heads
from molecule_platform.egress.connection import ClientConnection
from molecule_platform.egress.errors import NoResponse
from molecule_platform.egress.heads import TargetOrigin

CONNECT_SECONDS = 5.0
IDLE_SECONDS = 15.0
SWEEP_SECONDS = 5.0

_KNOWN_URLS = 4096
# The event loop tells of a closed connection a turn later, and of one with TLS a few.
_GOODBYE_TURNS = 5


class Outbound:
    """A pool of connections under one policy.

    No redirects, no cookies, no proxies from the environment, certificates verified, five seconds to connect
    and otherwise no timeout but the caller's. A kept connection leads to the address it was checked for;
    every new one resolves its host once, checks all answers, and connects to one of these very addresses.
    Use it and close it on the same running event loop.
    """

    def __init__(self, policy: guard.Policy, resolver: guard.Resolver = guard.system_resolver) -> None:
        self._policy = policy
        self._resolver = resolver
        self._idle: dict[tuple[str, str, int], list[ClientConnection]] = {}
        self._open: set[ClientConnection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False
        self.way = functools.lru_cache(_KNOWN_URLS)(self._way)
        """How a URL is asked. Raises `guard.UnsafeUrl`."""

    async def connection(self, way: TargetOrigin, deadline: float, whom: str) -> ClientConnection:
        """One that was kept, or a new one. Raises `guard.UnsafeUrl` or `NoAnswer`."""
        kept = self._kept(way)
        if kept is not None:
            return kept
        self._check_open()
        connection = await self._connected(way, deadline, whom)
        try:
            self._check_open()
        except NoResponse:
            connection.close()
            raise
        return connection

    def release(self, way: TargetOrigin, connection: ClientConnection) -> None:
        """Keep a connection for the next request, if it can carry one."""
        if self._closed or not connection.drain():
            connection.close()
            return
        self._idle.setdefault(way.key, []).append(connection)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._close_the_rested)

    async def close(self) -> None:
        """Close every connection. Harmless when repeated."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        self._idle.clear()
        for connection in list(self._open):
            connection.close()
        for _ in range(_GOODBYE_TURNS):
            await asyncio.sleep(0)

    def _check_open(self) -> None:
        if self._closed:
            raise NoResponse("the platform is stopping", sent=False)

    def _way(self, url: str) -> TargetOrigin:
        return heads.way_to(guard.check_url(url, self._policy))

    def _kept(self, way: TargetOrigin) -> ClientConnection | None:
        kept = self._idle.get(way.key)
        while kept:
            connection = kept.pop()
            if connection.is_ready():
                return connection
            connection.close()
        return None

    def _close_the_rested(self) -> None:
        """Close what nobody asked anything for too long; come again as long as any is kept."""
        loop = asyncio.get_running_loop()
        oldest = loop.time() - IDLE_SECONDS
        for key, kept in list(self._idle.items()):
            rested = [connection for connection in kept if connection.idle_since <= oldest]
            kept[:] = [connection for connection in kept if connection.idle_since > oldest]
            for connection in rested:
                connection.close()
            if not kept:
                del self._idle[key]
        self._sweep = loop.call_later(SWEEP_SECONDS, self._close_the_rested) if self._idle else None

    async def _connected(self, way: TargetOrigin, deadline: float, whom: str) -> ClientConnection:
        try:
            async with asyncio.timeout_at(deadline):
                return await self._connect(way)
        except guard.UnresolvedHost as problem:
            raise NoResponse(str(problem), sent=False) from problem
        except ssl.SSLError as problem:
            sentence = f"{whom}'s address speaks no TLS, or its certificate does not prove who it is"
            raise NoResponse(sentence, sent=False) from problem
        except OSError as problem:
            raise NoResponse(f"{whom}'s address does not accept connections", sent=False) from problem

    async def _connect(self, way: TargetOrigin) -> ClientConnection:
        place = way.place
        found = [place.host]
        if place.address is None:
            found = await guard.checked_addresses(place.host, place.port, self._policy, self._resolver)
        limit = asyncio.get_running_loop().time() + CONNECT_SECONDS
        for left in range(len(found), 1, -1):
            try:
                return await self._reached(way, found[-left], _share(limit, left))
            except OSError:
                continue
        return await self._reached(way, found[-1], limit)

    async def _reached(self, way: TargetOrigin, address: str, limit: float) -> ClientConnection:
        endpoint = self._socket(address)
        async with asyncio.timeout_at(limit):
            try:
                await asyncio.get_running_loop().sock_connect(endpoint, (address, way.place.port))
            except BaseException:
                endpoint.close()
                raise
            return await self._opened(way, endpoint)

    def _socket(self, address: str) -> socket.socket:
        """The last gate: whatever led here, no socket is made for an address that does not pass."""
        family = (
            socket.AF_INET if guard.check_address(address, self._policy).version == 4 else socket.AF_INET6
        )
        endpoint = socket.socket(family, socket.SOCK_STREAM)
        endpoint.setblocking(False)
        endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return endpoint

    async def _opened(self, way: TargetOrigin, endpoint: socket.socket) -> ClientConnection:
        loop = asyncio.get_running_loop()
        secure = way.place.scheme == "https"
        _transport, connection = await loop.create_connection(
            lambda: ClientConnection(endpoint, loop, self._open),
            sock=endpoint,
            ssl=self._tls if secure else None,
            server_hostname=way.place.host if secure else None,
        )
        return connection

    @functools.cached_property
    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context


def _share(limit: float, addresses: int) -> float:
    """When to leave one of several addresses that does not answer, so that each gets its turn."""
    now = asyncio.get_running_loop().time()
    return now + (limit - now) / addresses
