"""The courier: carries waiting messages to agents that have a URL, within their capacity."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from molecule_platform.domain import dispatch, messages
from molecule_platform.domain.messages import Message, Outcome
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.links import AgentLink, Answered, Dispatch, Unanswered
from molecule_platform.ports.log import Log
from molecule_platform.ports.measures import Measures
from molecule_platform.ports.storage import Storage, StorageDown, Transaction
from molecule_platform.services import bells, settlement
from molecule_platform.services.bells import Bells
from molecule_wire import jsontext

STORAGE_RETRY_SECONDS = 1.0


class Courier:
    """One per replica. Leases what its replica can carry, and settles what comes back."""

    def __init__(
        self,
        storage: Storage,
        bells: Bells,
        clock: Clock,
        log: Log,
        link: AgentLink,
        replica_id: str,
        idle_seconds: int,
        open_dispatch_secret: Callable[[Workspace], str | None],
        chance: Callable[[], float],
        measures: Measures,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._log = log
        self._link = link
        self._replica_id = replica_id
        self._idle_seconds = idle_seconds
        self._open_dispatch_secret = open_dispatch_secret
        self._chance = chance
        self._measures = measures
        self._pumps: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._carrying: dict[asyncio.Task[None], tuple[str, int]] = {}
        self._stopping = False
        bells.watch("mail.", self.wake)

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
        self._stopping = True
        running = [*self._pumps.values(), *self._carrying]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _pump(self, workspace_id: str) -> None:
        try:
            while True:
                self._again.discard(workspace_id)
                for message, workspace in await self._lease(workspace_id):
                    self._start(message, workspace)
                if workspace_id not in self._again:
                    return
        except StorageDown:
            return
        finally:
            del self._pumps[workspace_id]

    async def _lease(self, workspace_id: str) -> list[tuple[Message, Workspace]]:
        if not await self._storage.read(lambda tx: self._next(tx, workspace_id)):
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
                    leased.append((taken, workspace))
            return leased

        leased = await self._storage.write(work)
        for message, _workspace in leased:
            self._count_taken(message)
        return leased

    def _count_taken(self, message: Message) -> None:
        if message.attempts == 1 and message.leased_at is not None:
            self._measures.taken((message.leased_at - message.created_at).total_seconds())

    def _next(self, tx: Transaction, workspace_id: str) -> list[tuple[Message, Workspace]]:
        workspace = tx.workspaces.get(workspace_id)
        if workspace is None or not dispatch.is_dispatchable(workspace):
            return []
        waiting = tx.mailbox.waiting(workspace_id, _DISPATCHED)
        free = dispatch.capacity(workspace, sum(m.status == "leased" for m in waiting))
        chosen = messages.choose(waiting, self._clock.now(), free)
        found = (tx.mailbox.get(message_id) for message_id in chosen)
        return [(message, workspace) for message in found if message is not None]

    def _start(self, message: Message, workspace: Workspace) -> None:
        task = asyncio.get_running_loop().create_task(self._carry(message, workspace))
        self._carrying[task] = (message.id, message.lease_epoch)
        task.add_done_callback(lambda ended: self._carrying.pop(ended, None))

    def is_carrying(self, message_id: str, epoch: int) -> bool:
        """Whether this replica is at work on the message under that lease."""
        return (message_id, epoch) in self._carrying.values()

    async def _carry(self, message: Message, workspace: Workspace) -> None:
        try:
            reply = await self._deliver(message, workspace)
        except asyncio.CancelledError:
            await self._storage.write(lambda tx: self._give_back(tx, message))
            raise
        except Exception as problem:  # noqa: BLE001 - a fault of ours must not leave the message leased for ever
            sentence = f"the message could not be handed over ({type(problem).__name__})"
            reply = Unanswered("internal", sentence, retryable=True)
        await self._write_until_done(message, workspace, reply)

    async def _deliver(self, message: Message, workspace: Workspace) -> Answered | Unanswered:
        left = (message.deadline_at - self._clock.now()).total_seconds()
        if left <= 0:
            return Unanswered("deadline-exceeded", "the deadline passed before the message was sent", False)
        secret = self._open_dispatch_secret(workspace)
        delivering = asyncio.ensure_future(self._link.deliver(Dispatch(workspace, message, secret, left)))
        try:
            return await self._unless_idle(delivering, message, workspace)
        finally:
            delivering.cancel()

    async def _unless_idle(
        self, delivering: "asyncio.Future[Answered | Unanswered]", message: Message, workspace: Workspace
    ) -> Answered | Unanswered:
        """The outcome; or, when the agent shows no sign of work for too long, that there is none."""
        idle = timedelta(seconds=workspace.idle_timeout_seconds or self._idle_seconds)
        quiet_since = self._clock.now()
        while True:
            patience = (quiet_since + idle - self._clock.now()).total_seconds()
            done, _ = await asyncio.wait({delivering}, timeout=max(0.0, patience))
            if done:
                return delivering.result()
            heard = await self._storage.read(lambda tx: _last_sign_of_work(tx, message))
            if heard is None or heard <= quiet_since:
                sentence = f"{workspace.name} showed no sign of work for {idle.total_seconds():g} s"
                return Unanswered("peer-unreachable", sentence, True, delivery_confirmed=True)
            quiet_since = heard

    async def _write_until_done(
        self, message: Message, workspace: Workspace, reply: Answered | Unanswered
    ) -> None:
        """An answer that came must not be lost because the database is away for a moment."""
        refused = False
        while True:
            try:
                how = await self._storage.write(
                    lambda tx, reply=reply: self._record(tx, message, workspace, reply)
                )
                self._measures.attempt(how)
                return
            except StorageDown:
                if self._stopping:
                    return
                await asyncio.sleep(STORAGE_RETRY_SECONDS)
            except Exception as problem:  # noqa: BLE001 - an answer that cannot be kept must not wedge the message
                self._log.error("an answer cannot be kept", message_id=message.id, problem=repr(problem))
                sentence = "the agent's answer cannot be kept"
                reply = Unanswered("invalid-agent-response", sentence, False, delivery_confirmed=True)
                if refused:
                    return
                refused = True

    def _record(
        self, tx: Transaction, message: Message, workspace: Workspace, reply: Answered | Unanswered
    ) -> str:
        now = self._clock.now()
        how = self._settle(tx, message, reply, now)
        current = tx.workspaces.get(workspace.id)
        if current is not None and current.active_tasks > 0:
            # The agent reported this work at its last heartbeat; it is done now.
            tx.workspaces.touch(workspace.id, active_tasks=current.active_tasks - 1)
        tx.signal(bells.mail(workspace.id))
        return how

    def _settle(self, tx: Transaction, message: Message, reply: Answered | Unanswered, now: datetime) -> str:
        """Write what became of the attempt, and say it in a word."""
        if isinstance(reply, Answered):
            outcome = outcome_of(reply)
            settlement.settle(tx, message.id, outcome, now, message.lease_epoch)
            return outcome.status
        if now >= message.deadline_at:
            settlement.settle(tx, message.id, messages.expiry(message), now, message.lease_epoch)
            return "expired"
        if not reply.retryable or message.attempts >= message.max_attempts:
            more: dict[str, Any] = {"delivery_confirmed": reply.delivery_confirmed}
            if reply.agent_status is not None:
                more["agent_status"] = reply.agent_status
            ended = messages.failure(reply.code, reply.sentence, **more)
            settlement.settle(tx, message.id, ended, now, message.lease_epoch)
            return "failed"
        seconds = reply.retry_after or messages.retry_delay(message.attempts, self._chance())
        again = now + timedelta(seconds=seconds)
        tx.mailbox.retry(message.id, message.lease_epoch, now, again, reply.code, reply.sentence)
        return "retry"

    def _give_back(self, tx: Transaction, message: Message) -> None:
        tx.mailbox.release(message.id, message.lease_epoch, self._clock.now())


def _last_sign_of_work(tx: Transaction, message: Message) -> datetime | None:
    """When the agent last said that it is working on the message, or on anything if it names nothing."""
    workspace = tx.workspaces.get(message.target_id)
    if workspace is None:
        return None
    turns = (workspace.runtime_metadata or {}).get("active_turns")
    if isinstance(turns, list):
        named = [turn.get("message_id") for turn in turns if isinstance(turn, dict)]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return workspace.last_heartbeat_at if message.id in named else None
    return workspace.last_heartbeat_at if workspace.active_tasks >= 1 else None


_DISPATCHED = ("message", "delegation", "delegation_result", "schedule", "channel", "system")


def outcome_of(reply: Answered) -> Outcome:
    """What an agent's answer makes of a message."""
    if reply.error is None:
        return Outcome("answered", reply.result, reply.task_state, agent_task_id=reply.agent_task_id)
    error = jsontext.decode(reply.error)
    sentence = error.get("message") if isinstance(error, dict) else None
    said = sentence if isinstance(sentence, str) else "the agent answered with an error"
    return messages.failure("skill-failed", said, dead_letter=False, agent_error=error)
