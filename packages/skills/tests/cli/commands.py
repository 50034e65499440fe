"""Running `molecule-skill` as a user does: a process of its own in a folder."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

COMMAND = [sys.executable, "-m", "molecule_skill.cli.main"]
AGENT = '''"""An agent for tests of the command."""

from molecule_skill import A2AAgent, RunContext, skill


class Agent(A2AAgent):
    name = "{name}"
    description = "Greets people."
    version = "0.1.0"

    @skill()
    async def greet(self, ctx: RunContext, name: str) -> str:
        """Say hello."""
        return f"{greeting}, {{name}}!"

    @skill()
    async def ask(self, ctx: RunContext, topic: str) -> str:
        """Ask a person, then write a file."""
        answer = await ctx.ask(f"What about {{topic}}?")
        ref = await ctx.write_artifact("answer.txt", answer.encode(), "text/plain")
        await ctx.emit_artifact(ref)
        return answer.upper()

    @skill()
    async def fail(self, ctx: RunContext) -> str:
        """Raise an error."""
        return helper({{}})


def helper(values: dict[str, str]) -> str:
    return values["missing"]
'''


def environment() -> dict[str, str]:
    kept = {
        name: text for name, text in os.environ.items() if not name.startswith(("MOLECULE_", "PLATFORM_"))
    }
    return {**kept, "PYTHONUNBUFFERED": "1", "COLUMNS": "80"}


def run(folder: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment(),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )


def project(folder: Path, *, greeting: str = "Hello", name: str = "greeter") -> Path:
    """A project whose agent is ours."""
    done = run(folder, "init", name)
    assert done.returncode == 0, done.stderr
    write_agent(folder / name, greeting=greeting, name=name)
    return folder / name


def write_agent(root: Path, *, greeting: str, name: str = "greeter") -> None:
    (root / "agent.py").write_text(AGENT.format(name=name, greeting=greeting))


class Dev:
    """A running `molecule-skill dev`."""

    def __init__(self, process: subprocess.Popen[str], url: str, log: Path) -> None:
        self.process, self.url, self._log = process, url, log
        self.base = url.partition("/_dev")[0]

    def output(self) -> str:
        return self._log.read_text()

    def wait_for_output(self, text: str, seconds: float = 10.0) -> float:
        """Wait for a line; how long that took."""
        began = time.monotonic()
        while text not in self.output():
            assert time.monotonic() - began < seconds, self.output()
            assert self.process.poll() is None, self.output()
            time.sleep(0.01)
        return time.monotonic() - began

    def invoke(self, skill: str, **arguments: Any) -> Any:
        return httpx.post(f"{self.base}/invoke/{skill}", json={"arguments": arguments}, timeout=10).json()


@contextmanager
def dev(root: Path, *flags: str, port: int = 0) -> Generator[Dev]:
    """Start it; end it as Ctrl-C does."""
    log = root / "dev.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [*COMMAND, "dev", "--port", str(port), *flags],
            cwd=root,
            env={**environment(), "MOLECULE_DRAIN_SECONDS": "0.2"},
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield Dev(process, _address(process, log), log)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _address(process: subprocess.Popen[str], log: Path) -> str:
    deadline = time.monotonic() + 20
    while not (found := re.search(r"http://\S+/_dev\?token=\S+", log.read_text())):
        assert time.monotonic() < deadline, log.read_text()
        assert process.poll() is None, log.read_text()
        time.sleep(0.01)
    return found[0]


def value(done: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(done.stdout.splitlines()[-1])
