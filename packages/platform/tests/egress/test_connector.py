"""Connections lead to checked addresses and nowhere else."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from molecule_platform.egress import connector, guard
from molecule_platform.testing import servers

LOOPBACK = guard.agent_policy(("loopback",))
NOTHING = guard.agent_policy(())

Open = Callable[..., connector.Outbound]


class Agent:
    """A small HTTP server that remembers what it was sent."""

    def __init__(self) -> None:
        self.port = servers.free_port()
        self.requests: list[web.BaseRequest] = []
        self.peers: set[object] = set()
        self.answer: Callable[[], web.Response] = lambda: web.Response(text="hello")

    async def handle(self, request: web.BaseRequest) -> web.Response:
        self.requests.append(request)
        assert request.transport is not None
        self.peers.add(request.transport.get_extra_info("peername"))
        await request.read()
        return self.answer()

    def at(self, host: str) -> str:
        return f"http://{host}:{self.port}/a2a"


@pytest.fixture
async def agent() -> AsyncIterator[Agent]:
    one = Agent()
    runner = web.ServerRunner(web.Server(one.handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", one.port).start()
    yield one
    await runner.cleanup()


@pytest.fixture
async def outbound() -> AsyncIterator[Open]:
    opened: list[connector.Outbound] = []

    def make(*arguments: object) -> connector.Outbound:
        opened.append(connector.Outbound(*arguments))  # pyright: ignore[reportArgumentType]
        return opened[-1]

    yield make
    for one in opened:
        await one.close()


def answering(*answers: Sequence[str]) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    remaining = list(answers)

    async def resolve(host: str, port: int) -> Sequence[str]:
        return remaining.pop(0) if len(remaining) > 1 else remaining[0]

    return resolve


async def test_a_name_is_called_at_its_checked_address(agent: Agent, outbound: Open) -> None:
    out = outbound(LOOPBACK, answering(["127.0.0.1"]))
    headers = {"X-Timeout": "5", "Content-Type": "application/json"}
    async with out.request("POST", agent.at("agent.example"), headers=headers, data=b"{}") as response:
        assert (response.status, await response.text()) == (200, "hello")
    sent = dict(agent.requests[0].headers)
    assert sent == {
        "Host": f"agent.example:{agent.port}",
        "Accept-Encoding": "identity",
        "X-Timeout": "5",
        "Content-Type": "application/json",
        "Content-Length": "2",
    }


async def test_connections_are_kept_and_shared(agent: Agent, outbound: Open) -> None:
    out = outbound(LOOPBACK)
    for _ in range(5):
        async with out.request("GET", agent.at("127.0.0.1")) as response:
            await response.read()
    assert len(agent.requests) == 5
    assert len(agent.peers) == 1


async def test_a_name_that_now_leads_inside_is_refused_and_nothing_is_sent(
    agent: Agent, outbound: Open
) -> None:
    """DNS rebinding: the first answer was public and passed, the second is this machine."""
    resolver = answering(["8.8.8.8"], ["127.0.0.1"])
    target = await guard.resolve_and_check(agent.at("rebind.example"), NOTHING, resolver)
    out = outbound(NOTHING, resolver)
    with pytest.raises(guard.UnsafeUrl, match="a loopback address"):
        async with out.request("POST", target.url, data=b"secret"):
            pass
    assert agent.requests == []


async def test_the_answer_that_was_checked_is_the_one_connected_to(agent: Agent, outbound: Open) -> None:
    """A resolver that changes its mind after the check gets no second question for the same connection."""
    questions = 0

    async def changing(host: str, port: int) -> Sequence[str]:
        nonlocal questions
        questions += 1
        return ["127.0.0.1"] if questions == 1 else ["169.254.169.254"]

    async with outbound(LOOPBACK, changing).request("GET", agent.at("agent.example")) as response:
        assert response.status == 200
    assert questions == 1


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "localhost", "127.0.0.1.", "[::ffff:127.0.0.1]", "2130706433"]
)
async def test_no_way_to_write_this_machine_passes_without_the_setting(
    agent: Agent, outbound: Open, host: str
) -> None:
    with pytest.raises(guard.UnsafeUrl):
        async with outbound(NOTHING).request("GET", agent.at(host)):
            pass
    assert agent.requests == []


async def test_the_last_gate_refuses_a_socket_to_an_address_that_never_was_checked(
    agent: Agent, outbound: Open
) -> None:
    out = outbound(NOTHING)
    with pytest.raises(aiohttp.ClientConnectorError, match="a loopback address"):
        async with out._session.get(agent.at("127.0.0.1")):  # pyright: ignore[reportPrivateUsage]
            pass
    assert agent.requests == []


async def test_a_redirect_is_an_answer_and_is_not_followed(agent: Agent, outbound: Open) -> None:
    agent.answer = lambda: web.Response(status=302, headers={"Location": agent.at("127.0.0.1")})
    async with outbound(LOOPBACK).request("GET", agent.at("127.0.0.1")) as response:
        assert response.status == 302
    assert len(agent.requests) == 1


async def test_cookies_are_not_kept(agent: Agent, outbound: Open) -> None:
    agent.answer = lambda: web.Response(headers={"Set-Cookie": "a=b"})
    out = outbound(LOOPBACK)
    for _ in range(2):
        async with out.request("GET", agent.at("localhost")) as response:
            await response.read()
    assert "Cookie" not in agent.requests[1].headers


async def test_a_proxy_in_the_environment_is_not_used(
    agent: Agent, outbound: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{servers.free_port()}")
    async with outbound(LOOPBACK).request("GET", agent.at("127.0.0.1")) as response:
        assert response.status == 200


async def test_the_path_is_sent_as_it_was_written(agent: Agent, outbound: Open) -> None:
    url = f"http://127.0.0.1:{agent.port}/a/../b%2Fc//d?x=%20+&y=%E2%82%AC"
    async with outbound(LOOPBACK).request("GET", url) as response:
        await response.read()
    assert agent.requests[0].raw_path == "/a/../b%2Fc//d?x=%20+&y=%E2%82%AC"


async def test_a_name_without_an_address_and_a_closed_port_are_client_errors(outbound: Open) -> None:
    async def fails(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    with pytest.raises(aiohttp.ClientConnectorError, match=r"agent\.example"):
        async with outbound(LOOPBACK, fails).request("GET", "http://agent.example/"):
            pass
    with pytest.raises(aiohttp.ClientConnectorError):
        async with outbound(LOOPBACK).request("GET", f"http://127.0.0.1:{servers.free_port()}/"):
            pass


async def test_a_silent_agent_is_given_up_after_the_callers_time(outbound: Open) -> None:
    connections: list[asyncio.StreamWriter] = []

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    with pytest.raises(TimeoutError):
        async with outbound(LOOPBACK).request("GET", url, read_seconds=0.1):
            pass
    for writer in connections:
        writer.close()
    server.close()
    await server.wait_closed()


async def test_a_certificate_that_nobody_vouches_for_is_refused(outbound: Open, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_self_signed(tmp_path, "agent.example"))

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=context)
    url = f"https://agent.example:{server.sockets[0].getsockname()[1]}/"
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        async with outbound(LOOPBACK, answering(["127.0.0.1"])).request("GET", url):
            pass
    server.close()
    await server.wait_closed()


def _self_signed(folder: Path, name: str) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path = folder / "server.pem"
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path
