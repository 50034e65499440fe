"""What the NATS bus does when its server goes away."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from nats.aio.transport import TcpTransport

from molecule_platform.bus import nats
from molecule_platform.bus.nats import NatsBus
from molecule_platform.ports import bus
from molecule_platform.testing import servers

Eventually = Callable[[Callable[[], bool]], Awaitable[None]]
QUICK_SECONDS = 15.0


class Server:
    """A NATS server that can be stopped and started again in its place."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._running: contextlib.ExitStack = contextlib.ExitStack()

    def start(self, url: str | None = None) -> None:
        self._running.enter_context(servers.private_nats(url or self.url))

    def stop(self) -> None:
        self._running.close()


@pytest.fixture
def server(nats_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(nats, "_PAUSE_SECONDS", 0.1)
    one = Server(f"nats://molecule:pass-that-must-not-be-logged@127.0.0.1:{servers.free_port()}")
    one.start()
    yield one
    one.stop()


@pytest.fixture
async def pair(server: Server) -> AsyncIterator[tuple[NatsBus, NatsBus]]:
    first, second = NatsBus(server.url), NatsBus(server.url)
    await first.start()
    await second.start()
    yield first, second
    await first.close()
    await second.close()


def ignore(subject: str, payload: bytes) -> None:
    """A handler that only takes a seat."""


async def test_publishing_during_an_outage_is_quick_and_logged_once(
    server: Server, pair: tuple[NatsBus, NatsBus], eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = pair
    server.stop()
    await eventually(lambda: not first.healthy)
    with caplog.at_level(logging.WARNING):
        async with asyncio.timeout(QUICK_SECONDS):
            for _ in range(1000):
                await first.publish("t.x", b"lost")
    assert caplog.text.count("other replicas get no wake-ups") == 1
    assert "must-not-be-logged" not in caplog.text


async def test_subscriptions_survive_an_outage_and_may_be_made_during_it(
    server: Server, pair: tuple[NatsBus, NatsBus], eventually: Eventually
) -> None:
    first, second = pair
    heard: list[bytes] = []
    await second.subscribe("before.x", lambda _, payload: heard.append(payload))
    server.stop()
    await eventually(lambda: not first.healthy and not second.healthy)
    await second.subscribe("during.x", lambda _, payload: heard.append(payload))
    await (await second.subscribe("gone.x", ignore)).close()
    server.start()
    await eventually(lambda: first.healthy and second.healthy)
    await first.publish("before.x", b"1")
    await first.publish("during.x", b"2")
    await eventually(lambda: len(heard) == 2)
    assert sorted(heard) == [b"1", b"2"]


async def test_its_own_process_is_served_during_an_outage(
    server: Server, pair: tuple[NatsBus, NatsBus], eventually: Eventually
) -> None:
    first, _ = pair
    heard: list[bytes] = []
    await first.subscribe("t.x", lambda _, payload: heard.append(payload))
    server.stop()
    await eventually(lambda: not first.healthy)
    await first.publish("t.x", b"at home")
    assert heard == [b"at home"]


async def test_a_server_that_refuses_the_login_for_a_while_does_not_end_the_bus(
    server: Server, pair: tuple[NatsBus, NatsBus], eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = pair
    heard: list[bytes] = []
    await second.subscribe("t.x", lambda _, payload: heard.append(payload))
    server.stop()
    server.start(server.url.replace("molecule:pass", "molecule:other"))
    with caplog.at_level(logging.DEBUG):
        await eventually(lambda: caplog.text.count("Authorization Violation") >= 3)
    server.stop()
    server.start()
    await eventually(lambda: first.healthy and second.healthy)
    await eventually(lambda: "stands again" in caplog.text)
    await first.publish("t.x", b"back")
    await eventually(lambda: heard == [b"back"])


async def test_a_bus_closes_promptly_during_an_outage(server: Server, eventually: Eventually) -> None:
    one = NatsBus(server.url)
    await one.start()
    await one.subscribe("t.x", ignore)
    server.stop()
    await eventually(lambda: not one.healthy)
    async with asyncio.timeout(QUICK_SECONDS):
        await one.close()
    server.start()


@pytest.mark.parametrize("is_back", [False, True])
async def test_a_bus_closes_although_its_way_back_does_not_hear_of_it(
    server: Server, monkeypatch: pytest.MonkeyPatch, is_back: bool
) -> None:
    connect, connecting, transports = TcpTransport.connect, asyncio.Event(), list[TcpTransport]()

    async def deaf(transport: TcpTransport, *given: Any, **more: Any) -> None:
        """As `wait_for` of Python 3.11, when it is cancelled together with the outcome."""
        if not connecting.is_set():
            connecting.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        await connect(transport, *given, **more)
        transports.append(transport)

    one = NatsBus(server.url)
    await one.start()
    server.stop()
    monkeypatch.setattr(TcpTransport, "connect", deaf)
    await connecting.wait()
    if is_back:
        server.start()
    async with asyncio.timeout(QUICK_SECONDS):
        await one.close()
    assert not one.healthy
    assert [transport.at_eof() for transport in transports] == [True] * is_back


async def test_a_start_without_a_server_says_what_to_check_and_hides_the_password() -> None:
    port = servers.free_port()
    one = NatsBus(f"nats://ann:hush@127.0.0.1:{port}")
    with pytest.raises(bus.BusUnavailable) as caught:
        await one.start()
    assert str(caught.value) == (
        f"NATS at 127.0.0.1:{port} did not accept a connection (ConnectionRefusedError): "
        "check NATS_URL, its user and password, and that the server runs."
    )
    await one.close()


async def test_a_start_with_a_wrong_password_is_refused(nats_url: str) -> None:
    wrong = "nats://molecule:wrong@" + nats_url.rpartition("@")[2]
    with pytest.raises(bus.BusUnavailable, match="check NATS_URL, its user and password"):
        await NatsBus(wrong).start()


async def test_a_bus_that_was_never_started_closes(nats_url: str) -> None:
    one = NatsBus(nats_url)
    await one.close()
    assert not one.healthy
