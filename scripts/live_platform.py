"""A real platform process on a free port, for samples and benchmarks."""

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from molecule_platform import settings
from molecule_platform.testing import servers

START_SECONDS = 30.0
STOP_SECONDS = 20.0
OURS = {setting.name for setting in settings.SETTINGS}


class StartFailed(Exception):
    """The platform did not answer in time; its last words follow."""


@dataclass(frozen=True)
class LivePlatform:
    """A platform that answers at `url`; `start_seconds` is the time to its first 200 on /health."""

    port: int
    data_dir: Path
    start_seconds: float
    pid: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def admin_token(self) -> str:
        return (self.data_dir / "admin.token").read_text().strip()


def clean_environment() -> dict[str, str]:
    """The environment without what would change settings or keep Python from caching bytecode."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in OURS and not name.startswith("MOLECULE_")
    }
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    bin_folder = str(Path(sys.executable).parent)
    return kept | {"PATH": bin_folder + os.pathsep + kept.get("PATH", os.defpath)}


@contextmanager
def running(data_dir: Path, *flags: str, **environ: str) -> Generator[LivePlatform]:
    """Start `molecule up` with these flags, wait until it answers, stop it in the end as Ctrl-C would."""
    port = servers.free_port()
    log = data_dir.parent / f"{data_dir.name}.log"
    command = ["molecule", "up", "--port", str(port), "--data-dir", str(data_dir), *flags]
    with log.open("wb") as output:
        began = time.perf_counter()
        process = subprocess.Popen(command, env=clean_environment() | environ, stdout=output, stderr=output)
        try:
            _wait_for_health(process, port, log)
            yield LivePlatform(port, data_dir, time.perf_counter() - began, process.pid)
        finally:
            _stop(process)


def _wait_for_health(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _healthy(port):
        if process.poll() is not None or time.monotonic() > deadline:
            raise StartFailed(f"No 200 on /health (exit code {process.poll()}):\n{log.read_text()[-4000:]}")
        time.sleep(0.005)


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
