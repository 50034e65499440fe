"""Connections lead to checked addresses and nowhere else."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from molecule_platform.egress import connector, exchange, guard
from molecule_platform.egress.connector import Outbound
from molecule_platform.testing import servers

if TYPE_CHECKING:
    from packages.platform.tests.egress.conftest import RawServer

LOOPBACK = guard.agent_policy(("loopback",))
NOTHING = guard.agent_policy(())

Open = Callable[..., Outbound]


@pytest.fixture
async def outbound() -> AsyncIterator[Open]:
    opened: list[Outbound] = []

    def make(policy: guard.Policy, resolver: guard.Resolver = guard.system_resolver) -> Outbound:
        opened.append(Outbound(policy, resolver))
        return opened[-1]

    yield make
    for one in opened:
        await one.close()


async def call(out: Outbound, url: str, headers: Mapping[str, str] | None = None) -> exchange.HttpResponse:
    return await exchange.exchange(
        out, "POST", url, headers=headers or {}, data=b"{}", seconds=5.0, most_bytes=1000
    )


def answering(*answers: Sequence[str]) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    remaining = list(answers)

    async def resolve(host: str, port: int) -> Sequence[str]:
        return remaining.pop(0) if len(remaining) > 1 else remaining[0]

    return resolve


def at(server: RawServer, host: str) -> str:
    return f"http://{host}:{server.port}/a2a"


async def test_a_name_is_called_at_its_checked_address(server: RawServer, outbound: Open) -> None:
    out = outbound(LOOPBACK, answering(["127.0.0.1"]))
    headers = {"X-Timeout": "5", "Content-Type": "application/json"}
    answer = await call(out, at(server, "agent.example"), headers)
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"hello", "text/plain")
    assert server.heads[0].split("\r\n") == [
        "POST /a2a HTTP/1.1",
        f"Host: agent.example:{server.port}",
        "Accept-Encoding: identity",
        "X-Timeout: 5",
        "Content-Type: application/json",
        "Content-Length: 2",
        "",
        "",
    ]


async def test_a_name_that_now_leads_inside_is_refused_and_nothing_is_sent(
    server: RawServer, outbound: Open
) -> None:
    """DNS rebinding: the first answer was public and passed, the second is this machine."""
    resolver = answering(["8.8.8.8"], ["127.0.0.1"])
    target = await guard.resolve_and_check(at(server, "rebind.example"), NOTHING, resolver)
    with pytest.raises(guard.UnsafeUrl, match="a loopback address"):
        await call(outbound(NOTHING, resolver), target.url)
    assert server.writers == []


async def test_one_inner_address_among_public_ones_is_enough_to_refuse_a_name(
    server: RawServer, outbound: Open
) -> None:
    with pytest.raises(guard.UnsafeUrl, match="a link-local"):
        await call(
            outbound(LOOPBACK, answering(["127.0.0.1", "169.254.169.254"])), at(server, "agent.example")
        )
    assert server.writers == []


async def test_the_answer_that_was_checked_is_the_one_connected_to(server: RawServer, outbound: Open) -> None:
    """A resolver that changes its mind after the check gets no second question for the same connection."""
    questions = 0

    async def changing(host: str, port: int) -> Sequence[str]:
        nonlocal questions
        questions += 1
        return ["127.0.0.1"] if questions == 1 else ["169.254.169.254"]

    out = outbound(LOOPBACK, changing)
    for _ in range(2):
        assert (await call(out, at(server, "agent.example"))).status == 200
    assert (questions, len(server.writers)) == (1, 1)


async def test_each_address_of_a_name_is_tried(server: RawServer, outbound: Open) -> None:
    out = outbound(LOOPBACK, answering(["::1", "127.0.0.2", "127.0.0.1"]))
    assert (await call(out, at(server, "agent.example"))).status == 200


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "localhost", "127.0.0.1.", "[::ffff:127.0.0.1]", "2130706433"]
)
async def test_no_way_to_write_this_machine_passes_without_the_setting(
    server: RawServer, outbound: Open, host: str
) -> None:
    with pytest.raises(guard.UnsafeUrl):
        await call(outbound(NOTHING), at(server, host))
    assert server.writers == []


async def test_the_last_gate_refuses_a_socket_to_an_address_that_never_was_checked(
    server: RawServer, outbound: Open
) -> None:
    """A way that was checked under another policy still ends at the socket."""
    way = outbound(LOOPBACK).way(server.url)
    with pytest.raises(guard.UnsafeUrl, match="a loopback address"):
        await outbound(NOTHING).connection(way, asyncio.get_running_loop().time() + 5, "the agent")
    assert server.writers == []


async def test_a_redirect_is_an_answer_and_is_not_followed(server: RawServer, outbound: Open) -> None:
    server.answers = [b"HTTP/1.1 302 X\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"]
    assert (await call(outbound(LOOPBACK), server.url)).status == 302
    assert len(server.heads) == 1


async def test_cookies_are_not_kept(server: RawServer, outbound: Open) -> None:
    server.always = b"HTTP/1.1 200 X\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
    out = outbound(LOOPBACK)
    for _ in range(2):
        await call(out, at(server, "localhost"))
    assert "cookie" not in server.heads[1].lower()


async def test_a_proxy_in_the_environment_is_not_used(
    server: RawServer, outbound: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{servers.free_port()}")
    assert (await call(outbound(LOOPBACK), server.url)).status == 200


async def test_the_path_is_sent_as_it_was_written(server: RawServer, outbound: Open) -> None:
    path = "/a/../b%2Fc//d?x=%20+&y=%E2%82%AC"
    await call(outbound(LOOPBACK), f"http://127.0.0.1:{server.port}{path}")
    assert server.heads[0].startswith(f"POST {path} HTTP/1.1\r\n")


async def test_a_name_without_an_address_and_a_closed_port_mean_that_nothing_was_sent(outbound: Open) -> None:
    async def fails(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    with pytest.raises(exchange.NoResponse, match=r"agent\.example has no address") as caught:
        await call(outbound(LOOPBACK, fails), "http://agent.example/")
    assert not caught.value.sent
    with pytest.raises(exchange.NoResponse, match="does not accept connections") as caught:
        await call(outbound(LOOPBACK), f"http://127.0.0.1:{servers.free_port()}/")
    assert not caught.value.sent


async def test_a_place_that_does_not_finish_to_connect_is_given_up(
    server: RawServer, outbound: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It accepts, and then never speaks TLS: nothing of the request was sent."""
    monkeypatch.setattr(connector, "CONNECT_SECONDS", 0.1)
    with pytest.raises(exchange.NoResponse, match="does not accept connections") as caught:
        await call(outbound(LOOPBACK), f"https://127.0.0.1:{server.port}/")
    assert not caught.value.sent


async def test_a_pool_that_was_closed_ends_what_is_open_and_opens_no_more(
    server: RawServer, outbound: Open
) -> None:
    async def stall(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()

    asked = asyncio.Event()
    out = outbound(LOOPBACK)
    await call(out, server.url)
    server.answers = [stall]
    calling = asyncio.ensure_future(call(out, server.url))
    await asked.wait()
    await out.close()
    with pytest.raises(exchange.NoResponse, match="broke"):
        await calling
    with pytest.raises(exchange.NoResponse, match="the platform is stopping") as caught:
        await call(out, server.url)
    assert not caught.value.sent
    assert len(server.writers) == 1


async def test_a_webhook_s_words_are_not_read_and_its_status_counts(
    server: RawServer, outbound: Open
) -> None:
    server.answers = [b"HTTP/1.1 202 X\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000]
    out = outbound(LOOPBACK)
    told = await exchange.tell(out, server.url, headers={}, data=b"{}", seconds=5.0, most_bytes=1000)
    assert (told.status, told.body) == (202, b"")
    nobody = f"http://127.0.0.1:{servers.free_port()}/"
    with pytest.raises(exchange.NoResponse, match="the webhook's address"):
        await exchange.tell(out, nobody, headers={}, data=b"{}", seconds=5.0, most_bytes=1000)


@pytest.fixture
async def secure(
    server: RawServer, tmp_path: Path, self_signed: Callable[[Path, str], Path]
) -> AsyncIterator[tuple[int, Path]]:
    """The server behind TLS, with a certificate for agent.example; its port and the certificate."""
    certificate = self_signed(tmp_path, "agent.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    yield listening.sockets[0].getsockname()[1], certificate
    listening.close()
    await listening.wait_closed()


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    server: RawServer, secure: tuple[int, Path], outbound: Open
) -> None:
    out = outbound(LOOPBACK, answering(["127.0.0.1"]))
    with pytest.raises(exchange.NoResponse, match="certificate") as caught:
        await call(out, f"https://agent.example:{secure[0]}/")
    assert not caught.value.sent
    assert server.heads == []


async def test_a_certificate_must_name_the_host_that_was_asked_for(
    server: RawServer, secure: tuple[int, Path], outbound: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, certificate = secure
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    out = outbound(LOOPBACK, answering(["127.0.0.1"]))
    for _ in range(2):
        assert (await call(out, f"https://agent.example:{port}/")).body == b"hello"
    assert len(server.writers) == 1
    with pytest.raises(exchange.NoResponse, match="certificate"):
        await call(out, f"https://other.example:{port}/")
    assert len(server.heads) == 2
