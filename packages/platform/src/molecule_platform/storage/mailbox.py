"""The mailbox in SQL: messages, leases and fences."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, select

from molecule_platform.domain.events import Transition
from molecule_platform.domain.lifecycle import ALIVE
from molecule_platform.domain.messages import (
    OPEN,
    RAISED_AFTER,
    ActiveMessage,
    HeldMessage,
    Message,
    MessageOutcome,
    QueuedMessage,
)
from molecule_platform.ports.mailbox import WHAT_IS_OPEN, InboxFilter, Load, MailFilter, TraceFilter, Usage
from molecule_platform.storage import counters, mailbox_pages, outcome_events
from molecule_platform.storage import mailbox_sql as sql
from molecule_platform.storage.message_tables import IS_UNFINISHED
from molecule_platform.storage.prepared import Prepared
from molecule_platform.storage.tables import message_transitions, messages, workspaces


def steps_of(mapping: Mapping[Any, Any]) -> list[Transition]:
    """The steps that a row stands for, in their order."""
    facts = dict(mapping)
    also_accepted = facts.pop("also_accepted")
    del facts["also_told"]
    step = Transition(**facts)
    return [replace(step, kind="accepted", event_id=step.event_id - 1), step] if also_accepted else [step]


def message_from(mapping: Mapping[Any, Any]) -> Message:
    """A message from a row that holds its columns."""
    return Message(**{name: mapping[name] for name in sql.COLUMNS})


class SqlMailbox:
    """See `ports.mailbox.Mailbox`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    # Looking up

    def get(self, message_id: str) -> Message | None:
        """The message with that id."""
        return self._one(sql.GET, message_id=message_id)

    def by_activity(self, activity_id: str) -> Message | None:
        """The message that an activity row stands for."""
        return self._one(sql.BY_ACTIVITY, activity=activity_id)

    def by_key(self, caller: str, target_id: str, idempotency_key: str) -> Message | None:
        """The first message sent under that key."""
        return self._one(sql.BY_KEY, sender=caller, target=target_id, key=idempotency_key)

    def by_reference(
        self, caller: str, target_id: str, message_ref: str, body_hash: str, since: datetime
    ) -> Message | None:
        """The message that an identical re-POST repeats."""
        return self._one(
            sql.BY_REFERENCE,
            sender=caller,
            target=target_id,
            reference=message_ref,
            hash=body_hash,
            since=since,
        )

    def by_task(self, target_id: str, task_id: str) -> Message | None:
        """The newest message of a task."""
        return self._one(sql.BY_TASK, target=target_id, message_id=task_id)

    def _one(self, statement: Prepared, **parameters: Any) -> Message | None:
        row = statement.first(self._connection, parameters)
        return None if row is None else Message.of(row)

    def _many(self, statement: Prepared, **parameters: Any) -> list[Message]:
        return [Message.of(row) for row in statement.rows(self._connection, parameters)]

    # Choosing

    def open_count(self, target_id: str) -> int:
        """How many open messages a workspace has."""
        return sql.OPEN_COUNT.scalar(self._connection, {"target": target_id})

    def load(self, target_id: str) -> Load:
        """How much a workspace has before it."""
        found = sql.LOAD.first(self._connection, {"target": target_id})
        assert found is not None
        return Load(**found)

    def usage(self, target_id: str) -> dict[str, Usage]:
        """What each sender holds of a mailbox."""
        found = sql.USAGE.rows(self._connection, {"target": target_id})
        return {row["caller"]: Usage(row["count"], row["size"]) for row in found}

    def open_bytes(self, org_id: str) -> int:
        """The bytes of all open messages of an organisation."""
        return sql.OPEN_BYTES.scalar(self._connection, {"org": org_id})

    def is_anyone_waiting(self, target_id: str) -> bool:
        """Whether the workspace has a message that nobody has taken."""
        return sql.ANY_ACCEPTED.first(self._connection, {"target": target_id}) is not None

    def is_context_open(self, target_id: str, context_id: str) -> bool:
        """Whether the workspace has an open message of that context."""
        return sql.CONTEXT.first(self._connection, {"target": target_id, "context": context_id}) is not None

    def waiting(self, target_id: str) -> list[QueuedMessage]:
        """Every open message, oldest first."""
        return [QueuedMessage(**row) for row in sql.WAITING.rows(self._connection, {"target": target_id})]

    def first_waiting(self, target_id: str, now: datetime, limit: int) -> list[QueuedMessage]:
        """What is leased, and the first of what waits."""
        leased = sql.LEASED.rows(self._connection, {"target": target_id})
        asked = {"target": target_id, "raised": now - RAISED_AFTER, "most": limit}
        return [QueuedMessage(**row) for row in leased + sql.FIRST.rows(self._connection, asked)]

    def counts(self, target_id: str) -> tuple[int, int, int]:
        """How many are accepted, leased, and dead letters."""
        found = sql.COUNTS.first(self._connection, {"target": target_id})
        assert found is not None
        return found["accepted"], found["leased"], found["dead"]

    def totals(self) -> dict[str, int]:
        """Return how many messages are kept, by status."""
        still_open = {status: sql.ALL_OPEN.scalar(self._connection, {"status": status}) for status in OPEN}
        return counters.totals(self._connection) | still_open

    def in_work(self, workspace_id: str, now: datetime) -> list[ActiveMessage]:
        """The messages that a workspace is working on, oldest first."""
        rows = sql.IN_WORK.rows(self._connection, {"target": workspace_id, "now": now})
        return [ActiveMessage(row["id"], row["delegation"]) for row in rows]

    def trace(self, wanted: TraceFilter, limit: int) -> list[Message]:
        """Messages of a trace."""
        named = messages.c.id.in_(list(wanted.ids))
        children = messages.c.parent_message_id.in_(list(wanted.parent_ids))
        found = (named if wanted.ids else children) & (messages.c.seq > wanted.after)
        page = select(*sql.WITHOUT_CONTENT).where(found)
        rows = self._connection.execute(page.order_by(messages.c.seq).limit(limit)).mappings()
        return [message_from(row) for row in rows]

    def list_leased(self, target_id: str, kinds: Collection[str]) -> list[Message]:
        """Messages that the target holds."""
        held = (messages.c.status == "leased") & messages.c.lease_kind.in_(kinds)
        wanted = select(messages).where(messages.c.target_id == target_id, held).order_by(messages.c.seq)
        return [message_from(row) for row in self._connection.execute(wanted).mappings()]

    def targets_to_dispatch(self, now: datetime, after: str, limit: int) -> list[str]:
        """Living workspaces with a URL that have messages ready, by id."""
        ready = (messages.c.status == "accepted") & IS_UNFINISHED & (messages.c.kind != "reply")
        due = messages.c.not_before.is_(None) | (messages.c.not_before <= now)
        able = (workspaces.c.delivery_mode == "push") & workspaces.c.status.in_(sorted(ALIVE))
        wanted = select(messages.c.target_id).join(workspaces, workspaces.c.id == messages.c.target_id)
        page = wanted.where(ready, due, able, messages.c.target_id > after).distinct()
        return list(self._connection.execute(page.order_by(messages.c.target_id).limit(limit)).scalars())

    # Changing

    def insert(self, message: Message) -> Message:
        """Accept a message."""
        leased, is_new = message.status == "leased", not message.seq
        first = counters.draw(self._connection, is_new + 1 + leased)
        last = first + is_new + leased
        numbered = message.but(seq=first) if is_new else message
        sql.INSERT.run(self._connection, vars(numbered))
        step = _step(numbered, "leased" if leased else "accepted", message.created_at, last)
        step["also_accepted"] = leased
        sql.RECORD.run(self._connection, step)
        return numbered

    def answer(self, message: Message, result: bytes, at: datetime) -> Message | None:
        """End a message in the plainest way."""
        held = {"message_id": message.id, "epoch": message.lease_epoch}
        if not sql.ANSWER.count(self._connection, {**held, "content": result, "at": at}):
            return None
        ended = message.but(status="answered", result=result, task_state="completed", finished_at=at)
        self._record_end(ended, at)
        return ended

    def show_task(self, message_id: str) -> None:
        """Remember that somebody was told of the message's task."""
        sql.SHOW_TASK.run(self._connection, {"message_id": message_id})

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
        """Take an accepted message under the next epoch."""
        return self._change(
            sql.LEASE,
            "leased",
            at,
            message_id=message_id,
            kind_of_lease=kind,
            at=at,
            deadline=deadline_at,
            expires_at=expires_at,
            owner=owner,
            token_hash=token_hash,
            by_worker=worker,
        )

    def extend(self, message_id: str, epoch: int, expires_at: datetime) -> bool:
        """Keep an inbox lease longer."""
        parameters = {"message_id": message_id, "epoch": epoch, "expires_at": expires_at}
        return sql.EXTEND.first(self._connection, parameters) is not None

    def release(self, message_id: str, epoch: int, at: datetime) -> bool:
        """End a lease without spending an attempt."""
        return self._change(sql.RELEASE, "released", at, message_id=message_id, epoch=epoch) is not None

    def give_back(self, message_id: str, epoch: int, at: datetime, not_before: datetime) -> Message | None:
        """End a lease for the agent that held it, which is counted."""
        return self._change(
            sql.GIVE_BACK, "released", at, message_id=message_id, epoch=epoch, again_at=not_before
        )

    def retry(
        self, message_id: str, epoch: int, at: datetime, not_before: datetime, code: str, sentence: str
    ) -> bool:
        """Give a lease back after a failed attempt."""
        problem = {"code": code, "message": sentence, "retryable": True}
        given_back = self._change(
            sql.RETRY, "retry", at, message_id=message_id, epoch=epoch, again_at=not_before, problem=problem
        )
        return given_back is not None

    def settle(
        self, message_id: str, outcome: MessageOutcome, at: datetime, epoch: int | None = None
    ) -> Message | None:
        """End an open message."""
        ended = self._one(
            sql.SETTLE if epoch is None else sql.SETTLE_HELD,
            message_id=message_id,
            epoch=epoch,
            new_status=outcome.status,
            content=outcome.result,
            state=outcome.task_state,
            agent_task=outcome.agent_task_id,
            problem=outcome.error,
            is_dead=outcome.dead_letter,
            at=at,
        )
        if ended is not None:
            self._record_end(ended, at)
        return ended

    def _change(self, statement: Prepared, kind: str, moment: datetime, **parameters: Any) -> Message | None:
        message = self._one(statement, **parameters)
        if message is not None:
            self._record(message, kind, moment)
        return message

    def _record(self, message: Message, kind: str, at: datetime) -> None:
        sql.RECORD.run(self._connection, _step(message, kind, at, counters.draw(self._connection)))

    def _record_end(self, message: Message, at: datetime) -> None:
        told = message.kind != "reply"
        step = _step(message, message.status, at, counters.draw(self._connection, 1 + told))
        step["also_told"] = told
        sql.RECORD.run(self._connection, step)
        counters.ended(self._connection)[message.status] += 1

    # Marks that are no transition

    def belongs_to(self, message_id: str, task_id: str, agent_task_id: str | None, context_id: str) -> None:
        """Remember the task that the agent made of the message."""
        self._mark(message_id, task_id=task_id, agent_task_id=agent_task_id, context_id=context_id)

    def is_held(self, message_id: str, epoch: int) -> bool:
        """Whether the message is leased under that epoch."""
        return sql.IS_HELD.first(self._connection, {"message_id": message_id, "epoch": epoch}) is not None

    def ask_to_stop(self, message_id: str) -> None:
        """Remember that somebody wants the work to end."""
        self._mark(message_id, cancel_requested=True)

    def seen(self, message_id: str, at: datetime) -> None:
        """Remember that a cursor passed the message."""
        self._mark(message_id, seen_at=at)

    def hold(self, message_id: str, holder: str, until: datetime) -> None:
        """Remember that a caller waits."""
        sql.HOLD.run(self._connection, {"message_id": message_id, "holder": holder, "until": until})

    def end_hold(self, message_id: str, holder: str) -> None:
        """Forget that this caller waits."""
        sql.END_HOLD.run(self._connection, {"message_id": message_id, "holder": holder})

    def answered_by(self, message_id: str, reply_hash: str) -> None:
        """Remember which reply answered the message."""
        self._mark(message_id, reply_hash=reply_hash)

    def by_reply(self, target_id: str, reply_hash: str) -> str | None:
        """The message of the target that this very reply answered."""
        wanted = select(messages.c.id).where(
            messages.c.reply_hash == reply_hash, messages.c.target_id == target_id
        )
        return self._connection.execute(wanted.limit(1)).scalar_one_or_none()

    def _mark(self, message_id: str, **values: Any) -> None:
        sql.marking(tuple(values)).run(self._connection, {"message_id": message_id, **values})

    # What time has done

    def overdue(self, now: datetime, limit: int) -> list[Message]:
        """Open messages whose deadline has passed."""
        return self._many(sql.OVERDUE, now=now, most=limit)

    def lapsed(self, now: datetime, limit: int) -> list[Message]:
        """Messages whose inbox lease ran out."""
        return self._many(sql.LAPSED, now=now, most=limit)

    def orphaned(self, alive: Collection[str], limit: int) -> list[HeldMessage]:
        """Dispatch leases of replicas that are gone."""
        return self._dispatched(messages.c.lease_owner.not_in(alive), limit)

    def dispatched_by(self, owner: str, before: datetime) -> list[HeldMessage]:
        """Dispatch leases of one replica, taken before that time."""
        return self._dispatched((messages.c.lease_owner == owner) & (messages.c.leased_at < before), None)

    def _dispatched(self, whose: ColumnElement[bool], limit: int | None) -> list[HeldMessage]:
        mine = (messages.c.status == "leased") & IS_UNFINISHED & (messages.c.lease_kind == "dispatch")
        wanted = select(messages.c.id, messages.c.target_id, messages.c.lease_epoch).where(mine, whose)
        return [HeldMessage(**row) for row in self._connection.execute(wanted.limit(limit)).mappings()]

    def is_open(self, message_id: str) -> bool:
        """Whether the message still waits for its outcome."""
        return sql.STATUS.scalar(self._connection, {"message_id": message_id}) in OPEN

    # Looking back

    def inbox(self, target_id: str, limit: int, wanted: InboxFilter = WHAT_IS_OPEN) -> list[Message]:
        """Open messages, or dead letters."""
        found = mailbox_pages.inbox(self._connection, target_id, limit, wanted)
        return [message_from(row) for row in found]

    def page(self, wanted: MailFilter, limit: int) -> tuple[list[Message], bool]:
        """Messages, the newest first and without their bodies; and whether there are more."""
        rows, more = mailbox_pages.page(self._connection, wanted, limit)
        return [message_from(row) for row in rows], more

    def conversation(
        self, message: Message, kinds: Collection[str], limit: int, most_bytes: int
    ) -> list[Message]:
        """The newest messages before this one, of its context and between the same two sides."""
        rows = mailbox_pages.conversation(self._connection, message, kinds, limit, most_bytes)
        return [message_from(row) for row in rows]

    def transitions(self, message_id: str, after: int) -> list[Transition]:
        """The steps of a message after a number."""
        steps = message_transitions.c
        wanted = select(message_transitions).where(steps.message_id == message_id, steps.event_id > after)
        found = self._connection.execute(wanted.order_by(steps.event_id)).mappings()
        steps = [step for row in found for step in steps_of(row)]
        return [step for step in steps if step.event_id > after]

    def redeliver(self, message_id: str, at: datetime, waits_until: datetime, task_id: str) -> Message | None:
        """Let a dead letter begin anew."""
        outcome_events.write_down(self._connection, [message_id])
        message = self._change(
            sql.REDELIVER, "accepted", at, message_id=message_id, until=waits_until, task=task_id
        )
        if message is not None:
            counters.ended(self._connection)["failed"] -= 1
        return message


def _step(message: Message, kind: str, at: datetime, number: int) -> dict[str, Any]:
    """A row of the message's way through the mailbox."""
    return {
        "event_id": number,
        "org_id": message.org_id,
        "message_id": message.id,
        "target_id": message.target_id,
        "caller": message.caller,
        "kind": kind,
        "attempt": message.attempts,
        "lease_epoch": message.lease_epoch,
        "created_at": at,
        "also_accepted": False,
        "also_told": False,
    }
