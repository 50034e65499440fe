"""What time does: presence, lost replicas, lapsed leases, deadlines, silent agents; in supervised loops."""

import asyncio
from collections.abc import Awaitable, Callable

from molecule_platform.domain import messages
from molecule_platform.domain.messages import Held, Message
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.log import Log
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services import bells, journal, settlement
from molecule_platform.services.courier import Courier

MOST_AT_ONCE = 200
MOST_ORPHANS = 10_000
BACKOFF_LONGEST = 60.0


class Sweeps:
    """The periodic work of a replica."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        log: Log,
        replica_id: str,
        courier: Courier,
        shared: bool,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._log = log
        self._replica_id = replica_id
        self._courier = courier
        self._after = ""
        self._shared = shared
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin. Recovery runs beside everything else, so that a start never waits for it."""
        self._tasks.append(asyncio.get_running_loop().create_task(self.recover()))
        loops = [(self.leases, 1.0), (self.dispatch, 1.0), (self.liveness, 5.0)]
        if self._shared:
            loops.append((self.presence, 1.0))
        loops.append((self.lost, 5.0))
        for work, seconds in loops:
            self._tasks.append(asyncio.get_running_loop().create_task(self._for_ever(work, seconds)))

    async def stop(self) -> None:
        """End the loops and say goodbye to the other replicas."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._storage.write(lambda tx: tx.presence.leave(self._replica_id))

    async def _for_ever(self, work: Callable[[], Awaitable[None]], seconds: float) -> None:
        wait = seconds
        while True:
            try:
                await work()
                wait = seconds
            except Exception as problem:  # noqa: BLE001 - a loop that dies loses messages; it is logged and goes on
                # A replica unseen for five seconds is taken for dead: presence never waits long.
                longest = 1.0 if work == self.presence else BACKOFF_LONGEST
                wait = min(longest, wait * 2)
                self._log.error("sweep failed", sweep=work.__name__, problem=repr(problem), next_in=wait)
            await asyncio.sleep(wait)

    async def presence(self) -> None:
        """Say that this replica lives."""
        await self._storage.write(lambda tx: tx.presence.seen(self._replica_id))

    async def recover(self) -> None:
        """Take back what an earlier process on the same files was carrying when it died."""
        if not self._shared:
            await self._storage.write(lambda tx: self._release_orphans(tx, [self._replica_id]))

    async def leases(self) -> None:
        """Lost replicas, lapsed inbox leases and passed deadlines."""
        if await self._storage.read(self._anything_due):
            await self._storage.write(self._settle_due)

    def _anything_due(self, tx: Transaction) -> bool:
        now = self._clock.now()
        living = tx.presence.alive(messages.REPLICA_UNSEEN)
        orphans = tx.mailbox.orphaned([*living, self._replica_id], 1)
        return bool(orphans or tx.mailbox.lapsed(now, 1) or tx.mailbox.overdue(now, 1))

    def _settle_due(self, tx: Transaction) -> None:
        now = self._clock.now()
        living = tx.presence.alive(messages.REPLICA_UNSEEN)
        self._release_orphans(tx, [*living, self._replica_id])
        for message in tx.mailbox.overdue(now, MOST_AT_ONCE):
            settlement.settle(tx, message.id, messages.expiry(message), now)
        for message in tx.mailbox.lapsed(now, MOST_AT_ONCE):
            self._offer_again(tx, message)

    def _release_orphans(self, tx: Transaction, living: list[str]) -> None:
        self._release(tx, tx.mailbox.orphaned(living, MOST_ORPHANS))

    def _release(self, tx: Transaction, leases: list[Held]) -> None:
        now = self._clock.now()
        for lease in leases:
            tx.mailbox.release(lease.id, lease.lease_epoch, now)
            tx.signal(bells.mail(lease.target_id))

    def _offer_again(self, tx: Transaction, message: Message) -> None:
        now = self._clock.now()
        if message.attempts >= message.max_attempts:
            ended = messages.failure("no-reply", "every worker that took the message let its lease run out")
            settlement.settle(tx, message.id, ended, now)
            return
        tx.mailbox.retry(message.id, message.lease_epoch, now, now, "lease-lost", "the lease ran out")
        tx.signal(bells.mail(message.target_id))

    async def dispatch(self) -> None:
        """Wake the courier for whatever is due, also after a crash or a lost ring."""
        targets = await self._storage.read(
            lambda tx: tx.mailbox.targets_to_dispatch(self._clock.now(), self._after, MOST_AT_ONCE)
        )
        self._after = targets[-1] if len(targets) == MOST_AT_ONCE else ""
        for target in targets:
            self._courier.wake(target)

    async def lost(self) -> None:
        """Leases of this replica that it is not working on: their acknowledgement was lost on the way."""
        before = self._clock.now() - messages.REPLICA_UNSEEN
        held = await self._storage.read(lambda tx: tx.mailbox.dispatched_by(self._replica_id, before))
        lost = [lease for lease in held if not self._courier.is_carrying(lease.id, lease.lease_epoch)]
        if lost:
            await self._storage.write(lambda tx: self._release(tx, lost))

    async def liveness(self) -> None:
        """Agents that fell silent are offline."""
        now = self._clock.now()
        if not await self._storage.read(lambda tx: tx.workspaces.stale(now, 1)):
            return

        def work(tx: Transaction) -> None:
            for workspace in tx.workspaces.stale(now, MOST_AT_ONCE):
                after = workspace.changed(status="offline", status_reason="no heartbeat", updated_at=now)
                journal.move(tx, workspace, after, now, reason="no heartbeat", name=workspace.name)

        await self._storage.write(work)
