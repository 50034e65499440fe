"""A gateway that ends under a turn: told at once and as retryable, and waited for by the next turn."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from molecule_runtime.domain.turns import TurnOutcome
from molecule_runtime.runtimes.hermes import client, executor, liveness
from molecule_runtime.runtimes.hermes import gateway as gateway_module
from molecule_runtime.runtimes.hermes.executor import HermesAgentProxyExecutor
from molecule_runtime.runtimes.hermes.gateway import Gateway
from molecule_runtime.runtimes.hermes.gateway_settings import GatewaySettings
from molecule_runtime.testing.recording_output import RecordingOutput, request
from packages.runtime.tests.runtimes.hermes.gateways import free_port, make_executor, started

ACCEPTED = b'HTTP/1.1 202 Accepted\r\nContent-Length: 11\r\nConnection: close\r\n\r\n{"ok":true}'
HEALTHY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
STARTING = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 17\r\nConnection: close\r\n\r\n"
    + b'{"starting":true}'
)


class Process:
    """A program with the routes of the plugin, which ends without a word; `health` is its last answer."""

    def __init__(self) -> None:
        self.health = HEALTHY
        self.accepted = asyncio.Event()
        self.watched = asyncio.Queue[asyncio.StreamWriter]()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def end(self) -> None:
        """Close everything, as the kernel does for a process that was killed."""
        watched = await asyncio.wait_for(self.watched.get(), 5)
        await self.stop_listening()
        watched.transport.abort()

    async def stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A request comes at once; a connection that only waits for our end says nothing.
        try:
            async with asyncio.timeout(0.2):
                head = await reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            await self.watched.put(writer)
            return
        except asyncio.IncompleteReadError:
            return
        writer.write(ACCEPTED if head.startswith(b"POST") else self.health)
        if head.startswith(b"POST"):
            self.accepted.set()
        await writer.drain()
        writer.close()


@pytest.fixture
async def process(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Process]:
    made = Process()
    await made.start()
    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_ENABLED", "true")
    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_PORT", str(made.port))
    monkeypatch.setenv("MOLECULE_A2A_CALLBACK_PORT", "0")
    monkeypatch.setattr(liveness, "SETTLE_SECONDS", 0.01)
    yield made
    await made.stop_listening()


@asynccontextmanager
async def a_turn(
    process: Process,
) -> AsyncGenerator[tuple[HermesAgentProxyExecutor, "asyncio.Task[TurnOutcome]"]]:
    """A turn whose message was accepted."""
    async with started() as made:
        turn = asyncio.ensure_future(made._own_runner().run(request("hello"), RecordingOutput()))
        await asyncio.wait_for(process.accepted.wait(), 5)
        yield made, turn
        turn.cancel()


async def test_a_gateway_that_ends_is_told_at_once_and_as_retryable(process: Process) -> None:
    async with a_turn(process) as (made, turn):
        await process.end()
        outcome = await asyncio.wait_for(turn, 2)
        assert (outcome.state, outcome.code, outcome.retryable) == ("failed", "hermes-plugin-error", True)
        assert outcome.text.startswith(
            "[hermes plugin error] the hermes gateway ended before it answered [ref "
        )
        assert made._pending == {}


async def test_a_gateway_that_was_started_again_has_lost_the_message(process: Process) -> None:
    async with a_turn(process) as (_, turn):
        process.health = STARTING
        (await asyncio.wait_for(process.watched.get(), 5)).close()
        assert (await asyncio.wait_for(turn, 2)).retryable


async def test_a_connection_that_a_living_gateway_closes_ends_no_turn(process: Process) -> None:
    async with a_turn(process) as (made, turn):
        for _ in range(2):
            (await asyncio.wait_for(process.watched.get(), 5)).close()
        assert not turn.done()
        next(iter(made._pending.values())).set_result("still here")
        assert (await asyncio.wait_for(turn, 2)).text == "still here"


@pytest.mark.parametrize("early", [1.0, 0.0], ids=["tried again and refused", "not tried again"])
async def test_a_chat_request_that_is_lost_is_retryable(
    early: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        server.close()
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    monkeypatch.setenv("HERMES_API_BASE", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
    monkeypatch.setenv("HERMES_STREAM", "off")
    monkeypatch.setattr(client, "EARLY_SECONDS", early)
    outcome = await make_executor()._own_runner().run(request("hello"), RecordingOutput())
    assert outcome.text.startswith("[hermes-agent unreachable] ")
    assert outcome.retryable


async def test_a_gateway_that_was_never_there_is_not_retryable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_API_BASE", f"http://127.0.0.1:{free_port()}/v1")
    outcome = await make_executor()._own_runner().run(request("hello"), RecordingOutput())
    assert outcome.text.startswith("[hermes-agent unreachable] ConnectError")
    assert not outcome.retryable, "an engine that is down for good shall be seen as wedged"


async def test_a_stream_that_is_lost_is_retryable(monkeypatch: pytest.MonkeyPatch) -> None:
    event = b'data: {"choices": [{"delta": {"content": "so far"}}]}\n\n'

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head + b"%x\r\n%b\r\n" % (len(event), event))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        monkeypatch.setenv("HERMES_API_BASE", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        outcome = await make_executor()._own_runner().run(request("hello"), RecordingOutput())
    assert outcome.text.startswith("[hermes-agent unreachable] stream ended early [ref ")
    assert outcome.retryable


PROGRAM = """#!{python}
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
if not os.path.exists("{marker}"):
    open("{marker}", "w").close()
    sys.exit(1)
http.server.HTTPServer(("127.0.0.1", {port}), Handler).serve_forever()
"""


async def test_a_turn_waits_for_a_gateway_that_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_module, "FIRST_DELAY_SECONDS", 0.3)
    monkeypatch.setattr(gateway_module, "PROBE_INTERVAL_SECONDS", 0.02)
    port, program = free_port(), tmp_path / "hermes"
    program.write_text(PROGRAM.format(python=sys.executable, marker=tmp_path / "marker", port=port))
    program.chmod(0o755)
    env = {"HERMES_BIN": str(program), "HERMES_HOME": str(tmp_path / "h"), "API_SERVER_PORT": str(port)}
    monkeypatch.setattr(gateway_module, "check_http_library", _nothing)
    gateway = Gateway(GatewaySettings.read(env, "tiny"), env)
    await gateway.start()
    try:
        async with asyncio.timeout(10):
            while gateway._recovered.is_set():  # noqa: ASYNC110 - a process signals nobody
                await asyncio.sleep(0.01)
            await gateway.wait_recovered(0.01)
            assert not gateway._recovered.is_set(), "the wait has an end"
            await liveness.wait_for_gateway(SimpleNamespace(gateway=gateway), 1e9)
            assert await gateway.is_ready()
    finally:
        await gateway.stop()


async def _nothing(_: Path) -> None:
    pass


async def test_a_turn_asks_for_the_gateway_of_its_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = list[object]()

    async def wait(adapter: object, until: float) -> None:
        requests.append(adapter)

    monkeypatch.setattr(executor, "wait_for_gateway", wait)
    monkeypatch.setenv("HERMES_API_BASE", "http://127.0.0.1:9/v1")
    made = make_executor()
    made.adapter = SimpleNamespace(gateway=None)
    await made._own_runner().run(request("hello"), RecordingOutput())
    assert requests == [made.adapter]
