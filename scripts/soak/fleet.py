"""The platform of the soak: one process on SQLite, or two replicas on PostgreSQL and NATS."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from molecule_platform.testing import servers
from tests.e2e.platform_process import PlatformProcess

Engine = Literal["sqlite", "postgres"]

ADMIN_TOKEN = "the-administrator-of-the-soak"
LIFE_SECONDS = (0.2, 1.4)
SHARED = {
    "ADMIN_TOKEN": ADMIN_TOKEN,
    "SECRETS_ENCRYPTION_KEY": "thirty-two characters, for both!",
    "REMOTE_LIVENESS_STALE_AFTER": "900",
    "MAILBOX_MAX_OPEN": "10000",
}


@dataclass(frozen=True)
class Fleet:
    """The processes that are one platform."""

    processes: Sequence[PlatformProcess]

    @property
    def urls(self) -> list[str]:
        return [process.url for process in self.processes]

    async def kill_at_random(self, kills: int, until: float, begin_life: Callable[[], None]) -> int:
        """Kill them in turn, each at a random moment of its life, and start them again; how often it was."""
        for number in range(kills):
            if time.monotonic() > until:
                return number
            victim = self.processes[number % len(self.processes)]
            begin_life()
            await asyncio.sleep(random.uniform(*LIFE_SECONDS))
            await asyncio.to_thread(victim.kill)
            await asyncio.to_thread(victim.start)
        return kills


@contextlib.asynccontextmanager
async def started(engine: Engine, folder: Path) -> AsyncGenerator[Fleet]:
    """The platform up and answering; stopped in the end."""
    with contextlib.ExitStack() as stack:
        environment = dict(SHARED)
        names = ["alone"]
        if engine == "postgres":
            server = stack.enter_context(servers.private_postgres())
            environment["DATABASE_URL"] = stack.enter_context(servers.fresh_database(server))
            environment["NATS_URL"] = stack.enter_context(servers.private_nats())
            names = ["one", "two"]
        processes = [_process(folder / name, environment) for name in names]
        for process in processes:
            stack.callback(process.stop)
            await asyncio.to_thread(process.start)
        yield Fleet(processes)


def _process(home: Path, environment: dict[str, str]) -> PlatformProcess:
    home.mkdir()
    return PlatformProcess(servers.free_port(), home / "data", environment)
