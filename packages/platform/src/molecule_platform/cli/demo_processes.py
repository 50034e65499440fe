"""Keeps the demo's agents running: one child process each, started again when it dies, stopped in the end."""

import asyncio
import contextlib
import os
import sys
import time
from asyncio import subprocess
from collections.abc import Callable
from typing import IO

from molecule_platform.cli import output, problems
from molecule_platform.cli.demo import SCRIPTS, Demo, DemoAgent

CHILD = (sys.executable, "-P", "-m", "molecule_platform.cli.child")
LOOK_SECONDS = 1.0
PAUSE_FIRST_SECONDS, MAX_PAUSE_SECONDS = 0.5, 30.0
STEADY_SECONDS = 30.0
GRACE_SECONDS = 5.0
MAX_LOG = 1024 * 1024


class DemoProcesses:
    """The running agents of a demo organisation."""

    def __init__(self, demo: Demo) -> None:
        self._demo = demo
        self._members: list[DemoAgent] = []
        self._keepers: list[asyncio.Task[None]] = []
        self._processes: dict[str, subprocess.Process] = {}
        # Each agent reads its end of this pipe: when our process dies, however suddenly, the agents end too.
        self._lifeline, self._held_end = os.pipe()

    @property
    def names(self) -> tuple[str, ...]:
        """Who belongs to it."""
        return tuple(member.name for member in self._members)

    async def gather(self) -> None:
        """Find the members, or create them. Raises a `Problem`."""
        self._members = await asyncio.to_thread(self._demo.members)

    def start(self) -> None:
        """Start every member and keep it running."""
        self._keepers = [asyncio.create_task(self._keep(member)) for member in self._members]

    async def stop(self) -> None:
        """Ask every agent to end, wait a little, end it."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        running = [process for process in self._processes.values() if process.returncode is None]
        for process in running:
            _signal(process.terminate)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await asyncio.gather(*(process.wait() for process in running))
        self.kill()
        await asyncio.gather(*(process.wait() for process in running))
        for end in (self._lifeline, self._held_end):
            os.close(end)

    def kill(self) -> None:
        """End what still runs, at once."""
        for process in self._processes.values():
            if process.returncode is None:
                _signal(process.kill)

    async def _keep(self, member: DemoAgent) -> None:
        """Run a member until it is removed: again after a crash, later after a pause."""
        pause = PAUSE_FIRST_SECONDS
        while (status := await self._status(member)) != "removed":
            if status in ("paused", "unknown"):
                await asyncio.sleep(LOOK_SECONDS)
                continue
            began = time.monotonic()
            await self._run(member)
            steady = time.monotonic() - began >= STEADY_SECONDS
            pause = PAUSE_FIRST_SECONDS if steady else min(pause * 2, MAX_PAUSE_SECONDS)
            await asyncio.sleep(0 if await self._status(member) in ("paused", "removed") else pause)

    async def _status(self, member: DemoAgent) -> str:
        try:
            return await asyncio.to_thread(self._demo.status, member)
        except problems.Problem:
            return "unknown"

    async def _run(self, member: DemoAgent) -> None:
        try:
            environment = await asyncio.to_thread(self._demo.environment, member, os.environ)
            with await asyncio.to_thread(self._open_log, member) as log:
                process = await asyncio.create_subprocess_exec(
                    *CHILD,
                    str(SCRIPTS / f"{member.name}.py"),
                    env=environment,
                    stdin=self._lifeline,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C reaches us alone; we stop the agents in order
                )
        except (problems.Problem, OSError) as problem:
            output.note(f"the demo's {member.name} could not be started: {problem}")
            return
        self._processes[member.name] = process
        await process.wait()

    def _open_log(self, member: DemoAgent) -> IO[bytes]:
        path = self._demo.log_file(member)
        if path.exists() and path.stat().st_size > MAX_LOG:
            path.replace(path.with_suffix(".log.1"))
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def _signal(send: Callable[[], None]) -> None:
    with contextlib.suppress(ProcessLookupError):
        send()
