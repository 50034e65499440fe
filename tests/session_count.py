"""Count the sessions that PostgreSQL has open on a database, all the time, as the server sees them."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import asyncpg

SAMPLE_SECONDS = 0.05
_SESSIONS = (
    "SELECT client_port FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'"
    " AND pid <> pg_backend_pid()"
)
_AWAY = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


@dataclass
class SessionCount:
    """Samples in a `with` block. `most` is the largest count; a group counts the ports it returns alone."""

    url: str
    database: str
    groups: dict[str, Callable[[], set[int]]] = field(default_factory=dict[str, Callable[[], set[int]]])
    most: int = 0
    most_in: dict[str, int] = field(default_factory=dict[str, int])

    def __enter__(self) -> "SessionCount":
        self._enough = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._watch()), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._enough.set()
        self._thread.join(10)

    async def _watch(self) -> None:
        while not self._enough.is_set():
            # The server may be away for a while; then there is nothing to count.
            with contextlib.suppress(OSError, TimeoutError, *_AWAY):
                await self._sample()
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _sample(self) -> None:
        connection = await cast("Any", asyncpg).connect(self.url, timeout=2, command_timeout=2)
        try:
            while not self._enough.is_set():
                ports: set[int] = {
                    row["client_port"] for row in await connection.fetch(_SESSIONS, self.database)
                }
                self.most = max(self.most, len(ports))
                for name, group in self.groups.items():
                    self.most_in[name] = max(self.most_in.get(name, 0), len(ports & group()))
                await asyncio.sleep(SAMPLE_SECONDS)
        finally:
            connection.terminate()
