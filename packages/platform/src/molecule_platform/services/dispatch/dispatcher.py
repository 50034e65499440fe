"""The courier: leases waiting messages for agents that have a URL, within their capacity."""

import asyncio

from molecule_platform.domain import dispatch, messages
from molecule_platform.domain.messages import Message, QueuedMessage
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.metrics import DeliveryMetrics
from molecule_platform.ports.storage import Storage, StorageDown, Transaction
from molecule_platform.services.dispatch.delivery_attempt import DeliveryAttempt
from molecule_platform.services.messaging.messages import next_message, settlement
from molecule_platform.services.messaging.tasks import platform_tasks
from molecule_platform.services.support import signals
from molecule_platform.services.support.signals import Signals
from molecule_wire import JSONObject

DISPATCHED = ("message", "delegation", "delegation_result", "schedule", "channel", "system")


class Dispatcher:
    """One per replica. Takes what its replica can carry, and starts a carrier for each."""

    def __init__(
        self,
        storage: Storage,
        bells_: Signals,
        clock: Clock,
        delivery_attempt: DeliveryAttempt,
        replica_id: str,
        measures: DeliveryMetrics,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._attempt = delivery_attempt
        self._replica_id = replica_id
        self._measures = measures
        self._pumps: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._carrying: dict[str, tuple[asyncio.Task[None], int]] = {}
        self._stopping = False
        bells_.watch(signals.ANY_MAIL, self.wake)
        bells_.watch(signals.SETTLED, self._settled)

    def wake(self, workspace_id: str) -> None:
        """Look whether there is anything to carry to this workspace."""
        if self._stopping:
            return
        if workspace_id in self._pumps:
            self._again.add(workspace_id)
            return
        self._pumps[workspace_id] = asyncio.get_running_loop().create_task(self._pump(workspace_id))

    async def stop(self) -> None:
        """Carry nothing new and give back what is under way."""
        self._stopping = self._attempt.stopping = True
        await self._attempt.cancel_notifier.stop()
        running = [*self._pumps.values(), *(task for task, _ in self._carrying.values())]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    @property
    def is_stopping(self) -> bool:
        """Whether nothing new is carried."""
        return self._stopping

    async def _pump(self, workspace_id: str) -> None:
        try:
            while True:
                self._again.discard(workspace_id)
                for message, workspace in await self._lease(workspace_id):
                    self.start(message, workspace)
                if workspace_id not in self._again:
                    return
        except StorageDown:
            return
        finally:
            del self._pumps[workspace_id]

    async def _lease(self, workspace_id: str) -> list[tuple[Message, Workspace]]:
        if not await self._storage.glance(lambda tx: self._next(tx, workspace_id)):
            return []

        def work(tx: Transaction) -> list[tuple[Message, Workspace]]:
            now = self._clock.now()
            leased: list[tuple[Message, Workspace]] = []
            for message, workspace in self._next(tx, workspace_id):
                deadline = messages.running_deadline(message, now)
                taken = tx.mailbox.lease(
                    message.id, kind="dispatch", at=now, deadline_at=deadline, owner=self._replica_id
                )
                if taken is not None:
                    platform_tasks.work_began(tx, taken, now)
                    settlement.moved(tx, taken, now)
                    leased.append((taken, workspace))
            return leased

        return await self._storage.write(work)

    def _next(self, tx: Transaction, workspace_id: str) -> list[tuple[Message, Workspace]]:
        workspace = tx.workspaces.get(workspace_id)
        if workspace is None or not dispatch.is_dispatchable(workspace):
            return []
        free = dispatch.capacity(workspace, tx.mailbox.load(workspace_id).leased)
        if free <= 0:
            return []
        chosen = next_message.next_messages(tx, workspace_id, self._clock.now(), free, _is_dispatched)
        found = (tx.mailbox.get(message_id) for message_id in chosen)
        return [(message, workspace) for message in found if message is not None]

    def start(self, message: Message, workspace: Workspace) -> None:
        """Carry a message that this replica has leased."""
        if message.attempts == 1 and message.leased_at is not None:
            self._measures.taken((message.leased_at - message.created_at).total_seconds())
        task = asyncio.get_running_loop().create_task(self._carry(message, workspace), name="carry")
        self._carrying[message.id] = (task, message.lease_epoch)

    async def _carry(self, message: Message, workspace: Workspace) -> None:
        try:
            self._measures.attempt(await self._attempt.run(message, workspace))
        finally:
            carried = self._carrying.get(message.id)
            if carried is not None and carried[1] == message.lease_epoch:
                del self._carrying[message.id]

    def is_carrying(self, message_id: str, epoch: int) -> bool:
        """Whether this replica is at work on the message under that lease."""
        carried = self._carrying.get(message_id)
        return carried is not None and carried[1] == epoch

    def _settled(self, message_id: str) -> None:
        carried = self._carrying.get(message_id)
        if carried is not None and (message_id, carried[1]) not in self._attempt.ending:
            self.drop(message_id)

    def note(self, message_id: str, params: JSONObject) -> None:
        """What is to be told to the agent of a message that is about to be called off, if we carry it."""
        if message_id in self._carrying:
            self._attempt.cancel_notifier.note(message_id, params)

    def drop(self, message_id: str) -> None:
        """Stop carrying a message that has ended otherwise."""
        task, epoch = self._carrying.get(message_id, (None, 0))
        if task is None or task.cancelling():
            # Once: a second time would keep it from telling the agent to stop.
            return
        if self._attempt.cancel_notifier.takes_over((message_id, epoch), task):
            del self._carrying[message_id]
        else:
            task.cancel()


def _is_dispatched(message: QueuedMessage) -> bool:
    return message.kind in DISPATCHED
