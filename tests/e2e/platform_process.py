"""A platform in a process of its own, that a test may kill and start again on the same files."""

import http.client
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

START_SECONDS = 30.0
# Tests are faster than agents.
_UNLIMITED = {"RATE_LIMIT": "0", "RATE_LIMIT_ANON": "0"}
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")


@dataclass
class PlatformProcess:
    """`molecule up` on one port and one data directory."""

    port: int
    data_dir: Path
    environment: dict[str, str] = field(default_factory=dict[str, str])
    flags: tuple[str, ...] = ("--no-demo",)
    # Python code that runs before the program, to shorten its deadlines or to lower its limits.
    preamble: str = ""
    _process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> Path:
        return self.data_dir.parent / "platform.log"

    def start(self) -> None:
        """Start and wait until it answers."""
        program = f"{self.preamble}\nfrom molecule_platform.cli.main import main; main()"
        command = [sys.executable, "-c", program, "up"]
        command += ["--port", str(self.port), "--data-dir", str(self.data_dir), *self.flags]
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                command, env=kept | _UNLIMITED | self.environment, stdout=output, stderr=output
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < deadline, self.log.read_text()[-3000:]
            time.sleep(0.02)

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def kill(self) -> None:
        """Pull the plug."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)

    def stop(self) -> int:
        """Ask it to stop, as Ctrl-C does; the exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        return self._process.wait(30)

    def admin_token(self) -> str:
        given = self.environment.get("ADMIN_TOKEN")
        return given or (self.data_dir / "admin.token").read_text().strip()

    def ok(self, method: str, path: str, token: str | None = None, **request: Any) -> Any:
        """The body of a request that must succeed."""
        headers = {"Authorization": f"Bearer {token or self.admin_token()}", **request.pop("headers", {})}
        answer = requests.request(method, self.url + path, headers=headers, timeout=30, **request)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None
