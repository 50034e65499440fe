"""What time does: presence, lost replicas, lapsed leases, deadlines, silent agents."""

import asyncio
from collections.abc import Callable
from functools import partial

from molecule_platform.domain import messages
from molecule_platform.domain.messages import HeldMessage, Message
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.metrics import DeliveryMetrics
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.dispatch.dispatcher import Dispatcher
from molecule_platform.services.messaging.messages import settlement
from molecule_platform.services.support import event_log, signals
from molecule_platform.services.support.periodic_tasks import PeriodicTasks

LIVENESS_SECONDS = 5.0
MAX_CONCURRENT = 200
MAX_ORPHANS = 10_000


class Sweeps:
    """The periodic work of a replica."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        replica_id: str,
        dispatcher: Dispatcher,
        shared: bool,
        measures: DeliveryMetrics,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._replica_id = replica_id
        self._dispatcher = dispatcher
        self._after = ""
        self._shared = shared
        self._measures = measures
        self.living = 1

    def add_to(self, loops: PeriodicTasks) -> None:
        """Put the periodic work among the loops of the house."""
        if self._shared:
            # A replica unseen for five seconds is taken for dead: presence never waits long.
            loops.add("presence", 1.0, self.presence, longest_backoff=1.0)
        loops.add("lease-reaper", 1.0, self.leases, exclusive=True)
        loops.add("dispatcher", 1.0, self.dispatch)
        loops.add("lost-leases", 5.0, self.lost)
        loops.add("liveness", LIVENESS_SECONDS, self.liveness, exclusive=True)

    async def goodbye(self) -> None:
        """Tell the other replicas that this one stops."""
        await self._storage.write(lambda tx: tx.presence.leave(self._replica_id))

    async def presence(self) -> None:
        """Say that this replica lives, and count the living."""

        def work(tx: Transaction) -> int:
            tx.presence.seen(self._replica_id)
            return len(tx.presence.alive(messages.REPLICA_UNSEEN))

        self.living = await self._storage.write_aside(work)

    async def recover(self) -> None:
        """Take back what an earlier process on the same files was carrying when it died."""
        if not self._shared:
            await self._storage.write(lambda tx: self._release_orphans(tx, [self._replica_id]))

    async def leases(self) -> None:
        """Lost replicas, lapsed inbox leases and passed deadlines.

        Each in a transaction of its own: one that cannot be ended holds up no other.
        """
        orphans, overdue, lapsed = await self._storage.read(self._due)
        works: list[Callable[[Transaction], bool]] = [self._release_lost] if orphans else []
        works += [partial(self._expire, message_id) for message_id in overdue]
        works += [partial(self._lapse, message_id) for message_id in lapsed]
        done = await asyncio.gather(*map(self._storage.write, works), return_exceptions=True)
        for _lapsed in [one for one in done if one is True]:
            self._measures.lease_expired()
        for problem in done:
            if isinstance(problem, BaseException):
                raise problem

    def _due(self, tx: Transaction) -> tuple[bool, list[str], list[str]]:
        now = self._clock.now()
        overdue = [message.id for message in tx.mailbox.overdue(now, MAX_CONCURRENT)]
        lapsed = [message.id for message in tx.mailbox.lapsed(now, MAX_CONCURRENT)]
        return bool(tx.mailbox.orphaned(self._living(tx), 1)), overdue, lapsed

    def _living(self, tx: Transaction) -> list[str]:
        return [*tx.presence.alive(messages.REPLICA_UNSEEN), self._replica_id]

    def _release_lost(self, tx: Transaction) -> bool:
        self._release_orphans(tx, self._living(tx))
        return False

    def _expire(self, message_id: str, tx: Transaction) -> bool:
        now, message = self._clock.now(), tx.mailbox.get(message_id)
        if message is not None and message.is_open and message.deadline_at <= now:
            settlement.settle(tx, message.id, settlement.at_deadline(tx, message), now)
        return False

    def _lapse(self, message_id: str, tx: Transaction) -> bool:
        """Offer a message again whose worker let its lease run out; whether it did."""
        now, message = self._clock.now(), tx.mailbox.get(message_id)
        if message is None or message.status != "leased" or message.lease_expires_at is None:
            return False
        if message.lease_expires_at > now:
            return False
        self._offer_again(tx, message)
        return True

    def _release_orphans(self, tx: Transaction, living: list[str]) -> None:
        self._release(tx, tx.mailbox.orphaned(living, MAX_ORPHANS))

    def _release(self, tx: Transaction, leases: list[HeldMessage]) -> None:
        now = self._clock.now()
        for lease in leases:
            tx.mailbox.release(lease.id, lease.lease_epoch, now)
            tx.signal(signals.mail(lease.target_id))

    def _offer_again(self, tx: Transaction, message: Message) -> None:
        now = self._clock.now()
        if message.attempts >= message.max_attempts:
            ended = messages.failure("no-reply", "every worker that took the message let its lease run out")
            settlement.settle(tx, message.id, ended, now)
            return
        tx.mailbox.retry(message.id, message.lease_epoch, now, now, "lease-lost", "the lease ran out")
        settlement.moved(tx, message, now)
        tx.signal(signals.mail(message.target_id))

    async def dispatch(self) -> None:
        """Wake the courier for whatever is due, also after a crash or a lost ring."""
        targets = await self._storage.read(
            lambda tx: tx.mailbox.targets_to_dispatch(self._clock.now(), self._after, MAX_CONCURRENT)
        )
        self._after = targets[-1] if len(targets) == MAX_CONCURRENT else ""
        for target in targets:
            self._dispatcher.wake(target)

    async def lost(self) -> None:
        """Leases of this replica that it is not working on: their acknowledgement was lost on the way."""
        before = self._clock.now() - messages.REPLICA_UNSEEN
        held = await self._storage.read(lambda tx: tx.mailbox.dispatched_by(self._replica_id, before))
        lost = [lease for lease in held if not self._dispatcher.is_carrying(lease.id, lease.lease_epoch)]
        if lost:
            await self._storage.write(lambda tx: self._release(tx, lost))

    async def liveness(self) -> None:
        """Agents that fell silent are offline."""
        now = self._clock.now()
        if not await self._storage.read(lambda tx: tx.workspaces.stale(now, 1)):
            return

        def work(tx: Transaction) -> None:
            for workspace in tx.workspaces.stale(now, MAX_CONCURRENT):
                changes = {"status_reason": "no heartbeat"}
                event_log.step(tx, workspace, "silence", now, changes, reason="no heartbeat")

        await self._storage.write(work)
