"""A real platform process, the command line as a function, and a small server that says what a test wants."""

import http.server
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import requests

from molecule_platform.cli import main
from molecule_platform.testing import servers

STOP_SECONDS = 30.0
NOT_FOUND: tuple[int, object, dict[str, str]] = (404, {"error": "nothing is here", "code": "not-found"}, {})

# Tests are faster than people.
UNLIMITED = {"RATE_LIMIT": "0", "RATE_LIMIT_ANON": "0"}


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Standard output, which is one JSON value and nothing else."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Platform:
    """A running `molecule up`, with what it printed when it was up."""

    process: subprocess.Popen[str]
    told: dict[str, Any]

    @property
    def url(self) -> str:
        return self.told["url"]

    @property
    def data_dir(self) -> Path:
        return Path(self.told["data_dir"])

    def stop(self) -> int:
        """Stop it as Ctrl-C would; returns the exit code."""
        self.process.terminate()
        return self.process.wait(STOP_SECONDS)


Start = Callable[..., AbstractContextManager[Platform]]
Molecule = Callable[..., Result]


def clean() -> dict[str, str]:
    """The environment without anything that would change settings."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MOLECULE_")
        and name not in ("PORT", "DATABASE_URL", "NATS_URL", "ADMIN_TOKEN")
    }


@contextmanager
def running(data_dir: Path, *flags: str, **environ: str) -> Generator[Platform]:
    command = [sys.executable, "-m", "molecule_platform.cli.main", "up", "--json"]
    command += ["--port", str(servers.free_port()), "--data-dir", str(data_dir), *flags]
    process = subprocess.Popen(
        command,
        env=clean() | UNLIMITED | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield Platform(process, json.loads(process.stdout.readline() or "{}"))
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(STOP_SECONDS)
        process.stdout.close()


@pytest.fixture(scope="session")
def start() -> Start:
    """Starts a platform on a data directory; it is stopped at the end of the `with`."""
    return running


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """One platform for all tests that do not stop it."""
    with running(tmp_path_factory.mktemp("house") / "data") as platform:
        yield platform


@pytest.fixture
def molecule(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Molecule:
    """The program as a function, in an environment without a terminal."""

    def call(*arguments: str, environ: dict[str, str] | None = None, stdin: str = "") -> Result:
        with monkeypatch.context() as patch:
            patch.delenv("COLUMNS", raising=False)
            for name, value in (environ or {}).items():
                patch.setenv(name, value)
            patch.setattr("sys.stdin", Typed(stdin))
            code = main.run(arguments)
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return call


class Typed:
    """Standard input from a pipe."""

    def __init__(self, text: str) -> None:
        self._text = io.StringIO(text)

    def isatty(self) -> bool:
        return False

    def read(self, size: int) -> str:
        return self._text.read(size)

    def readline(self) -> str:
        return self._text.readline()


@pytest.fixture
def at_house(molecule: Molecule, platform: Platform) -> Molecule:
    """The program, pointed at the running platform by the environment."""
    environ = {"MOLECULE_PLATFORM_URL": platform.url, "MOLECULE_DATA_DIR": str(platform.data_dir)}

    def call(*arguments: str, stdin: str = "") -> Result:
        return molecule(*arguments, environ=environ, stdin=stdin)

    return call


@pytest.fixture
def offer(platform: Platform) -> Callable[[], str]:
    """Put a new plugin into the platform's folder; its name."""

    def put() -> str:
        name = f"plugin-{uuid4()}"
        place = platform.data_dir / "plugins" / name
        for folder in (place.parent, place):
            folder.mkdir(mode=0o700, exist_ok=True)
        manifest = place / "plugin.yaml"
        manifest.touch(mode=0o600)
        manifest.write_text(f"name: {name}\nversion: 1.0.0\ndescription: says hello\n")
        return name

    return put


@pytest.fixture
def worker(platform: Platform) -> Callable[..., Any]:
    """A call to the inbox of a workspace, as its agent makes it."""

    def call(workspace_id: str, token: str, verb: str, **body: Any) -> Any:
        path = f"{platform.url}/workspaces/{workspace_id}/inbox/{verb}"
        answer = requests.post(path, json=body, headers={"Authorization": f"Bearer {token}"}, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return call


@pytest.fixture
def fail(worker: Callable[..., Any]) -> Callable[[str, str], str]:
    """Take the next message of a workspace and make a dead letter of it; its id."""

    def work(workspace_id: str, token: str) -> str:
        [item] = worker(workspace_id, token, "lease", limit=1)["messages"]
        lease = {"lease_token": item["lease"]["token"]}
        worker(
            workspace_id, token, f"{item['message_id']}/fail", error="no such file", retryable=False, **lease
        )
        return item["message_id"]

    return work


@dataclass
class Script:
    """What a scripted server answers on each path, and what it was asked."""

    url: str = ""
    answers: dict[str, list[tuple[int, object, dict[str, str]]]] = field(default_factory=dict[str, Any])
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list[Any])

    def on(self, path: str, body: object, status: int = 200, **headers: str) -> None:
        """Answer a path; a body that is text is sent as it is."""
        self.answers[path] = [(status, body, headers)]

    def then(self, path: str, body: object, status: int = 200, **headers: str) -> None:
        """Answer it like this after the answers given so far."""
        self.answers[path].append((status, body, headers))

    def answer(self, path: str) -> tuple[int, object, dict[str, str]]:
        """The next answer; the last one stays."""
        given = self.answers.get(path, [NOT_FOUND])
        return given.pop(0) if len(given) > 1 else given[0]


@pytest.fixture
def scripted() -> Iterator[Script]:
    """A server that says what the test tells it."""
    script = Script()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(script))
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(script: Script) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(length)
            script.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
            status, body, headers = script.answer(path)
            raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response_only(status)
            for name, value in ({"Content-Length": str(len(raw))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)

        do_POST = do_DELETE = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    return Handler
