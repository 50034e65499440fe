"""Write check: whether writes succeed, as `/ready` reports it.

A write that fails is proof that writes fail, on a full disk for example. From then on a probe of the size of
a message is written twice a second, because a replica that is not ready may get no other writes. The check
passes again once a probe succeeds and no other write failed for two seconds: a probe may fit where a message
does not.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

from molecule_platform.ports.idempotency import IdempotentRequest
from molecule_platform.ports.storage import StorageDown, Transaction
from molecule_platform.storage.batches import Job

PROBE_SECONDS, QUIET_SECONDS = 0.5, 2.0
# More than fits into the pages that a table or a log has left; random, so that nothing compresses it.
PROBE_BYTES = 128 * 1024
_SCOPE = "write-check"
_KEPT = timedelta(minutes=1)

Write = Callable[[Callable[[Transaction], None]], Awaitable[None]]


class WriteCheck:
    """Remembers that writes fail until a probe was written."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._key = secrets.token_hex(8)
        self._outage: StorageDown | None = None
        self._failed_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def check(self) -> None:
        """Raise `StorageDown` while writes fail."""
        if self._outage is not None:
            raise StorageDown("the database does not take writes") from self._outage.__cause__

    def note(self, jobs: Sequence[Job]) -> None:
        """Look at the outcomes of a batch, and begin to probe if one of them is an outage."""
        outage = next((job.problem for job in jobs if isinstance(job.problem, StorageDown)), None)
        if outage is None:
            return
        self._outage = outage
        self._failed_at = time.monotonic()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._probe())

    async def stop(self) -> None:
        """End the probe."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _probe(self) -> None:
        while not await self._recovered():  # noqa: ASYNC110 - the disk rings no bell when it has room again
            await asyncio.sleep(PROBE_SECONDS)
        self._outage = self._task = None

    async def _recovered(self) -> bool:
        try:
            # Two commits: SQLite does not write pages that are freed in the transaction that fills them.
            await self._write(self._fill)
            await self._write(self._empty)
        except Exception:  # noqa: BLE001 - whatever the reason, writes fail
            return False
        return time.monotonic() - self._failed_at > QUIET_SECONDS

    def _fill(self, tx: Transaction) -> None:
        now = datetime.now(UTC)
        filling = secrets.token_hex(PROBE_BYTES // 2)
        tx.attempts.begin(IdempotentRequest(_SCOPE, self._key, filling, "", now, now + _KEPT))

    def _empty(self, tx: Transaction) -> None:
        tx.attempts.forget(_SCOPE, self._key)
