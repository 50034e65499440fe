"""What the bridge to hermes adds to a turn, on each transport, beside a direct call of the same gateway.

The gateway is the real one; a scripted model answers at once. Hermes' own work, whose spread is larger than
what is measured here, is left out: on chat a relay notes when the request is on the wire and when hermes'
answer has come; on the plugin path a small plugin of the benchmark notes inside the gateway when hermes is
given the message and when it answers, so our own plugin counts. The clock is CLOCK_MONOTONIC, one for
all processes of a machine.
"""

import asyncio
import functools
import http.client
import json
import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import figure
from molecule_platform.testing import servers
from molecule_runtime.kit.setup.adapter import AdapterConfig
from molecule_runtime.kit.turns.runner import TurnRunner
from molecule_runtime.runtimes.hermes.errors import HermesError
from molecule_runtime.runtimes.hermes.executor import HermesAgentProxyExecutor
from molecule_runtime.runtimes.hermes.gateway import Gateway
from molecule_runtime.runtimes.hermes.gateway_settings import GatewaySettings
from molecule_runtime.runtimes.hermes.installation import find_hermes
from molecule_runtime.testing.recording_output import RecordingOutput, request
from molecule_runtime.testing.scripted_model import ScriptedModel
from molecule_wire.engines import DIRECTORY_VARIABLE
from scripts import repository

TURNS, WARM_UP = 30, 2
# Hermes tidies a session up after its answer; the next turn is one of another.
CONVERSATIONS = 5
MAX_CHAT_MS, MAX_PLUGIN_MS = 30.0, 60.0
READY_SECONDS = 120.0

_CLOCK = """
import time
from gateway.platforms.base import BasePlatformAdapter

def note(kind):
    with open({file!r}, "a") as file:
        file.write(f"{{kind}} {{time.monotonic()}}\\n")

def register(ctx):
    begin, take = BasePlatformAdapter.__init__, BasePlatformAdapter.handle_message

    async def handle_message(self, event):
        note("taken")
        await take(self, event)

    def init(self, config, platform):
        begin(self, config, platform)
        send = self.send

        async def timed(chat_id, content, reply_to=None, metadata=None):
            if (metadata or {{}}).get("notify"):
                note("answered")
            return await send(chat_id, content, reply_to, metadata)

        self.send = timed

    BasePlatformAdapter.__init__, BasePlatformAdapter.handle_message = init, handle_message
"""


@dataclass
class _Side:
    """Seconds of one way to the gateway: of whole turns, and of what the bridge adds."""

    whole: list[float] = field(default_factory=list[float])
    added: list[float] = field(default_factory=list[float])

    def whole_ms(self) -> float:
        return statistics.median(self.whole) * 1000

    def added_ms(self) -> float:
        return statistics.median(self.added) * 1000


def chat() -> figure.Figure:
    """From the start of a turn to its request on the wire, and from hermes' answer to the outcome."""
    return _figure("hermes bridge, chat, p50", "chat", MAX_CHAT_MS)


def plugin() -> figure.Figure:
    """The same on the plugin path, with the time inside our plugin."""
    return _figure("hermes bridge, plugin, p50", "plugin", MAX_PLUGIN_MS)


def _figure(name: str, transport: str, bound: float) -> figure.Figure:
    try:
        executable = find_hermes({DIRECTORY_VARIABLE: str(repository.ROOT / ".engines"), **os.environ})
    except HermesError as problem:
        return figure.Figure(name, 0.0, "ms", figure.Ceiling(bound), "", not_measured=str(problem))
    sides = _sides(executable)
    side = sides[transport]
    limits = (
        f"{TURNS} turns in {CONVERSATIONS} conversations, scripted model; whole turn {side.whole_ms():.0f} "
        f"ms, direct call of the gateway {sides['direct'].whole_ms():.0f} ms"
    )
    return figure.Figure(name, side.added_ms(), "ms", figure.Ceiling(bound), limits)


@functools.cache
def _sides(executable: Path) -> dict[str, _Side]:
    return asyncio.run(_measure(executable))


async def _measure(executable: Path) -> dict[str, _Side]:
    """The three ways take turns, so that each sees the same machine."""
    with tempfile.TemporaryDirectory() as name, ScriptedModel(lambda _: "It is done.") as model:
        folder = Path(name)
        async with _gateway(folder, executable, model.base_url) as gateway:
            settings = gateway.settings
            with _relay(settings.api_port) as relay, _environment(gateway, relay.port):
                sides = {"chat": _Side(), "plugin": _Side(), "direct": _Side()}
                runners = {transport: await _runner(transport) for transport in ("chat", "plugin")}
                marks: dict[str, Callable[[], tuple[float, float]]] = {
                    "chat": relay.marks,
                    "plugin": lambda: _clock_marks(folder),
                }
                for number in range(-WARM_UP * CONVERSATIONS, TURNS):
                    conversation = f"c{number % CONVERSATIONS}"
                    for transport, runner in runners.items():
                        began = time.monotonic()
                        asked = request("say that it is done", f"{transport}-{conversation}", as_task=True)
                        outcome = await runner.run(asked, RecordingOutput())
                        ended = time.monotonic()
                        assert outcome.text == "It is done.", outcome
                        sent, answered = marks[transport]()
                        if number >= 0:
                            sides[transport].whole.append(ended - began)
                            sides[transport].added.append(sent - began + ended - answered)
                    seconds = await asyncio.to_thread(_call_directly, settings, f"direct-{conversation}")
                    if number >= 0:
                        sides["direct"].whole.append(seconds)
                for runner in runners.values():
                    assert isinstance(runner.executor, HermesAgentProxyExecutor)
                    await runner.executor.stop()
                return sides


async def _runner(transport: str) -> TurnRunner:
    os.environ["MOLECULE_A2A_PLATFORM_ENABLED"] = str(transport == "plugin")
    executor = HermesAgentProxyExecutor(AdapterConfig(model="scripted", workspace_id="bench"))
    await executor.start()
    return TurnRunner(executor)


@asynccontextmanager
async def _gateway(folder: Path, executable: Path, model_url: str) -> AsyncGenerator[Gateway]:
    """A gateway in a fresh home, with the clock in it."""
    home = folder / "home"
    clock = home / "plugins" / "bench-clock"
    clock.mkdir(parents=True)
    (clock / "plugin.yaml").write_text("name: bench-clock\nversion: 1.0.0\n")
    (clock / "__init__.py").write_text(_CLOCK.format(file=str(folder / "clock")))
    (home / "config.yaml").write_text("plugins: {enabled: [bench-clock]}\n")
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "HERMES_BIN": str(executable),
        "HERMES_HOME": str(home),
        "HERMES_INFERENCE_MODEL": "scripted",
        "HERMES_CUSTOM_BASE_URL": model_url,
        "HERMES_BRIDGE_TOOLS": "off",
        "MOLECULE_A2A_PLATFORM_ENABLED": "true",
        "MOLECULE_A2A_PLATFORM_PORT": str(servers.free_port()),
        "API_SERVER_PORT": str(servers.free_port()),
    }
    gateway = Gateway(GatewaySettings.read(env), env)
    await gateway.start()
    try:
        await gateway.wait_ready(READY_SECONDS)
        yield gateway
    finally:
        await gateway.stop()


@contextmanager
def _environment(gateway: Gateway, relay_port: int) -> Generator[None]:
    """The variables by which an executor finds the gateway, its chat API behind the relay."""
    before = dict(os.environ)
    os.environ.update(gateway.settings.for_runtime())
    os.environ["HERMES_API_BASE"] = f"http://127.0.0.1:{relay_port}/v1"
    os.environ["MOLECULE_A2A_CALLBACK_PORT"] = "0"
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _clock_marks(folder: Path) -> tuple[float, float]:
    """When hermes was given the last message, and when it answered."""
    lines = [line.split() for line in (folder / "clock").read_text().splitlines()[-2:]]
    assert [kind for kind, _ in lines] == ["taken", "answered"], lines
    return float(lines[0][1]), float(lines[1][1])


def _call_directly(settings: GatewaySettings, session_id: str) -> float:
    """Seconds of the request that the chat transport makes, by a plain client."""
    body = {
        "model": "scripted",
        "messages": [{"role": "user", "content": "say that it is done"}],
        "stream": True,
    }
    headers = {
        "Authorization": f"Bearer {settings.api_key}",
        "Content-Type": "application/json",
        "X-Hermes-Session-Id": session_id,
    }
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", settings.api_port, timeout=60)
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    answer = connection.getresponse().read()
    connection.close()
    assert b"[DONE]" in answer, answer
    return time.monotonic() - began


class _Relay:
    """Passes connections on to a port, and notes when a request came and when the end of its answer did."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sent = self._answered = 0.0
        threading.Thread(target=self._serve, daemon=True).start()

    def marks(self) -> tuple[float, float]:
        return self._sent, self._answered

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                threading.Thread(target=self._pass_requests, args=(client, server), daemon=True).start()
                threading.Thread(target=self._pass_answers, args=(server, client), daemon=True).start()

    def _pass_requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 20):
                self._sent = time.monotonic()
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)

    def _pass_answers(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError), server, client:
            while data := server.recv(1 << 20):
                if b"[DONE]" in data:
                    self._answered = time.monotonic()
                client.sendall(data)


@contextmanager
def _relay(target: int) -> Generator[_Relay]:
    relay = _Relay(target)
    try:
        yield relay
    finally:
        relay.close()


if __name__ == "__main__":
    print(figure.table([chat(), plugin()]))
