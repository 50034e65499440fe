"""The inbox of an agent without a URL: lease, answer, acknowledge, give back, each under a fence."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from molecule_platform.domain import credentials, inbox, messages, results
from molecule_platform.domain.messages import Message, MessageOutcome, QueuedMessage
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.mailbox import WHAT_IS_OPEN, InboxFilter
from molecule_platform.ports.pages import PAGE_MAX_BYTES
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services.messaging.inbox import inbox_answers, inbox_items, inbox_leases
from molecule_platform.services.messaging.inbox.inbox_answers import InboxAnswer
from molecule_platform.services.messaging.messages import next_message, settlement
from molecule_platform.services.support import signals
from molecule_platform.services.support.signals import Signals
from molecule_wire import times


@dataclass(frozen=True)
class LeaseRequest:
    """What a worker asks for."""

    limit: int = 10
    lease_seconds: float = 60.0
    kinds: tuple[str, ...] = ()
    peer_id: str | None = None
    context_id: str | None = None
    worker: str | None = None
    parallel_contexts: bool = False


class InboxService:
    """Hands out messages under leases and takes the answers back."""

    def __init__(
        self,
        storage: Storage,
        signals: Signals,
        clock: Clock,
        chance: Callable[[], float],
        max_releases: int,
    ) -> None:
        self._storage = storage
        self._signals = signals
        self._clock = clock
        self._chance = chance
        self._max_releases = max_releases

    # Handing out

    async def peek(
        self,
        workspace: Workspace,
        base_url: str,
        limit: int,
        wait: float,
        wanted: InboxFilter = WHAT_IS_OPEN,
    ) -> dict[str, Any]:
        """What is open, or dead, without any effect; with a wait, as soon as there is something."""

        def seen(tx: Transaction) -> dict[str, Any]:
            found = self._listed(tx, workspace.id, limit, wanted)
            return inbox_items.lease_item(tx, workspace, base_url, [(message, None) for message in found])

        async def look() -> dict[str, Any] | None:
            now = await self._storage.read(seen)
            return now if now["messages"] or wait <= 0 else None

        found = await self._signals.wait_for(signals.mail(workspace.id), look, wait)
        return found or await self._storage.read(seen)

    def _listed(self, tx: Transaction, workspace_id: str, limit: int, wanted: InboxFilter) -> list[Message]:
        """What is dead, the newest first, or what is open, in the order in which it is leased."""
        if wanted.status == "dead":
            return tx.mailbox.inbox(workspace_id, limit, wanted)
        waiting = (one for one in tx.mailbox.waiting(workspace_id) if _is_wanted(one, wanted))
        chosen = messages.in_order(waiting, self._clock.now())[:limit]
        page: list[Message] = []
        size = 0
        for message in filter(None, (tx.mailbox.get(one.id) for one in chosen)):
            size += len(message.body)
            if page and size > PAGE_MAX_BYTES:
                break
            page.append(message)
        return page

    async def lease(
        self, workspace: Workspace, base_url: str, wish: LeaseRequest, wait: float, left: Callable[[], bool]
    ) -> dict[str, Any]:
        """Claim the next messages; waits for one when there is none yet.

        `left` tells whether the worker has hung up: what nobody would receive is not leased, or given back.
        """

        async def look() -> dict[str, Any] | None:
            return {} if left() else await self._lease_if_any(workspace, base_url, wish)

        leased = await self._signals.wait_for(signals.mail(workspace.id), look, wait)
        if leased and left():
            items = leased["messages"]
            await self._storage.write(lambda tx: self._take_back(tx, workspace, items))
        return leased or await self._storage.read(
            lambda tx: inbox_items.lease_item(tx, workspace, base_url, [])
        )

    async def _lease_if_any(
        self, workspace: Workspace, base_url: str, wish: LeaseRequest
    ) -> dict[str, Any] | None:
        if not await self._storage.read(lambda tx: self._chosen(tx, workspace.id, wish)):
            return None
        return await self._storage.write(lambda tx: self._lease(tx, workspace, base_url, wish))

    def _chosen(self, tx: Transaction, workspace_id: str, wish: LeaseRequest) -> list[str]:
        current = tx.workspaces.get(workspace_id)
        if current is None or current.status in ("paused", "removed"):
            return []
        return next_message.next_messages(
            tx,
            workspace_id,
            self._clock.now(),
            wish.limit,
            lambda message: _is_wished(message, wish),
            worker=wish.worker or "",
            parallel_contexts=wish.parallel_contexts,
        )

    def _lease(
        self, tx: Transaction, workspace: Workspace, base_url: str, wish: LeaseRequest
    ) -> dict[str, Any] | None:
        now = self._clock.now()
        leased: list[tuple[Message, str | None]] = []
        size = 0
        for message_id in self._chosen(tx, workspace.id, wish):
            message = tx.mailbox.get(message_id)
            size += 0 if message is None else len(message.body)
            if leased and size > PAGE_MAX_BYTES:
                break
            token = credentials.new_token()
            taken = message and _take(tx, message, wish, token, now)
            if taken is not None:
                leased.append((taken, token))
        tx.signal(signals.EVENTS)
        return inbox_items.lease_item(tx, workspace, base_url, leased) if leased else None

    def _take_back(self, tx: Transaction, workspace: Workspace, items: list[dict[str, Any]]) -> None:
        """End leases that never reached their worker; that is no release of the agent's, and not counted."""
        now = self._clock.now()
        for item in items:
            tx.mailbox.release(item["message_id"], item["lease"]["epoch"], now)
            settlement.moved(tx, inbox_leases.addressed(tx, workspace, item["message_id"]), now)
        tx.signal(signals.mail(workspace.id))

    # Taking back

    async def answer(
        self, workspace: Workspace, name: str, lease_token: str | None, answer: InboxAnswer
    ) -> Message:
        """Settle with what the agent said; saying the same again is harmless."""
        inbox_answers.check_state(answer)
        now = self._clock.now()

        def is_open(tx: Transaction) -> bool:
            message = inbox_leases.addressed(tx, workspace, name)
            if message.is_open:
                inbox_leases.check(message, lease_token)
            return message.is_open

        def work(tx: Transaction) -> Message:
            message = inbox_leases.addressed(tx, workspace, name)
            result = inbox_answers.result_of(tx, message, answer, now)
            if inbox_answers.is_same(message, result):
                return message
            inbox_leases.check(message, lease_token)
            inbox_answers.show_evidence(tx, message, answer.evidence, now)
            return inbox_leases.settled(tx, message, MessageOutcome("answered", result, answer.state), now)

        # Who does not hold the message is refused before its answer, which may be large, reaches the writer.
        if await self._storage.glance(is_open):
            return await self._storage.write(work)
        return await self._storage.read(work)

    async def ack(self, workspace: Workspace, name: str, lease_token: str | None) -> Message:
        """Settle without words: the sender gets an empty completed result."""
        now = self._clock.now()

        def work(tx: Transaction) -> Message:
            message = inbox_leases.addressed(tx, workspace, name)
            if message.status == "answered":
                return message
            inbox_leases.check(message, lease_token)
            result = results.answer_task(message, "completed", None, [], times.format_time(now))
            return inbox_leases.settled(tx, message, MessageOutcome("answered", result, "completed"), now)

        return await self._storage.write(work)

    async def fail(
        self,
        workspace: Workspace,
        name: str,
        lease_token: str | None,
        failure: MessageOutcome,
        delay: float | None,
    ) -> Message:
        """Give up on this attempt: it is offered again later, or ends as a dead letter."""
        now = self._clock.now()
        error = failure.error or {}

        def work(tx: Transaction) -> Message:
            message = inbox_leases.addressed(tx, workspace, name)
            inbox_leases.check(message, lease_token)
            if not error["retryable"] or message.attempts >= message.max_attempts:
                return inbox_leases.settled(
                    tx, message, replace(failure, error=error | {"retryable": False}), now
                )
            seconds = messages.retry_delay(message.attempts, self._chance()) if delay is None else delay
            tx.mailbox.retry(
                message.id,
                message.lease_epoch,
                now,
                now + timedelta(seconds=seconds),
                error["code"],
                error["message"],
            )
            tx.signal(signals.mail(workspace.id))
            settlement.moved(tx, message, now)
            return inbox_leases.addressed(tx, workspace, name)

        return await self._storage.write(work)

    async def release(self, workspace: Workspace, name: str, lease_token: str) -> Message:
        """Give a message back without an outcome: it is offered again, later each time, but not for ever.

        This spends no attempt, because an agent may have good reasons. The platform keeps count all the same:
        a worker that breaks before it says anything would otherwise take the message until its deadline.
        """
        now = self._clock.now()

        def work(tx: Transaction) -> Message:
            message = inbox_leases.addressed(tx, workspace, name)
            inbox_leases.check(message, lease_token)
            again_at = now + timedelta(seconds=messages.release_delay(message.releases + 1))
            given_back = tx.mailbox.give_back(message.id, message.lease_epoch, now, again_at)
            assert given_back is not None
            if given_back.releases >= self._max_releases:
                outcome = messages.released_too_often(given_back.releases)
                return inbox_leases.settled(tx, given_back, outcome, now)
            settlement.moved(tx, given_back, now)
            tx.signal(signals.mail(workspace.id))
            return given_back

        return await self._storage.write(work)

    async def extend(self, workspace: Workspace, name: str, lease_token: str, seconds: float) -> Message:
        """Keep a lease longer, never past the deadline."""
        now = self._clock.now()

        def work(tx: Transaction) -> Message:
            message = inbox_leases.addressed(tx, workspace, name)
            inbox_leases.check(message, lease_token)
            until = min(now + timedelta(seconds=seconds), message.deadline_at)
            tx.mailbox.extend(message.id, message.lease_epoch, until)
            return inbox_leases.addressed(tx, workspace, name)

        return await self._storage.write(work)


def _take(tx: Transaction, message: Message, wish: LeaseRequest, token: str, now: datetime) -> Message | None:
    taken = tx.mailbox.lease(
        message.id,
        kind="inbox",
        at=now,
        deadline_at=messages.running_deadline(message, now),
        expires_at=now + timedelta(seconds=wish.lease_seconds),
        token_hash=credentials.digest(token),
        worker=wish.worker or "",
    )
    if taken is not None:
        inbox_leases.taken(tx, taken, now)
    return taken


def _is_wanted(waiting: QueuedMessage, wanted: InboxFilter) -> bool:
    return (
        wanted.kind in (None, waiting.kind)
        and wanted.caller in (None, waiting.caller)
        and wanted.context_id in (None, waiting.context_id)
    )


def _is_wished(waiting: QueuedMessage, wish: LeaseRequest) -> bool:
    if wish.kinds and waiting.kind not in wish.kinds:
        return False
    if wish.context_id is not None and waiting.context_id != wish.context_id:
        return False
    return wish.peer_id is None or inbox.peer_of(waiting.caller) == wish.peer_id
