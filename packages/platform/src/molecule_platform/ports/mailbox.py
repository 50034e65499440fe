"""The mailbox: messages, leases and fences, as the store keeps them."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from molecule_platform.domain.events import Transition
from molecule_platform.domain.messages import (
    ActiveMessage,
    HeldMessage,
    Message,
    MessageOutcome,
    QueuedMessage,
)
from molecule_wire.values import value


@dataclass(frozen=True)
class MailFilter:
    """Which messages of a workspace to list: those it received, those it sent, or both."""

    workspace_id: str
    direction: Literal["in", "out"] | None = None
    statuses: Collection[str] = ()
    peer_id: str | None = None
    context_id: str | None = None
    delegation_id: str | None = None
    since: datetime | None = None
    before_seq: int | None = None


@dataclass(frozen=True)
class InboxFilter:
    """Which items of an inbox to look at: what is open, or the dead letters."""

    status: Literal["open", "dead"] = "open"
    kind: str | None = None
    caller: str | None = None
    context_id: str | None = None


WHAT_IS_OPEN = InboxFilter()


@value
class Load:
    """How much a workspace has before it: messages that wait, and messages in work."""

    accepted: int
    leased: int


class Usage(NamedTuple):
    """What somebody holds of a mailbox: open messages, and the bytes of their bodies."""

    messages: int
    size: int


@value
class TraceFilter:
    """Selects messages of a trace: those with these ids, or those sent for these, after a number."""

    ids: Collection[str] = ()
    parent_ids: Collection[str] = ()
    after: int = 0


class Mailbox(Protocol):
    """Verbs on messages. Each that changes a row also writes its transition.

    A lease is held under an epoch that grows with every lease; a verb that names an older epoch changes
    nothing and says so, which is the fence against a holder that was only slow.
    """

    def insert(self, message: Message) -> Message:
        """Accept a message, or take it for a dispatch that begins at once; without a number it gets one."""
        ...

    def answer(self, message: Message, result: bytes, at: datetime) -> Message | None:
        """End a leased message with the one bare answer of its agent.

        None, and nothing happens, when the lease is gone, or when somebody knows a task of the message or
        delegated it: then more follows from its end than this writes.
        """
        ...

    def show_task(self, message_id: str) -> None:
        """Remember that somebody was told of the message's task."""
        ...

    def get(self, message_id: str) -> Message | None:
        """The message with that id."""
        ...

    def is_open(self, message_id: str) -> bool:
        """Whether the message still waits for its outcome."""
        ...

    def in_work(self, workspace_id: str, now: datetime) -> list[ActiveMessage]:
        """The messages that a workspace is working on, oldest first."""
        ...

    def trace(self, wanted: TraceFilter, limit: int) -> list[Message]:
        """Messages without their bodies and results, oldest first."""
        ...

    def by_activity(self, activity_id: str) -> Message | None:
        """The message that an activity row stands for."""
        ...

    def by_key(self, caller: str, target_id: str, idempotency_key: str) -> Message | None:
        """The first message sent under that key."""
        ...

    def by_reference(
        self, caller: str, target_id: str, message_ref: str, body_hash: str, since: datetime
    ) -> Message | None:
        """The message that an identical re-POST repeats."""
        ...

    def by_task(self, target_id: str, task_id: str) -> Message | None:
        """The newest message of a task, by the platform's task id or the agent's."""
        ...

    def open_count(self, target_id: str) -> int:
        """How many open messages a workspace has."""
        ...

    def load(self, target_id: str) -> Load:
        """How much a workspace has before it."""
        ...

    def usage(self, target_id: str) -> dict[str, Usage]:
        """What each sender holds of a mailbox."""
        ...

    def open_bytes(self, org_id: str) -> int:
        """The bytes of all open messages of an organisation."""
        ...

    def is_anyone_waiting(self, target_id: str) -> bool:
        """Whether the workspace has a message that nobody has taken."""
        ...

    def is_context_open(self, target_id: str, context_id: str) -> bool:
        """Whether the workspace has an open message of that context."""
        ...

    def waiting(self, target_id: str) -> list[QueuedMessage]:
        """Every open message of a workspace, oldest first, for choosing the next."""
        ...

    def first_waiting(self, target_id: str, now: datetime, limit: int) -> list[QueuedMessage]:
        """What is leased, and of what waits the first in the order of `messages.in_order`."""
        ...

    def counts(self, target_id: str) -> tuple[int, int, int]:
        """How many messages are accepted, leased, and dead letters."""
        ...

    def totals(self) -> dict[str, int]:
        """How many messages there are, by status."""
        ...

    def list_leased(self, target_id: str, kinds: Collection[str]) -> list[Message]:
        """Messages that the target holds under leases of those kinds, oldest first."""
        ...

    def targets_to_dispatch(self, now: datetime, after: str, limit: int) -> list[str]:
        """Living workspaces with a URL that have messages ready: a page after an id, by id."""
        ...

    def lease(
        self,
        message_id: str,
        *,
        kind: str,
        at: datetime,
        deadline_at: datetime,
        expires_at: datetime | None = None,
        owner: str | None = None,
        token_hash: str | None = None,
        worker: str | None = None,
    ) -> Message | None:
        """Take an accepted message under the next epoch; None when it is not to be had."""
        ...

    def extend(self, message_id: str, epoch: int, expires_at: datetime) -> bool:
        """Keep an inbox lease longer; False when the epoch is gone."""
        ...

    def release(self, message_id: str, epoch: int, at: datetime) -> bool:
        """End a lease without spending an attempt: the platform's own doing, for which nobody pays."""
        ...

    def give_back(self, message_id: str, epoch: int, at: datetime, not_before: datetime) -> Message | None:
        """End a lease for the agent that held it: it spends no attempt, but it is counted (`releases`)."""
        ...

    def retry(
        self, message_id: str, epoch: int, at: datetime, not_before: datetime, code: str, sentence: str
    ) -> bool:
        """Give a lease back after a failed attempt, to be tried again later."""
        ...

    def settle(
        self, message_id: str, outcome: MessageOutcome, at: datetime, epoch: int | None = None
    ) -> Message | None:
        """End an open message; None when it is not open or the epoch is gone."""
        ...

    def belongs_to(self, message_id: str, task_id: str, agent_task_id: str | None, context_id: str) -> None:
        """Remember the task that the agent made of the message."""
        ...

    def is_held(self, message_id: str, epoch: int) -> bool:
        """Whether the message is leased under that epoch."""
        ...

    def ask_to_stop(self, message_id: str) -> None:
        """Remember that somebody wants the work to end."""
        ...

    def seen(self, message_id: str, at: datetime) -> None:
        """Remember that a cursor passed the message."""
        ...

    def hold(self, message_id: str, holder: str, until: datetime) -> None:
        """Remember that a caller waits for the outcome; `holder` begins with the id of its replica."""
        ...

    def end_hold(self, message_id: str, holder: str) -> None:
        """Forget that this caller waits; another one that does is not touched."""
        ...

    def answered_by(self, message_id: str, reply_hash: str) -> None:
        """Remember which reply answered the message, so that a repeat of it answers nothing else."""
        ...

    def by_reply(self, target_id: str, reply_hash: str) -> str | None:
        """The id of the target's message that this very reply answered."""
        ...

    def overdue(self, now: datetime, limit: int) -> list[Message]:
        """Open messages whose deadline has passed, without their bodies."""
        ...

    def lapsed(self, now: datetime, limit: int) -> list[Message]:
        """Messages whose inbox lease ran out, without their bodies."""
        ...

    def orphaned(self, alive: Collection[str], limit: int) -> list[HeldMessage]:
        """Dispatch leases of replicas that are not among the living."""
        ...

    def dispatched_by(self, owner: str, before: datetime) -> list[HeldMessage]:
        """Dispatch leases of one replica, taken before that time."""
        ...

    def inbox(self, target_id: str, limit: int, wanted: InboxFilter = WHAT_IS_OPEN) -> list[Message]:
        """Open messages in the order they would be handed out, or dead letters, the newest first.

        There are fewer than asked for where they are large.
        """
        ...

    def page(self, wanted: MailFilter, limit: int) -> tuple[list[Message], bool]:
        """Messages, the newest first and without their bodies, and whether there are more.

        A page has fewer than asked for where they are large.
        """
        ...

    def conversation(
        self, message: Message, kinds: Collection[str], limit: int, most_bytes: int
    ) -> list[Message]:
        """The newest messages of these kinds before this one, oldest first, that weigh no more than this.

        They are of its context, and between the same two sides, whoever of them wrote.
        """
        ...

    def transitions(self, message_id: str, after: int) -> list[Transition]:
        """The steps of a message after a number, oldest first."""
        ...

    def redeliver(self, message_id: str, at: datetime, waits_until: datetime, task_id: str) -> Message | None:
        """Let a dead letter begin anew, as a message of that task; None when it is not one."""
        ...
