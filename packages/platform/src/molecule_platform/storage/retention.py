"""Forgetting in SQL. Ids sort by time, so the old end of a large table is the beginning of its key."""

from collections import Counter
from datetime import datetime, timedelta

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    Table,
    and_,
    delete,
    exists,
    or_,
    select,
    tuple_,
    update,
)

from molecule_platform.domain import activity
from molecule_platform.domain.messages import OPEN
from molecule_platform.storage import counters, outcome_events
from molecule_platform.storage.mailbox import message_from
from molecule_platform.storage.tables import (
    access_grants,
    activity_logs,
    delegations,
    enrolment_tokens,
    idempotency,
    login_codes,
    message_events,
    messages,
    outbox,
    push_configs,
    replicas,
    security_log,
    sessions,
    signing_keys,
    stream_tickets,
    tasks,
    tokens,
)

WORKSPACE_REMOVED = "workspace-removed"
# The states in which a task waits for its next message: it is not over, although its messages are.
INTERRUPTED = ("auth-required", "input-required")
INTERRUPTED_KEPT = timedelta(days=7)


class SqlRetention:
    """See `ports.retention.Retention`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def activity(self, before: datetime, limit: int) -> int:
        """Old activity, except of open messages."""
        column = activity_logs.c
        is_open = exists().where(messages.c.id == column.message_id, messages.c.status.in_(sorted(OPEN)))
        old = and_(column.id < _first_id(before), column.created_at < before, ~is_open)
        return self._forget(activity_logs, old, limit)

    def messages(self, before: datetime, limit: int) -> int:
        """Messages that ended; a task that waits for more input is not over, and is given up much later."""
        column = messages.c
        waits = and_(column.task_state.in_(INTERRUPTED), column.finished_at >= before - INTERRUPTED_KEPT)
        over = or_(column.task_state.is_(None), ~waits)
        ended = column.status.not_in(sorted(OPEN)) & (column.finished_at < before) & over
        old = and_(column.id < _first_id(before), ended)
        self._keep_outcomes(old, limit)
        forgotten = self._connection.execute(_oldest(messages, old, limit).returning(column.status)).scalars()
        statuses = Counter(forgotten)
        counters.ended(self._connection).subtract(statuses)
        return statuses.total()

    def _keep_outcomes(self, old: ColumnElement[bool], limit: int) -> None:
        """What the logs tell of a message by looking at it is written down where they stay longer."""
        row = activity_logs.c
        batch = select(messages.c.id).where(old).order_by(messages.c.id).limit(limit)
        outcome_events.write_down(self._connection, list(self._connection.execute(batch).scalars()))
        logged = select(messages).join(activity_logs, row.id == messages.c.activity_id)
        for ended in self._connection.execute(logged.where(messages.c.id.in_(batch))).mappings().all():
            known = activity.outcome_of(message_from(ended))
            self._connection.execute(
                update(activity_logs).where(row.id == ended["activity_id"]).values(known)
            )

    def tasks(self, before: datetime, limit: int) -> int:
        """Tasks that are over."""
        return self._forget(tasks, tasks.c.finished_at < before, limit)

    def message_events(self, before: datetime, limit: int) -> int:
        """Event logs of tasks that are over, kept in one piece, and told to everyone who wanted to know."""
        event, task, config = message_events.c, tasks.c, push_configs.c
        lifecycle_services = exists().where(
            task.id == event.task_id,
            task.workspace_id == event.workspace_id,
            task.tenant == event.tenant,
            or_(task.finished_at.is_(None), task.finished_at >= before, task.snapshot_seq < task.last_seq),
        )
        untold = exists().where(
            config.task_id == event.task_id,
            config.workspace_id == event.workspace_id,
            config.tenant == event.tenant,
            outbox.c.push_config_id == config.id,
        )
        return self._forget(
            message_events, and_(event.created_at < before, ~lifecycle_services, ~untold), limit
        )

    def delegations(self, before: datetime, limit: int) -> int:
        """Delegations that ended."""
        return self._forget(delegations, delegations.c.finished_at < before, limit)

    def security_log(self, before: datetime, limit: int) -> int:
        """Old deeds."""
        return self._forget(security_log, security_log.c.id < _first_id(before), limit)

    def idempotency(self, before: datetime, limit: int) -> int:
        """Expired keys."""
        return self._forget(idempotency, idempotency.c.expires_at < before, limit)

    def sign_ins(self, before: datetime, limit: int) -> int:
        """What let somebody in once."""
        done = 0
        for table in (login_codes, sessions, stream_tickets, enrolment_tokens):
            done += self._forget(table, table.c.expires_at < before, limit - done)
        return done

    def tokens(self, before: datetime, limit: int) -> int:
        """Tokens that ended."""
        column = tokens.c
        revoked = (column.revoked_at < before) & (column.revoke_reason != WORKSPACE_REMOVED)
        expired = column.revoked_at.is_(None) & (column.expires_at < before)
        return self._forget(tokens, or_(revoked, expired), limit)

    def grants(self, before: datetime, limit: int) -> int:
        """Edges that ended."""
        column = access_grants.c
        return self._forget(access_grants, or_(column.revoked_at < before, column.expires_at < before), limit)

    def replicas(self, before: datetime, limit: int) -> int:
        """Replicas unseen."""
        return self._forget(replicas, replicas.c.seen_at < before, limit)

    def signing_keys(self, before: datetime, limit: int) -> int:
        """Keys retired."""
        return self._forget(signing_keys, signing_keys.c.retired_at < before, limit)

    def private_halves(self, before: datetime, limit: int) -> int:
        """What retired keys signed with."""
        column = signing_keys.c
        batch = select(column.kid).where(column.retired_at < before, column.private_sealed != "").limit(limit)
        destroyed = update(signing_keys).where(column.kid.in_(batch)).values(private_sealed="")
        return self._connection.execute(destroyed).rowcount

    def _forget(self, table: Table, old: ColumnElement[bool], limit: int) -> int:
        return self._connection.execute(_oldest(table, old, limit)).rowcount


def _oldest(table: Table, old: ColumnElement[bool], limit: int) -> Delete:
    """Delete a batch, the beginning of the key first."""
    key = list(table.primary_key.columns)
    batch = select(*key).where(old).order_by(*key).limit(limit)
    return delete(table).where(tuple_(*key).in_(batch))


def _first_id(moment: datetime) -> str:
    """The least id that can have been made at that time."""
    digits = f"{int(moment.timestamp() * 1000):012x}"
    return f"{digits[:8]}-{digits[8:]}"
