"""The inbox of an agent without a URL: lease, answer, acknowledge, give back, each under a fence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from molecule_platform.domain import credentials, inbox, messages, results
from molecule_platform.domain.messages import Message, Outcome, Waiting
from molecule_platform.domain.refusals import Refusal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.activity import ActivityRow
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.services import bells, logbook, settlement
from molecule_platform.services.activity import peers_of, wire_row
from molecule_platform.services.bells import Bells
from molecule_platform.services.delivery import message_not_found, said_in
from molecule_wire import ids, times

PAGE_MOST_BYTES = 8 * 1024 * 1024
ANSWER_STATES = ("completed", "rejected", "input-required", "auth-required")


@dataclass(frozen=True)
class LeaseWish:
    """What a worker asks for."""

    limit: int = 10
    lease_seconds: float = 60.0
    kinds: tuple[str, ...] = ()
    peer_id: str | None = None
    context_id: str | None = None
    worker: str | None = None
    parallel_contexts: bool = False


@dataclass(frozen=True)
class Answer:
    """What an agent says to a message: 1.0 parts, and the state its task is left in."""

    parts: list[Any]
    state: str = "completed"
    artifacts: tuple[Any, ...] = ()


class Inbox:
    """Hands out messages under leases and takes the answers back."""

    def __init__(self, storage: Storage, bells: Bells, clock: Clock, chance: Callable[[], float]) -> None:
        self._storage = storage
        self._bells = bells
        self._clock = clock
        self._chance = chance

    # Handing out

    async def peek(self, workspace: Workspace, base_url: str, limit: int, wait: float) -> dict[str, Any]:
        """What is open, without any effect."""

        async def look() -> dict[str, Any] | None:
            seen = await self._storage.read(lambda tx: self._peek(tx, workspace, base_url, limit))
            return seen if seen["messages"] or wait <= 0 else None

        seen = await self._bells.wait_for(bells.mail(workspace.id), look, wait)
        return seen or await self._storage.read(lambda tx: self._peek(tx, workspace, base_url, limit))

    def _peek(self, tx: Transaction, workspace: Workspace, base_url: str, limit: int) -> dict[str, Any]:
        found = [(message, None) for message in tx.mailbox.list_open(workspace.id, limit)]
        return _answer_of(tx, workspace, base_url, found)

    async def lease(
        self, workspace: Workspace, base_url: str, wish: LeaseWish, wait: float, left: Callable[[], bool]
    ) -> dict[str, Any]:
        """Claim the next messages; waits for one when there is none yet.

        `left` tells whether the worker has hung up: what nobody would receive is not leased, or given back.
        """

        async def look() -> dict[str, Any] | None:
            return {} if left() else await self._lease_if_any(workspace, base_url, wish)

        leased = await self._bells.wait_for(bells.mail(workspace.id), look, wait)
        if leased and left():
            for item in leased["messages"]:
                await self.release(workspace, item["message_id"], item["lease"]["token"])
        return leased or await self._storage.read(lambda tx: _answer_of(tx, workspace, base_url, []))

    async def _lease_if_any(
        self, workspace: Workspace, base_url: str, wish: LeaseWish
    ) -> dict[str, Any] | None:
        if not await self._storage.read(lambda tx: self._chosen(tx, workspace.id, wish)):
            return None
        return await self._storage.write(lambda tx: self._lease(tx, workspace, base_url, wish))

    def _chosen(self, tx: Transaction, workspace_id: str, wish: LeaseWish) -> list[str]:
        current = tx.workspaces.get(workspace_id)
        if current is None or current.status in ("paused", "removed"):
            return []
        open_messages = tx.mailbox.waiting(workspace_id)
        return messages.choose(
            [m for m in open_messages if m.status == "leased" or _is_wished(m, wish)],
            self._clock.now(),
            wish.limit,
            worker=wish.worker or "",
            parallel_contexts=wish.parallel_contexts,
        )

    def _lease(
        self, tx: Transaction, workspace: Workspace, base_url: str, wish: LeaseWish
    ) -> dict[str, Any] | None:
        now = self._clock.now()
        leased: list[tuple[Message, str | None]] = []
        size = 0
        for message_id in self._chosen(tx, workspace.id, wish):
            message = tx.mailbox.get(message_id)
            if message is None:
                continue
            token = credentials.new_token()
            taken = tx.mailbox.lease(
                message_id,
                kind="inbox",
                at=now,
                deadline_at=messages.running_deadline(message, now),
                expires_at=now + timedelta(seconds=wish.lease_seconds),
                token_hash=credentials.digest(token),
                worker=wish.worker or "",
            )
            if taken is not None:
                leased.append((taken, token))
            size += len(message.body)
            if size > PAGE_MOST_BYTES:
                break
        tx.signal(bells.EVENTS)
        return _answer_of(tx, workspace, base_url, leased) if leased else None

    # Taking back

    async def answer(
        self, workspace: Workspace, name: str, lease_token: str | None, answer: Answer
    ) -> Message:
        """Settle with what the agent said; saying the same again is harmless."""
        if answer.state not in ANSWER_STATES:
            raise Refusal("invalid-request", f"state is one of {', '.join(ANSWER_STATES)}", field="state")
        now = self._clock.now()

        def work(tx: Transaction) -> Message:
            message = _addressed(tx, workspace, name)
            content = results.agent_message(ids.uuid7(), answer.parts)
            result = results.answer_task(
                message, answer.state, content, list(answer.artifacts), times.format_time(now)
            )
            if _is_same_answer(message, result):
                return message
            _check_lease(message, lease_token)
            return _settled(tx, message, Outcome("answered", result, answer.state), now)

        return await self._storage.write(work)

    async def ack(self, workspace: Workspace, name: str, lease_token: str | None) -> Message:
        """Settle without words: the sender gets an empty completed result."""
        now = self._clock.now()

        def work(tx: Transaction) -> Message:
            message = _addressed(tx, workspace, name)
            if message.status == "answered":
                return message
            _check_lease(message, lease_token)
            result = results.answer_task(message, "completed", None, [], times.format_time(now))
            return _settled(tx, message, Outcome("answered", result, "completed"), now)

        return await self._storage.write(work)

    async def fail(
        self, workspace: Workspace, name: str, lease_token: str | None, failure: Outcome, delay: float | None
    ) -> Message:
        """Give up on this attempt: it is offered again later, or ends as a dead letter."""
        now = self._clock.now()
        error = failure.error or {}

        def work(tx: Transaction) -> Message:
            message = _addressed(tx, workspace, name)
            _check_lease(message, lease_token)
            if not error["retryable"] or message.attempts >= message.max_attempts:
                return _settled(tx, message, replace(failure, error=error | {"retryable": False}), now)
            seconds = messages.retry_delay(message.attempts, self._chance()) if delay is None else delay
            tx.mailbox.retry(
                message.id,
                message.lease_epoch,
                now,
                now + timedelta(seconds=seconds),
                error["code"],
                error["message"],
            )
            tx.signal(bells.mail(workspace.id))
            return _addressed(tx, workspace, name)

        return await self._storage.write(work)

    async def release(self, workspace: Workspace, name: str, lease_token: str) -> None:
        """Give a message back unstarted."""
        now = self._clock.now()

        def work(tx: Transaction) -> None:
            message = _addressed(tx, workspace, name)
            _check_lease(message, lease_token)
            tx.mailbox.release(message.id, message.lease_epoch, now)
            tx.signal(bells.mail(workspace.id))

        await self._storage.write(work)

    async def extend(self, workspace: Workspace, name: str, lease_token: str, seconds: float) -> Message:
        """Keep a lease longer, never past the deadline."""
        now = self._clock.now()

        def work(tx: Transaction) -> Message:
            message = _addressed(tx, workspace, name)
            _check_lease(message, lease_token)
            until = min(now + timedelta(seconds=seconds), message.deadline_at)
            tx.mailbox.extend(message.id, message.lease_epoch, until)
            return _addressed(tx, workspace, name)

        return await self._storage.write(work)


def _is_wished(waiting: Waiting, wish: LeaseWish) -> bool:
    if wish.kinds and waiting.kind not in wish.kinds:
        return False
    if wish.context_id is not None and waiting.context_id != wish.context_id:
        return False
    return wish.peer_id is None or inbox.peer_of(waiting.caller) == wish.peer_id


def _addressed(tx: Transaction, workspace: Workspace, name: str) -> Message:
    """The message of that id, or of that activity row, in this workspace's inbox."""
    message = tx.mailbox.get(name) or tx.mailbox.by_activity(name)
    if message is None or message.target_id != workspace.id:
        raise message_not_found(name)
    return message


def _check_lease(message: Message, lease_token: str | None) -> None:
    """The fence: only the holder of the current lease, or anyone of the workspace while nobody holds one."""
    if not message.is_open:
        raise Refusal("lease-lost", f"the message has already ended: {message.status}", status=message.status)
    held = message.status == "leased" and message.lease_token_hash is not None
    if lease_token is None:
        if held:
            raise Refusal(
                "lease-lost", "a worker holds this message: show its lease_token", status=message.status
            )
        return
    shown = credentials.digest(lease_token)
    if not held or not credentials.same(shown, message.lease_token_hash or ""):
        raise Refusal(
            "lease-lost", "this lease is over: the message was offered again", status=message.status
        )


def _settled(tx: Transaction, message: Message, outcome: Outcome, now: Any) -> Message:
    epoch = message.lease_epoch if message.status == "leased" else None
    settled = settlement.settle(tx, message.id, outcome, now, epoch)
    if settled is None:
        raise Refusal("lease-lost", "this lease is over", status=message.status)
    return settled


def _is_same_answer(message: Message, result: bytes) -> bool:
    if message.status != "answered" or message.result is None:
        return False
    again = replace(message, result=result)
    return _content(message.result_json()) == _content(again.result_json())


def _content(result: Any) -> tuple[Any, Any, Any]:
    """What an answer says, without the ids and times that each telling of it has of its own."""
    task: Any = result.get("task", result)
    status: Any = task.get("status", {})
    return status.get("state"), status.get("message", {}).get("parts"), task.get("artifacts")


def _answer_of(
    tx: Transaction, workspace: Workspace, base_url: str, found: Sequence[tuple[Message, str | None]]
) -> dict[str, Any]:
    peers = peers_of(tx, [message.caller for message, _ in found])
    items = [
        inbox.inbox_item(
            message, wire_row(_row_of(message), peers.get(message.caller), base_url, False), token
        )
        for message, token in found
    ]
    accepted, leased, dead = tx.mailbox.counts(workspace.id)
    return {"messages": items, "pending": accepted, "leased": leased, "dead": dead}


def _row_of(message: Message) -> ActivityRow:
    return ActivityRow(
        id=message.activity_id,
        org_id=message.org_id,
        seq=message.seq,
        workspace_id=message.target_id,
        activity_type="a2a_receive",
        caller=message.caller,
        created_at=message.created_at,
        source_id=inbox.peer_of(message.caller),
        target_id=message.target_id,
        method=message.method,
        summary=logbook.beginning(said_in(message)),
        status="pending",
        message_id=message.id,
        message=message,
    )
