"""The hermes gateway as a supervised child process: started, watched, started again, stopped last."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from molecule_runtime.kit.state import engine_health
from molecule_runtime.kit.state.known_secrets import add_known_secret, is_secret_name, known_secret_values
from molecule_runtime.kit.turns import processes
from molecule_runtime.runtimes.hermes import orphan_processes
from molecule_runtime.runtimes.hermes.errors import HermesError
from molecule_runtime.runtimes.hermes.gateway_settings import GatewaySettings
from molecule_runtime.runtimes.hermes.home_directory import PLUGIN_NAME, plugin_problem, prepare_home
from molecule_runtime.runtimes.hermes.installation import check_http_library, find_hermes, interpreter_of
from molecule_runtime.runtimes.hermes.yaml_config import read_config
from molecule_wire import redaction

FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS = 1.0, 30.0
MAX_CRASHES, CRASH_WINDOW_SECONDS = 5, 300.0
STOP_SECONDS = 10.0
PROBE_SECONDS, PROBE_INTERVAL_SECONDS = 5.0, 0.25
MAX_LINE = 8192
WEDGE_REASON = f"hermes gateway crashed {MAX_CRASHES} times in 5 minutes"

_INHERITED = frozenset(
    {
        "PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM", "MOLECULE_A2A_CALLBACK_ALLOW",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
        "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    }
)  # fmt: skip

log = logging.getLogger(__name__)


class Gateway:
    """One gateway in its home. `start` once; `stop` may be called at any time and more than once."""

    def __init__(self, settings: GatewaySettings, env: Mapping[str, str] | None = None) -> None:
        self.settings = settings
        self._env = dict(os.environ if env is None else env)
        self._process: Process | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._crashes = deque[float](maxlen=MAX_CRASHES)
        self._recovered = asyncio.Event()
        self._recovered.set()

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    async def start(self) -> None:
        """Prepare the home, check what hermes needs, and start it; raises `HermesError`.

        Whether it answers is another question: see `wait_ready`.
        """
        executable = find_hermes(self._env)
        self.settings = await asyncio.to_thread(prepare_home, self.settings, interpreter_of(executable))
        for value in self.settings.secret_values():
            add_known_secret(value)
        if self.settings.plugin:
            name = self.settings.plugin_entry_point or PLUGIN_NAME
            problem = plugin_problem(read_config(self.settings.home / "config.yaml"), name)
            if problem:
                raise HermesError(problem)
        await asyncio.to_thread(orphan_processes.end, self.settings.home, STOP_SECONDS)
        check_ports(self.settings)
        await check_http_library(executable)
        self._process = await self._spawn(executable)
        self._supervisor = asyncio.create_task(self._supervise(executable))

    async def wait_ready(self, timeout: float) -> None:
        """Wait until the gateway takes messages; raises `HermesError` when it does not in this time."""
        until = time.monotonic() + timeout
        while not await self.is_ready():
            if time.monotonic() > until or engine_health.wedge_reason() == WEDGE_REASON:
                why = engine_health.wedge_reason() or f"the hermes gateway did not get ready in {timeout:g} s"
                raise HermesError(f"{why}: read {self.settings.home / 'logs' / 'gateway.log'}.")
            await asyncio.sleep(PROBE_INTERVAL_SECONDS)

    async def is_ready(self) -> bool:
        """Whether the plugin, or without it the API, answers 200 to a health probe."""
        settings = self.settings
        if settings.plugin:
            return await _get_status(settings.plugin_host, settings.plugin_port, "/a2a/health") == 200
        return await _get_status(settings.api_host, settings.api_port, "/health") == 200

    async def wait_recovered(self, timeout: float) -> None:
        """Wait while a gateway that ended by itself is being started again, for so many seconds at most."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._recovered.wait(), max(timeout, 0.0))

    async def stop(self) -> None:
        """End the gateway and everything in its process group. Its exit code does not matter then."""
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)
            self._supervisor = None
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), STOP_SECONDS)
        _kill_group(process)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        orphan_processes.forget(self.settings.home)
        log.info("hermes gateway stopped")

    async def _spawn(self, executable: Path) -> Process:
        """Start hermes. Keys are in its files, so neither its arguments nor its environment hold any."""
        process = await processes.spawn(
            *orphan_processes.ended_with_us(str(executable), "gateway", "run", "--external-supervisor"),
            stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, env=child_environment(self._env, self.settings.home),
        )  # fmt: skip
        orphan_processes.note(self.settings.home, process.pid)
        log.info("hermes gateway started with pid %d", process.pid)
        return process

    async def _supervise(self, executable: Path) -> None:
        """Log what the gateway prints; start it again when it ends by itself."""
        delay = FIRST_DELAY_SECONDS
        while True:
            process = self._process
            assert process is not None
            started = time.monotonic()
            watchers = [
                asyncio.create_task(each) for each in (self._log_output(process), self._watch_recovery())
            ]
            try:
                code = await process.wait()
                self._recovered.clear()
                _kill_group(process)
                # What it said last is worth a moment; a child in another group may hold the pipe open.
                await asyncio.wait(watchers[:1], timeout=1.0)
            finally:
                for watcher in watchers:
                    watcher.cancel()
            self._note_crash()
            if time.monotonic() - started > CRASH_WINDOW_SECONDS:
                delay = FIRST_DELAY_SECONDS
            log.warning("hermes gateway ended with code %d; it starts again in %g s", code, delay)
            await asyncio.sleep(delay)
            delay = min(delay * 2, MAX_DELAY_SECONDS)
            try:
                self._process = await self._spawn(executable)
            except OSError as problem:
                log.error("hermes gateway cannot be started: %s", problem.strerror)

    async def _watch_recovery(self) -> None:
        """Let turns in again once a gateway that crashed answers, and take back that the engine is wedged."""
        while not self._recovered.is_set() or engine_health.wedge_reason() == WEDGE_REASON:
            await asyncio.sleep(PROBE_INTERVAL_SECONDS)
            if await self.is_ready():
                self._recovered.set()
                if engine_health.wedge_reason() == WEDGE_REASON:
                    engine_health.clear_wedge()

    def _note_crash(self) -> None:
        now = time.monotonic()
        self._crashes.append(now)
        if len(self._crashes) == MAX_CRASHES and now - self._crashes[0] < CRASH_WINDOW_SECONDS:
            log.error("%s", WEDGE_REASON)
            engine_health.mark_wedged(WEDGE_REASON)

    async def _log_output(self, process: Process) -> None:
        """Log each line without secrets; a line without an end is logged in pieces."""
        assert process.stdout is not None
        known = known_secret_values(self._env)
        rest = b""
        while data := await process.stdout.read(MAX_LINE):
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > MAX_LINE:
                lines, rest = [*lines, rest], b""
            for line in lines:
                _log_line(line, known)
        _log_line(rest, known)


def child_environment(env: Mapping[str, str], home: Path) -> dict[str, str]:
    """The environment of the gateway: what a program needs, and hermes' own settings, but no key."""
    kept = {
        name: value
        for name, value in env.items()
        if (name in _INHERITED or name.startswith(("LC_", "HERMES_"))) and not is_secret_name(name)
    }
    user_home = Path(env.get("HOME", "") or Path.home())
    if not user_home.is_dir():  # hermes' terminal starts there
        user_home = home / "home"
        user_home.mkdir(mode=0o700, exist_ok=True)
    return {**kept, "HOME": str(user_home), "HERMES_HOME": str(home), "PYTHONUNBUFFERED": "1"}


def check_ports(settings: GatewaySettings) -> None:
    """Raise `HermesError` when a port that the gateway needs is taken."""
    addresses = [(settings.api_host, settings.api_port, "API_SERVER_PORT")]
    if settings.plugin:
        addresses.append((settings.plugin_host, settings.plugin_port, "MOLECULE_A2A_PLATFORM_PORT"))
    for host, port, variable in addresses:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as problem:
                raise HermesError(
                    f"port {port} of {host} cannot be used by hermes ({problem.strerror}): "
                    f"stop the program that listens there, or set {variable} to a free port."
                ) from None


def _log_line(line: bytes, known: tuple[str, ...]) -> None:
    text = line.decode(errors="replace").rstrip()
    if text:
        log.info("hermes: %s", redaction.redact(text, redaction.LOG, known))


def _kill_group(process: Process) -> None:
    """Kill what the gateway left behind in its process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _get_status(host: str, port: int, path: str) -> int:
    """The status of a plain GET; 0 without an answer."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(
                    f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode()
                )
                words = (await reader.readline()).split(b" ", 2)
                return int(words[1])
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError, IndexError):
        return 0
