"""The start helper as a real process, with a real hermes gateway below it."""

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

CANARIES = {
    "OPENROUTER_API_KEY": "canary-openrouter-8d1f7c2b9a",
    "HERMES_CUSTOM_API_KEY": "canary-custom-3e5a7d9c1b",
    "API_SERVER_KEY": "canary-api-server-1f2e3d4c5b6a7988",
    "MOLECULE_A2A_PLATFORM_SHARED_SECRET": "canary-shared-7a6b5c4d3e2f1a0b",
}


@dataclass
class GatewayProcess:
    """`python -m molecule_runtime.runtimes.hermes.start` in a home of its own."""

    folder: Path
    executable: Path
    model_url: str
    plugin: bool | None = True
    """Whether the plugin is switched on; None leaves it to the installation."""
    plugin_port: int = field(default_factory=lambda: free_port())
    api_port: int = field(default_factory=lambda: free_port())

    def __post_init__(self) -> None:
        self.home = self.folder / "hermes"
        self.log_path = self.folder / "start.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def plugin_url(self) -> str:
        return f"http://127.0.0.1:{self.plugin_port}"

    @property
    def secret(self) -> str:
        return CANARIES["MOLECULE_A2A_PLATFORM_SHARED_SECRET"]

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def start(self, *command: str) -> None:
        """Start the helper, with a command beside the gateway if one is given."""
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "HERMES_HOME": str(self.home),
            "HERMES_BIN": str(self.executable),
            "HERMES_INFERENCE_MODEL": "scripted",
            "HERMES_CUSTOM_BASE_URL": self.model_url,
            "MOLECULE_A2A_PLATFORM_ENABLED": "" if self.plugin is None else str(self.plugin),
            "MOLECULE_A2A_PLATFORM_PORT": str(self.plugin_port),
            "API_SERVER_PORT": str(self.api_port),
            "WORKSPACE_CONFIG_PATH": str(self.folder),
            **CANARIES,
        }
        with self.log_path.open("ab") as log:
            helper = [sys.executable, "-m", "molecule_runtime.runtimes.hermes.start"]
            helper += ["--", *command] if command else []
            self.process = subprocess.Popen(helper, env=env, stdout=log, stderr=log, cwd=self.folder)

    def hermes(self, timeout: float = 20.0) -> psutil.Process:
        """The gateway itself, below the start helper."""
        assert self.process is not None
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            for child in psutil.Process(self.process.pid).children():
                try:
                    if "gateway" in child.cmdline():
                        return child
                except (psutil.NoSuchProcess, psutil.ZombieProcess):
                    continue
            time.sleep(0.05)
        raise AssertionError(f"no gateway runs:\n{self.log}")

    def tree(self) -> list[psutil.Process]:
        """The start helper and everything below it."""
        assert self.process is not None
        top = psutil.Process(self.process.pid)
        return [top, *top.children(recursive=True)]

    def stop(self, timeout: float = 25.0) -> int:
        """SIGTERM to the start helper; its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            for process in self.tree():
                process.kill()
            self.process.wait()
            raise


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
