"""A small platform that answers by script, over real sockets, and clients that talk to it."""

import json
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias, cast
from urllib.parse import parse_qsl, urlsplit

import pytest

from molecule_agent import RemoteAgentClient

WORKSPACE = "3f1c2d4e-5a6b-4c7d-8e9f-0a1b2c3d4e5f"
PATIENCE_SECONDS = 30.0


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    json: Any


@dataclass
class Answer:
    """What to answer; `drop` hangs up instead."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    drop: bool = False


Script: TypeAlias = Answer | Callable[[Seen], Answer]


class ScriptedPlatform:
    """Answers each route with what was scripted for it, in order, the last one for ever."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self._scripts: dict[tuple[str, str], list[Script]] = {}
        self._lock = threading.Lock()
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def on(self, method: str, path: str, *scripts: Script) -> None:
        """Script a route."""
        self._scripts[(method, path)] = list(scripts)

    def ok(self, method: str, path: str, body: Any = None) -> None:
        """Script a route that always answers 200."""
        self.on(method, path, Answer(200, body))

    def requests(self, method: str, path: str) -> list[Seen]:
        """What arrived at a route."""
        return [seen for seen in list(self.seen) if (seen.method, seen.path) == (method, path)]

    def answer(self, seen: Seen) -> Answer:
        with self._lock:
            self.seen.append(seen)
            scripts = self._scripts.get((seen.method, seen.path), [])
            script = scripts.pop(0) if len(scripts) > 1 else (scripts or [_nothing_here])[0]
        return script(seen) if callable(script) else script


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, platform: ScriptedPlatform) -> None:
        self.platform = platform
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 30

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        seen = Seen(
            self.command,
            parts.path,
            dict(parse_qsl(parts.query)),
            {name.lower(): value for name, value in self.headers.items()},
            json.loads(body) if body else None,
        )
        answer = cast(_Server, self.server).platform.answer(seen)
        if answer.drop:
            self.close_connection = True
            return
        self._write(answer)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _write(self, answer: Answer) -> None:
        content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _nothing_here(seen: Seen) -> Answer:
    return Answer(404, {"error": "nothing here", "code": "not-found", "request_id": "r"})


class FastClock:
    """A clock that jumps over every sleep, and remembers it."""

    def __init__(self) -> None:
        self.now = 1_767_225_600.0
        self.slept: list[float] = []

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float, /) -> None:
        self.slept.append(seconds)
        self.now += seconds


@contextmanager
def running() -> Generator[ScriptedPlatform]:
    platform = ScriptedPlatform()
    platform.start()
    try:
        yield platform
    finally:
        platform.stop()


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The machine's own settings and home must not reach a test."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "MOLECULE_ENROLMENT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def platform() -> Iterator[ScriptedPlatform]:
    with running() as started:
        yield started


@pytest.fixture
def other_platform() -> Iterator[ScriptedPlatform]:
    with running() as started:
        yield started


@pytest.fixture
def clock() -> FastClock:
    return FastClock()


MakeClient: TypeAlias = Callable[..., RemoteAgentClient]


@pytest.fixture
def make_client(platform: ScriptedPlatform, tmp_path: Path) -> Iterator[MakeClient]:
    made: list[RemoteAgentClient] = []

    def make(**options: Any) -> RemoteAgentClient:
        settings: dict[str, Any] = {"token_dir": tmp_path / "tokens"} | options
        made.append(RemoteAgentClient(WORKSPACE, platform.url, **settings))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def client(make_client: MakeClient) -> RemoteAgentClient:
    made = make_client()
    made.save_token("token-of-the-agent")
    return made


@pytest.fixture
def answer() -> type[Answer]:
    """The class of scripted answers; test modules cannot import it."""
    return Answer


WaitFor: TypeAlias = Callable[[Callable[[], object]], None]


@pytest.fixture
def wait_for() -> WaitFor:
    """Wait until something is so; fail when it never is."""

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, "it never came true"
            time.sleep(0.01)

    return wait
