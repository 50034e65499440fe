"""The notifier: tells webhooks what happened to the tasks that they watch, each at its own pace."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from molecule_platform.domain import push_requests
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.log import Log
from molecule_platform.ports.storage import Storage, StorageDown, Transaction
from molecule_platform.ports.webhooks import WebhookResult, WebhookSender
from molecule_platform.services.messaging.webhooks import webhook_notifications
from molecule_platform.services.messaging.webhooks.webhook_notifications import WebhookNotification
from molecule_platform.services.support.periodic_tasks import PeriodicTasks
from molecule_platform.services.support.signals import OUTBOX, Signals

MAX_CONCURRENT = 64
# So many letters to one webhook, then others have their turn.
MAX_CONSECUTIVE = 32
STORAGE_RETRY_SECONDS = 1.0


class Notifier:
    """One per replica. Leases what is due, posts it, and writes down what came of it.

    No webhook waits for another: each has at most one letter under way, and its next one goes out when it has
    taken this one.
    """

    def __init__(
        self,
        storage: Storage,
        signals: Signals,
        clock: Clock,
        log: Log,
        webhooks: WebhookSender,
        open_secret: Callable[[str, str], str],
        replica_id: str,
        chance: Callable[[], float],
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._log = log
        self._webhooks = webhooks
        self._open_secret = open_secret
        self._replica_id = replica_id
        self._chance = chance
        self._pump: asyncio.Task[None] | None = None
        self._again = False
        self._posting: dict[str, asyncio.Task[None]] = {}
        self._under_way: dict[str, str] = {}
        self._behind: dict[str, WebhookNotification] = {}
        self._stopping = False
        signals.watch(OUTBOX, lambda _rest: self.wake())

    def add_to(self, loops: PeriodicTasks) -> None:
        """Put the look into the outbox among the loops of the house: a ring may be lost."""
        loops.add("outbox", 1.0, self.tick)

    async def tick(self) -> None:
        """Look whether anything is due."""
        self.wake()

    def wake(self) -> None:
        """Look into the outbox, now or right after the look that is under way."""
        self._again = True
        if self._pump is None and not self._stopping:
            self._pump = asyncio.get_running_loop().create_task(self._look())

    async def stop(self) -> None:
        """Post nothing new, and give back what is under way."""
        self._stopping = True
        running = [*self._posting.values(), *([] if self._pump is None else [self._pump])]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for letter in self._behind.values():
            await self._give_back(letter)

    async def _look(self) -> None:
        try:
            while self._again and len(self._posting) < MAX_CONCURRENT:
                self._again = False
                free = MAX_CONCURRENT - len(self._posting)
                taken = await self._lease(free)
                for letter in taken:
                    self._start(letter)
                self._again |= len(taken) == free
        except StorageDown:
            return
        except Exception as problem:  # noqa: BLE001 - whoever looks next second must not find this one's corpse
            self._log.error("the outbox cannot be read", problem=repr(problem))
        finally:
            self._pump = None

    async def _lease(self, limit: int) -> list[WebhookNotification]:
        if not await self._storage.read(lambda tx: tx.outbox.is_due(self._clock.now())):
            return []
        return await self._storage.write(
            lambda tx: webhook_notifications.lease(tx, self._replica_id, self._clock.now(), limit)
        )

    def _start(self, letter: WebhookNotification) -> None:
        config_id, notification_id = letter.config.id, letter.notification.id
        if config_id not in self._posting:
            task = asyncio.get_running_loop().create_task(self._carry(letter))
            self._posting[config_id], self._under_way[config_id] = task, notification_id
            task.add_done_callback(lambda _ended: self._ended(config_id))
        elif self._under_way[config_id] != notification_id:
            # It came up right after whoever tells this webhook had seen that nothing was left.
            self._behind[config_id] = letter

    def _ended(self, config_id: str) -> None:
        was_full = len(self._posting) >= MAX_CONCURRENT
        del self._posting[config_id], self._under_way[config_id]
        if self._stopping:
            return
        if config_id in self._behind:
            self._start(self._behind.pop(config_id))
        if was_full or self._again:
            self.wake()

    async def _carry(self, first: WebhookNotification) -> None:
        """Tell one webhook everything that waits for it, one letter after the other."""
        letter: WebhookNotification | None = first
        for left in reversed(range(MAX_CONSECUTIVE)):
            self._under_way[letter.config.id] = letter.notification.id
            told = await self._post(letter)
            letter = await self._write_until_done(letter, told, and_next=left > 0)
            if letter is None:
                return

    async def _post(self, letter: WebhookNotification) -> WebhookResult:
        try:
            secret = push_requests.secret_of(letter.config, self._open_secret)
            written = push_requests.headers(letter.notification, letter.config.dialect, secret)
            return await self._webhooks.post(letter.config.url, written, letter.body)
        except asyncio.CancelledError:
            await self._give_back(letter)
            raise
        except Exception as problem:  # noqa: BLE001 - a fault of ours must not stop what else is to be told
            self._log.error("a notification cannot be sent", config=letter.config.id, problem=repr(problem))
            return WebhookResult(None, f"the notification could not be sent ({type(problem).__name__})")

    async def _write_until_done(
        self, letter: WebhookNotification, told: WebhookResult, *, and_next: bool
    ) -> WebhookNotification | None:
        """An answer that came is written down also when the database is away for a moment."""

        def work(tx: Transaction) -> WebhookNotification | None:
            now = self._clock.now()
            webhook_notifications.settle(tx, letter, told, self._replica_id, now, self._chance())
            if and_next:
                return webhook_notifications.lease_next(tx, letter, self._replica_id, now)
            tx.signal(OUTBOX)
            return None

        while True:
            try:
                return await self._storage.write(work)
            except StorageDown:
                if self._stopping:
                    return None
                await asyncio.sleep(STORAGE_RETRY_SECONDS)

    async def _give_back(self, letter: WebhookNotification) -> None:
        with suppress(StorageDown):
            await self._storage.write(
                lambda tx: tx.outbox.release(letter.notification, self._replica_id, self._clock.now())
            )
