"""A message in the mailbox: its states, who is next, when to try again, how it ends.

accepted --lease--> leased --answer--> answered
   ^                  |--- not retryable, attempts used up, or given back too often --> failed
   '--- expiry, nack, retryable error, release, replica lost ---'
accepted|leased --deadline--> expired        accepted|leased --cancel--> cancelled
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from molecule_wire.values import value

STATUSES = ("accepted", "leased", "answered", "failed", "expired", "cancelled")
OPEN = frozenset({"accepted", "leased"})
LEASE_KINDS = ("dispatch", "inbox", "cursor")
KINDS = ("message", "reply", "delegation", "delegation_result", "schedule", "channel", "system")
TRANSITIONS = ("accepted", "leased", "retry", "released", "answered", "failed", "expired", "cancelled")

PRIORITY_USER = 100
PRIORITY_PEER = 50
PRIORITY_SCHEDULE = 20
PRIORITY_SYSTEM = 10
CLASSES = (PRIORITY_SYSTEM, PRIORITY_SCHEDULE, PRIORITY_PEER, PRIORITY_USER)
RAISED_AFTER = timedelta(minutes=10)

MIN_RETRY_SECONDS = 2.0
RETRY_LONGEST_SECONDS = 300.0
RETRY_JITTER = 0.2
RELEASES_WITHOUT_PAUSE = 3
REPEAT_WINDOW = timedelta(hours=24)
REPLICA_UNSEEN = timedelta(seconds=5)


@dataclass(frozen=True)
class Message:
    """One row of `messages`. `body` and `result` are JSON bytes in the caller's dialect.

    `waits_until` is the deadline while the message waits; `deadline_at` is the one in force, which a lease
    moves to the end of the longest run.
    """

    id: str
    org_id: str
    seq: int
    target_id: str
    caller: str
    caller_name: str
    kind: str
    method: str
    dialect: str
    body: bytes
    body_hash: str
    message_ref: str
    context_id: str
    priority: int
    max_attempts: int
    created_at: datetime
    deadline_at: datetime
    waits_until: datetime
    run_limit_seconds: int | None = None
    idempotency_key: str | None = None
    traceparent: str | None = None
    request_id: str | None = None
    extensions: str | None = None
    tenant: str = ""
    delegation: dict[str, Any] | None = None
    activity_id: str = ""
    status: str = "accepted"
    task_state: str | None = None
    task_id: str = ""
    agent_task_id: str | None = None
    delegation_id: str | None = None
    parent_message_id: str | None = None
    attempts: int = 0
    releases: int = 0
    not_before: datetime | None = None
    lease_epoch: int = 0
    lease_kind: str | None = None
    lease_owner: str | None = None
    lease_token_hash: str | None = None
    lease_expires_at: datetime | None = None
    leased_at: datetime | None = None
    worker: str | None = None
    reply_hash: str | None = None
    held_by: str | None = None
    held_until: datetime | None = None
    seen_at: datetime | None = None
    result: bytes | None = None
    error: dict[str, Any] | None = None
    dead_letter: bool = False
    cancel_requested: bool = False
    finished_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether the message still waits for its outcome."""
        return self.status in OPEN

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Message":
        """A message from the values of all its members: the checked way costs more than all else of it."""
        message = object.__new__(cls)
        message.__dict__.update(values)
        return message

    def but(self, **changes: Any) -> "Message":
        """The same with some members changed. Every message passes here several times: it is cheap."""
        other = object.__new__(Message)
        other.__dict__.update(self.__dict__)
        other.__dict__.update(changes)
        return other

    def result_json(self) -> Any:
        """The outcome's content, parsed; None while there is none."""
        return None if self.result is None else json.loads(self.result)


_DEFAULTS = {field.name: field.default for field in fields(Message) if field.default is not MISSING}


def new_message(**values: Any) -> Message:
    """A message that has just come, from what is known of it."""
    return Message.of({**_DEFAULTS, **values})


@value
class ActiveMessage:
    """A message that its agent works on: its id, and the delegation context that it came with."""

    id: str
    delegation: dict[str, Any] | None


@dataclass(frozen=True)
class HeldMessage:
    """A lease: whose message, and under which epoch."""

    id: str
    target_id: str
    lease_epoch: int


@value
class MessageOutcome:
    """How a message ends: with content, or with an error that has a code."""

    status: str
    result: bytes | None = None
    task_state: str | None = None
    error: dict[str, Any] | None = None
    dead_letter: bool = False
    agent_task_id: str | None = None
    # Whether all of it was told as events already.
    told: bool = False


def failure(
    code: str, sentence: str, *, retryable: bool = False, dead_letter: bool = True, **more: Any
) -> MessageOutcome:
    """An outcome that tells the sender what went wrong."""
    error = {"code": code, "message": sentence, "retryable": retryable, **more}
    return MessageOutcome("failed", task_state="failed", error=error, dead_letter=dead_letter)


def expiry(message: Message) -> MessageOutcome:
    """What the deadline makes of a message: a reply needs no answer, anything else has expired."""
    if message.kind == "reply":
        return MessageOutcome("answered", task_state="completed")
    if message.lease_kind == "cursor":
        error = {"code": "no-reply", "message": "the agent read the message and did not answer in time"}
    else:
        error = {"code": "deadline-exceeded", "message": "the deadline passed before the agent answered"}
    return MessageOutcome("expired", task_state="failed", error=error | {"retryable": False})


def cancellation(code: str, sentence: str) -> MessageOutcome:
    """The outcome of a message that somebody called off."""
    return MessageOutcome(
        "cancelled", task_state="canceled", error={"code": code, "message": sentence, "retryable": False}
    )


def retry_delay(attempt: int, chance: float) -> float:
    """Seconds until the next try: doubling, capped, spread by a fifth. `chance` is in [0, 1)."""
    base = min(RETRY_LONGEST_SECONDS, MIN_RETRY_SECONDS * 2.0 ** min(attempt - 1, 16))
    return base * (1 - RETRY_JITTER + 2 * RETRY_JITTER * chance)


def release_delay(releases: int) -> float:
    """Seconds until a message is offered again that its agent gave back for the `releases`-th time.

    The first few cost nothing: a worker that is stopped gives back what it had taken beforehand, and the one
    started in its place should get it at once. What comes back more often than a program is restarted comes
    back because the program is broken.
    """
    doublings = releases - RELEASES_WITHOUT_PAUSE
    return min(RETRY_LONGEST_SECONDS, 2.0 ** min(doublings, 16)) if doublings > 0 else 0.0


def released_too_often(releases: int) -> MessageOutcome:
    """The outcome of a message that its agent takes again and again and never settles."""
    sentence = f"the agent took the message {releases} times and gave it back each time without an outcome"
    return failure("released-too-often", sentence)


def running_deadline(message: Message, now: datetime) -> datetime:
    """The deadline once an agent has the message: the caller's own, else the longest run from now."""
    if message.run_limit_seconds is None:
        return message.deadline_at
    return now + timedelta(seconds=message.run_limit_seconds)


def leased_at_once(message: Message, owner: str, now: datetime) -> Message:
    """A new message that goes to its agent in the same moment."""
    return message.but(
        status="leased",
        attempts=1,
        lease_epoch=1,
        lease_kind="dispatch",
        lease_owner=owner,
        leased_at=now,
        deadline_at=running_deadline(message, now),
    )


def raised_priority(priority: int, waited: timedelta) -> int:
    """A message that waited too long moves up one class."""
    if waited < RAISED_AFTER:
        return priority
    return next((higher for higher in CLASSES if higher > priority), priority)


@value
class QueuedMessage:
    """What choosing the next message needs to know of an open one."""

    id: str
    seq: int
    priority: int
    context_id: str
    status: str
    created_at: datetime
    not_before: datetime | None
    worker: str | None = None
    kind: str = "message"
    caller: str = ""
    seen_at: datetime | None = None
    deadline_at: datetime | None = None


def in_order(waiting: Iterable[QueuedMessage], now: datetime) -> list[QueuedMessage]:
    """The next one first: by priority, which a long wait raises, and the oldest first inside it."""
    return sorted(waiting, key=lambda m: (-raised_priority(m.priority, now - m.created_at), m.seq))


def choose(
    open_messages: Iterable[QueuedMessage],
    now: datetime,
    limit: int,
    *,
    worker: str | None = None,
    parallel_contexts: bool = False,
) -> list[str]:
    """The next messages to hand out: oldest first inside a priority, and in order inside a context.

    A context that somebody else is working on waits, unless contexts may run in parallel. A named worker
    may take several messages of one context, because it keeps their order itself; workers without a name are
    strangers to one another.
    """
    everything = list(open_messages)
    busy = _contexts_in_work(everything, worker)
    chosen: list[str] = []
    for message in in_order((m for m in everything if m.status == "accepted"), now):
        if len(chosen) == limit:
            break
        free = parallel_contexts or message.context_id not in busy
        ready = _is_ready(message, now)
        if free and ready:
            chosen.append(message.id)
        if not (free and ready) or worker is None:
            busy.add(message.context_id)
    return chosen


def _is_ready(message: QueuedMessage, now: datetime) -> bool:
    too_early = message.not_before is not None and message.not_before > now
    too_late = message.deadline_at is not None and message.deadline_at <= now
    return not too_early and not too_late


def _contexts_in_work(open_messages: Collection[QueuedMessage], worker: str | None) -> set[str]:
    others = (m for m in open_messages if m.status == "leased" and (not worker or m.worker != worker))
    return {m.context_id for m in others}
