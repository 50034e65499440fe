"""Workspaces as real processes: a member of a platform's tree, and the runtime process that runs it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import requests

from scripts import live_platform

CONFIG = "name: Echo\nruntime: echo\na2a: {port: 0}\nruntime_config: {max_concurrent_turns: 8}\n"
PROGRAM = "from molecule_runtime.main import main_sync; main_sync()"
COMMAND = (sys.executable, "-c", PROGRAM)
SECONDS = 30.0


class AnyPlatform(Protocol):
    """A platform process, whoever started it."""

    @property
    def url(self) -> str: ...

    def admin_token(self) -> str: ...


def until(
    condition: Callable[[], object], why: Callable[[], str] = lambda: "", seconds: float = SECONDS
) -> None:
    """Wait until something holds; `why` tells what was there instead when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, why()
        time.sleep(0.02)


def text_of(answer: Any) -> str:
    """The words of a JSON-RPC answer that is a Message."""
    return " ".join(part.get("text", "") for part in answer["result"]["parts"])


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """The variables of a runtime process whose configuration is in a folder."""
    return {
        **live_platform.clean_environment(),
        "WORKSPACE_CONFIG_PATH": str(folder),
        "MOLECULE_STOP_GRACE_SECS": "1",
        **variables,
    }


def with_modules(folder: Path) -> str:
    """A PYTHONPATH on which the modules of a folder are found, too."""
    return os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])


class RuntimeProcess:
    """One runtime on one configuration folder; started, ended and started again."""

    def __init__(self, folder: Path, config: str = CONFIG, **variables: str) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "config.yaml").write_text(config)
        self.folder = folder
        self.log = folder / ".log"
        self.variables = environment(folder, **variables)
        self.process: subprocess.Popen[bytes] | None = None
        self.preamble = ""

    def launch(self) -> None:
        """Start the process, and wait for nothing."""
        with self.log.open("ab") as log:
            command = (*COMMAND[:2], f"{self.preamble}\n{PROGRAM}")
            self.process = subprocess.Popen(command, env=self.variables, stderr=log)

    def start(self) -> None:
        """Start the process, and wait until it is ready."""
        self.launch()
        self.logged("ready: workspace")

    def logged(self, words: str) -> None:
        """Wait until the log of this process says something."""
        until(lambda: words in self.log.read_text() or self.is_over, self.log.read_text)
        assert words in self.log.read_text(), self.log.read_text()

    @property
    def is_over(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; the exit code. The log is put aside."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(SECONDS)
        self.log.rename(self.log.with_suffix(f".{time.monotonic_ns()}"))
        return code

    def close(self) -> None:
        """End the process, if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @property
    def url(self) -> str:
        """Where the process listens."""
        line = next(line for line in self.log.read_text().splitlines() if "listening on" in line)
        return f"http://127.0.0.1:{line.rpartition(':')[2]}/"

    def readiness(self) -> tuple[int, str]:
        """What `/readyz` answers: its status, and its one word."""
        answer = requests.get(f"{self.url}readyz", timeout=SECONDS)
        return answer.status_code, answer.json()["status"]


class Member(RuntimeProcess):
    """A workspace of a platform, and the process that runs it."""

    def __init__(
        self, platform: AnyPlatform, folder: Path, config: str = CONFIG, /, **variables: str
    ) -> None:
        self.platform = platform
        self.headers = {"Authorization": f"Bearer {platform.admin_token()}"}
        body = {"name": folder.name, "runtime": "external", "max_concurrent_tasks": 8}
        made = self.call("POST", "/workspaces", json=body)
        self.id = str(made["id"])
        self.token = str(made["connection"]["auth_token"])
        identity = {
            "WORKSPACE_ID": self.id,
            "PLATFORM_URL": platform.url,
            "MOLECULE_WORKSPACE_TOKEN": self.token,
        }
        super().__init__(folder, config, **(identity | variables))

    def call(self, method: str, path: str, **request: Any) -> Any:
        """The JSON that the platform answers to its administrator."""
        answer = requests.request(
            method, self.platform.url + path, headers=self.headers, timeout=60, **request
        )
        return answer.json()

    def send(self, text: str, **message: Any) -> Any:
        """Send a message through the platform, and wait for its outcome."""
        parts = [{"kind": "text", "text": text}]
        sent = {"messageId": os.urandom(8).hex(), "role": "user", "parts": parts, **message}
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": sent}}
        return self.call("POST", f"/workspaces/{self.id}/a2a", json=body)

    def row(self) -> Any:
        """The workspace as the platform shows it."""
        return self.call("GET", f"/workspaces/{self.id}")

    def newest_message(self) -> Any:
        """The row of the message that came last."""
        return self.call("GET", f"/workspaces/{self.id}/messages?limit=1")["messages"][0]


@contextmanager
def member(
    platform: AnyPlatform, folder: Path, config: str = CONFIG, /, **variables: str
) -> Generator[Member]:
    """A workspace that is ready; its process is ended in the end."""
    made = Member(platform, folder, config, **variables)
    try:
        made.start()
        yield made
    finally:
        made.close()
