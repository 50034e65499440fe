"""Tables of what flows: messages and their steps, activity, events."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    false,
    literal_column,
    true,
)

from molecule_platform.domain import messages as message_rules
from molecule_platform.storage import metadata as storage_metadata
from molecule_platform.storage.columns import Json, LogNumber, StringList, UtcTime, one_by_one


def _org() -> Column[object]:
    """The organisation of whatever flows. Its workspace vouches for it: to look it up again for each row, and
    on PostgreSQL to lock it, costs as much as half of all that is written.
    """
    return Column("org_id", StringList, nullable=False)


messages = Table(
    "messages",
    storage_metadata.metadata,
    Column("id", StringList, primary_key=True),
    _org(),
    Column("seq", BigInteger, nullable=False),
    Column("target_id", StringList, ForeignKey("workspaces.id"), nullable=False),
    Column("caller", StringList, nullable=False),
    Column("caller_name", StringList, nullable=False),
    Column("kind", StringList, nullable=False),
    Column("method", StringList, nullable=False),
    Column("dialect", StringList, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("body_hash", StringList, nullable=False),
    Column("message_ref", StringList, nullable=False),
    Column("context_id", StringList, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    storage_metadata.created_at(),
    Column("deadline_at", UtcTime, nullable=False),
    Column("waits_until", UtcTime, nullable=False),
    Column("run_limit_seconds", Integer),
    Column("idempotency_key", StringList),
    Column("traceparent", StringList),
    Column("request_id", StringList),
    Column("extensions", StringList),
    Column("tenant", StringList, nullable=False, server_default=""),
    Column("delegation", Json),
    Column("activity_id", StringList, nullable=False),
    Column("status", StringList, nullable=False),
    Column("task_state", StringList),
    Column("task_id", StringList, nullable=False),
    Column("agent_task_id", StringList),
    Column("delegation_id", StringList),
    Column("parent_message_id", StringList),
    Column("attempts", Integer, nullable=False),
    Column("releases", Integer, nullable=False, server_default="0"),
    Column("not_before", UtcTime),
    Column("lease_epoch", Integer, nullable=False),
    Column("lease_kind", StringList),
    Column("lease_owner", StringList),
    Column("lease_token_hash", StringList),
    Column("lease_expires_at", UtcTime),
    Column("leased_at", UtcTime),
    Column("worker", StringList),
    Column("reply_hash", StringList),
    Column("held_by", StringList),
    Column("held_until", UtcTime),
    Column("seen_at", UtcTime),
    Column("result", LargeBinary),
    Column("error", Json),
    Column("dead_letter", Boolean, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    Column("finished_at", UtcTime),
    one_by_one("status", message_rules.STATUSES),
    one_by_one("kind", message_rules.KINDS),
    one_by_one("lease_kind", message_rules.LEASE_KINDS),
    Index("ix_messages_queue", "target_id", "status", "seq"),
    Index("ix_messages_sent", "caller", "seq"),
    # A new context is named after its message: the indexes of all mailboxes grow in one place.
    Index("ix_messages_context", "context_id", "target_id", "caller", "seq"),
)
_row = messages.c
# Only who asks by these very conditions finds by such an index; every other row pays nothing for it.
MAY_REPEAT = _row.body_hash != literal_column("''")
HAS_TASK = _row.task_id != _row.id
IS_UNFINISHED = _row.finished_at.is_(None)
IS_DEAD = _row.dead_letter.is_(true())
storage_metadata.where_true(
    "ix_messages_repeat", MAY_REPEAT, _row.caller, _row.target_id, _row.message_ref, _row.body_hash
)
storage_metadata.where_true("ix_messages_task", HAS_TASK, _row.task_id, _row.target_id)
storage_metadata.where_true("ix_messages_deadline", IS_UNFINISHED, _row.status, _row.deadline_at)
storage_metadata.where_true("ix_messages_dead", IS_DEAD, _row.target_id, _row.status, _row.seq)
storage_metadata.where_given(
    "ix_messages_key", _row.idempotency_key, _row.caller, _row.target_id, unique=True
)
storage_metadata.where_given("ix_messages_agent_task", _row.agent_task_id, _row.target_id)
storage_metadata.where_given("ix_messages_reply", _row.reply_hash, _row.target_id)
storage_metadata.where_given("ix_messages_delegation", _row.delegation_id)
storage_metadata.where_given("ix_messages_parent", _row.parent_message_id)

message_events = Table(
    "message_events",
    storage_metadata.metadata,
    Column("task_id", StringList, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("workspace_id", StringList, primary_key=True),
    Column("tenant", StringList, primary_key=True, server_default=""),
    _org(),
    Column("message_id", StringList, nullable=False),
    Column("kind", StringList, nullable=False),
    Column("dialect", StringList, nullable=False, server_default="1.0"),
    Column("payload", LargeBinary, nullable=False),
    storage_metadata.created_at(),
    Index("ix_message_events_of_message", "message_id"),
    Index("ix_message_events_of_workspace", "workspace_id"),
    Index("ix_message_events_age", "created_at"),
)

message_transitions = Table(
    "message_transitions",
    storage_metadata.metadata,
    Column("event_id", LogNumber, primary_key=True, autoincrement=False),
    _org(),
    # No foreign key: what happened is kept longer than the message it happened to.
    Column("message_id", StringList, nullable=False),
    Column("target_id", StringList, nullable=False),
    Column("caller", StringList, nullable=False),
    Column("kind", StringList, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("lease_epoch", Integer, nullable=False),
    storage_metadata.created_at(),
    # A message that is leased in the moment it is accepted takes both steps in one row, under two numbers.
    Column("also_accepted", Boolean, nullable=False, server_default=false()),
    # How a message ended is told under the number after that of its end, by the message while it is kept.
    Column("also_told", Boolean, nullable=False, server_default=false()),
    one_by_one("kind", message_rules.TRANSITIONS),
    Index("ix_message_transitions_list", "org_id", "event_id"),
    Index("ix_message_transitions_of_target", "target_id", "event_id"),
    Index("ix_message_transitions_of_message", "message_id", "event_id"),
)

activity_logs = Table(
    "activity_logs",
    storage_metadata.metadata,
    Column("id", StringList, primary_key=True),
    _org(),
    Column("seq", BigInteger, nullable=False, unique=True),
    storage_metadata.workspace(),
    Column("activity_type", StringList, nullable=False),
    Column("caller", StringList, nullable=False),
    Column("source_id", StringList, nullable=False),
    Column("target_id", StringList, nullable=False),
    Column("method", StringList, nullable=False),
    Column("summary", StringList, nullable=False),
    Column("status", StringList, nullable=False),
    Column("request_body", Json),
    Column("response_body", Json),
    Column("tool_trace", Json),
    Column("metadata", Json),
    Column("error_detail", StringList, nullable=False),
    Column("duration_ms", BigInteger),
    Column("message_id", StringList),
    Column("origin", StringList, nullable=False),
    storage_metadata.created_at(),
    Index("ix_activity_logs_list", "workspace_id", "seq"),
    Index("ix_activity_logs_type", "workspace_id", "activity_type", "seq"),
)

events = Table(
    "events",
    storage_metadata.metadata,
    Column("id", LogNumber, primary_key=True, autoincrement=False),
    _org(),
    Column("event_type", StringList, nullable=False),
    Column("workspace_id", StringList, nullable=False),
    # The workspaces that may see what was said; null means everyone who may see the workspace.
    Column("parties", Json),
    Column("payload", Json, nullable=False),
    storage_metadata.created_at(),
    Index("ix_events_list", "org_id", "id"),
    Index("ix_events_of_workspace", "workspace_id", "id"),
)
