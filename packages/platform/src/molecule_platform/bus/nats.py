"""The bus between replicas: NATS. The only importer of `nats`."""

import asyncio
import contextlib
import logging
from urllib.parse import urlsplit

from nats import errors
from nats.aio import client as nats_client
from nats.aio import msg as nats_message
from nats.aio import subscription as nats_subscription

from molecule_platform.bus import fanout
from molecule_platform.ports import bus

_PREFIX = "molecule."
_START_SECONDS = 5.0
_CONNECT_SECONDS = 2
_PAUSE_SECONDS = 1
_CONFIRM_SECONDS = 1
_PING_SECONDS = 5
_MAX_UNSENT_BYTES = 1024 * 1024

_TROUBLE = (errors.Error, OSError, TimeoutError)

log = logging.getLogger(__name__)


class NatsBus:
    """Serves its own process directly and the other replicas over NATS; see `ports.bus.Bus`."""

    def __init__(self, url: str) -> None:
        """`url` may name several servers, separated by commas; credentials in it are never logged."""
        self._servers = [server.strip() for server in url.split(",") if server.strip()]
        self._handlers = fanout.Fanout()
        self._client: nats_client.Client | None = None
        self._attached: dict[str, asyncio.Task[nats_subscription.Subscription | None]] = {}
        self._revival: asyncio.Task[None] | None = None
        self._drop_was_logged = False
        self._is_listening = False
        self._is_closed = False

    @property
    def shared(self) -> bool:
        """Other replicas meet here."""
        return True

    @property
    def healthy(self) -> bool:
        """Whether the connection to NATS stands and every subscription is known there."""
        return self._client is not None and self._client.is_connected and self._is_listening

    async def start(self) -> None:
        """Connect, or raise `BusUnavailable` within five seconds."""
        await self._adopt(await self._connect())

    async def close(self) -> None:
        """Disconnect for good and forget all subscriptions."""
        self._is_closed = True
        client, self._client = self._client, None
        self._handlers.clear()
        unfinished = [task for task in (self._revival, *self._attached.values()) if task is not None]
        self._revival = None
        self._attached = {}
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        found_meanwhile, self._client = self._client, None
        for one in (client, found_meanwhile):
            if one is not None:
                await _hang_up(one)

    async def publish(self, subject: str, payload: bytes) -> None:
        """Serve this process, then hand the message to NATS or drop it."""
        fanout.check_subject(subject)
        fanout.check_payload(payload)
        if self._client is None:
            return
        self._handlers.deliver(subject, payload)
        await self._send(self._client, subject, payload)

    async def subscribe(self, subject: str, handler: bus.Handler) -> bus.Subscription:
        """Call `handler` for what is published here or on another replica from now on."""
        fanout.check_pattern(subject)
        seat = self._handlers.add(subject, handler)
        await self._attach(subject)
        return _NatsSubscription(self, seat)

    async def release(self, seat: fanout.Subscriber) -> None:
        """Free one seat, and NATS's subscription with the last of its pattern."""
        task = self._attached.pop(seat.pattern, None) if self._handlers.remove(seat) else None
        if task is None:
            return
        subscription = await task
        if subscription is not None:
            with contextlib.suppress(*_TROUBLE):
                await subscription.unsubscribe()

    async def _connect(self) -> nats_client.Client:
        client = nats_client.Client()
        last_error = "no answer"

        async def remember(problem: Exception) -> None:
            nonlocal last_error
            last_error = _in_short(problem)
            log.debug("NATS reports %s.", last_error)

        async def on_closed() -> None:
            self._lost(client)

        try:
            async with asyncio.timeout(_START_SECONDS):
                await client.connect(
                    servers=self._servers,
                    name="molecule",
                    no_echo=True,
                    allow_reconnect=False,
                    max_reconnect_attempts=1,
                    reconnect_time_wait=_PAUSE_SECONDS,
                    connect_timeout=_CONNECT_SECONDS,
                    ping_interval=_PING_SECONDS,
                    error_cb=remember,
                    closed_cb=on_closed,
                )
        except _TROUBLE as problem:
            await _hang_up(client)
            raise bus.BusUnavailable(
                f"NATS at {_places(self._servers)} did not accept a connection ({last_error}): "
                "check NATS_URL, its user and password, and that the server runs."
            ) from problem
        except asyncio.CancelledError:
            await _hang_up(client)
            raise
        return client

    async def _adopt(self, client: nats_client.Client) -> None:
        self._is_listening = False
        self._client = client
        self._drop_was_logged = False
        self._attached = {}
        for pattern in self._handlers.patterns:
            await self._attach(pattern)
        self._is_listening = True

    def _lost(self, client: nats_client.Client) -> None:
        """One way back for every outage: nats-py's own gives up after a refused login and leaks sockets."""
        if client is self._client and (self._revival is None or self._revival.done()):
            log.warning("The connection to NATS ended; trying again until it stands.")
            self._revival = asyncio.create_task(self._revive())

    async def _revive(self) -> None:
        # Not for ever once it is closed: nats-py waits with `wait_for`, which on Python 3.11 swallows a
        # cancellation that comes together with the outcome.
        while not (self.healthy or self._is_closed):
            try:
                await self._adopt(await self._connect())
            except bus.BusUnavailable:
                await asyncio.sleep(_PAUSE_SECONDS)
        if not self._is_closed:
            log.warning("The connection to NATS stands again.")

    async def _attach(self, pattern: str) -> None:
        task = self._attached.get(pattern)
        if task is None:
            task = self._attached[pattern] = asyncio.create_task(self._ask_for(pattern))
        await asyncio.shield(task)

    async def _ask_for(self, pattern: str) -> nats_subscription.Subscription | None:
        client = self._client
        if client is None or client.is_closed:
            return None

        async def arrived(message: nats_message.Msg) -> None:
            self._handlers.deliver_under(pattern, message.subject.removeprefix(_PREFIX), message.data)

        subscription = None
        with contextlib.suppress(*_TROUBLE):
            subscription = await client.subscribe(  # pyright: ignore[reportUnknownMemberType] - a bare Future
                _PREFIX + pattern, cb=arrived
            )
            if client.is_connected:
                # nats-py writes its PING past the buffer in which the SUB may still wait: only the second
                # round trip proves that the server knows the subscription.
                await client.flush(_CONFIRM_SECONDS)
                await client.flush(_CONFIRM_SECONDS)
        return subscription

    async def _send(self, client: nats_client.Client, subject: str, payload: bytes) -> None:
        if not client.is_connected or client.pending_data_size > _MAX_UNSENT_BYTES:
            self._note_drop()
            return
        try:
            await client.publish(_PREFIX + subject, payload)
        except _TROUBLE:
            self._note_drop()

    def _note_drop(self) -> None:
        if not self._drop_was_logged:
            self._drop_was_logged = True
            log.warning("NATS is not reachable: other replicas get no wake-ups and re-read storage instead.")


class _NatsSubscription:
    def __init__(self, owner: NatsBus, seat: fanout.Subscriber) -> None:
        self._owner = owner
        self._seat = seat

    async def close(self) -> None:
        await self._owner.release(self._seat)


async def _hang_up(client: nats_client.Client) -> None:
    with contextlib.suppress(*_TROUBLE):
        await client.close()


def _in_short(problem: Exception) -> str:
    """The server's words for its own errors; only the kind of the others, whose text may quote the URL."""
    return str(problem)[:100] if type(problem) is errors.Error else type(problem).__name__


def _places(servers: list[str]) -> str:
    """Hosts and ports only: the rest of a NATS URL may be a credential."""
    return ", ".join(
        urlsplit(server if "://" in server else f"nats://{server}").netloc.rpartition("@")[2]
        for server in servers
    )
