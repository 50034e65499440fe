"""The schema. Migrations add up to exactly this; a test holds them to it on both dialects."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    false,
)

from molecule_platform.domain import messages as message_rules
from molecule_platform.domain import workspaces as workspace_rules
from molecule_platform.storage.columns import Json, LogNumber, UtcTime, Words, one_of

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _created_at() -> Column[object]:
    return Column("created_at", UtcTime, nullable=False)


def _org() -> Column[object]:
    return Column("org_id", Words, ForeignKey("orgs.id"), nullable=False)


def _workspace(nullable: bool = False) -> Column[object]:
    return Column("workspace_id", Words, ForeignKey("workspaces.id"), nullable=nullable)


def _where_given(name: str, column: Column[Any], *more: Column[Any], unique: bool = False) -> None:
    """An index of the few rows that have a value: the many that have none pay nothing for it."""
    given = column.is_not(None)
    Index(name, column, *more, unique=unique, sqlite_where=given, postgresql_where=given)


counters = Table(
    "counters",
    metadata,
    Column("name", Words, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

replicas = Table(
    "replicas",
    metadata,
    Column("id", Words, primary_key=True),
    Column("seen_at", UtcTime, nullable=False),
)

orgs = Table(
    "orgs",
    metadata,
    Column("id", Words, primary_key=True),
    Column("slug", Words, nullable=False, unique=True),
    Column("name", Words, nullable=False),
    _created_at(),
)

users = Table(
    "users",
    metadata,
    Column("name", Words, primary_key=True),
    Column("disabled", Boolean, nullable=False, server_default=false()),
    Column("last_login_at", UtcTime),
    _created_at(),
)

memberships = Table(
    "memberships",
    metadata,
    Column("user", Words, ForeignKey("users.name"), primary_key=True),
    Column("org_id", Words, ForeignKey("orgs.id"), primary_key=True),
    Column("role", Words, nullable=False),
    _created_at(),
    one_of("role", ("viewer", "member", "admin", "owner")),
)

login_codes = Table(
    "login_codes",
    metadata,
    Column("code_hash", Words, primary_key=True),
    _org(),
    Column("user", Words, nullable=False),
    Column("role", Words, nullable=False),
    _created_at(),
    Column("expires_at", UtcTime, nullable=False),
    Column("used_at", UtcTime),
)

sessions = Table(
    "sessions",
    metadata,
    Column("token_hash", Words, primary_key=True),
    _org(),
    Column("user", Words, nullable=False),
    Column("role", Words, nullable=False),
    Column("scopes", Json, nullable=False),
    _created_at(),
    Column("expires_at", UtcTime, nullable=False),
    Column("seen_at", UtcTime, nullable=False),
    Column("revoked_at", UtcTime),
    Column("token_id", Words),
)

workspaces = Table(
    "workspaces",
    metadata,
    Column("id", Words, primary_key=True),
    _org(),
    Column("name", Words, nullable=False),
    Column("role", Words, nullable=False),
    Column("tier", Integer, nullable=False),
    Column("status", Words, nullable=False),
    Column("status_reason", Words, nullable=False),
    Column("runtime", Words, nullable=False),
    Column("external", Boolean, nullable=False),
    Column("url", Words, nullable=False),
    Column("delivery_mode", Words, nullable=False),
    Column("protocols", Json),
    Column("dispatch_secret_sealed", Words),
    Column("agent_card", Json),
    Column("parent_id", Words, ForeignKey("workspaces.id"), index=True),
    Column("visibility", Words, nullable=False),
    Column("isolated", Boolean, nullable=False),
    Column("awareness_namespace", Words, nullable=False),
    Column("workspace_dir", Words),
    Column("workspace_access", Words, nullable=False),
    Column("budget_limit", BigInteger),
    Column("monthly_spend", BigInteger, nullable=False),
    Column("spend_period", Words, nullable=False),
    Column("max_concurrent_tasks", Integer, nullable=False),
    Column("hibernation_idle_minutes", Integer),
    Column("capabilities", Json),
    Column("idle_timeout_seconds", Integer),
    Column("runtime_metadata", Json),
    Column("needs_restart", Boolean, nullable=False),
    Column("active_tasks", Integer, nullable=False),
    Column("current_task", Words, nullable=False),
    Column("last_error_rate", Float, nullable=False),
    Column("last_sample_error", Words, nullable=False),
    Column("uptime_seconds", Integer, nullable=False),
    Column("last_heartbeat_at", UtcTime),
    Column("liveness_expires_at", UtcTime),
    Column("last_activity_at", UtcTime),
    Column("last_outbound_at", UtcTime),
    Column("claimed_at", UtcTime),
    Column("claim_until", UtcTime),
    Column("removed_at", UtcTime),
    Column("x", Float, nullable=False),
    Column("y", Float, nullable=False),
    Column("collapsed", Boolean, nullable=False),
    Column("version", Integer, nullable=False),
    _created_at(),
    Column("updated_at", UtcTime, nullable=False),
    one_of("status", workspace_rules.STATUSES),
    one_of("delivery_mode", workspace_rules.DELIVERY_MODES),
    one_of("visibility", workspace_rules.VISIBILITIES),
    one_of("workspace_access", workspace_rules.WORKSPACE_ACCESS),
    Index("ix_workspaces_org", "org_id", "created_at"),
    Index("ix_workspaces_liveness", "status", "liveness_expires_at"),
)

access_grants = Table(
    "access_grants",
    metadata,
    Column("id", Words, primary_key=True),
    _org(),
    Column("from_id", Words, ForeignKey("workspaces.id"), nullable=False, index=True),
    Column("to_id", Words, ForeignKey("workspaces.id"), nullable=False, index=True),
    Column("bidirectional", Boolean, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
    Column("reason", Words, nullable=False),
    Column("created_by", Words, nullable=False),
    Column("revoked_at", UtcTime),
    _created_at(),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Words, primary_key=True),
    _org(),
    Column("kind", Words, nullable=False),
    _workspace(nullable=True),
    Column("token_hash", Words, nullable=False, unique=True),
    Column("prefix", Words, nullable=False),
    Column("name", Words, nullable=False),
    Column("scopes", Json, nullable=False),
    Column("expires_at", UtcTime),
    Column("created_by", Words, nullable=False),
    Column("last_used_at", UtcTime),
    Column("revoked_at", UtcTime),
    Column("revoke_reason", Words),
    Column("recovery_hash", Words),
    _created_at(),
    one_of("kind", ("workspace", "org")),
    Index("ix_tokens_workspace", "workspace_id"),
)

enrolment_tokens = Table(
    "enrolment_tokens",
    metadata,
    Column("token_hash", Words, primary_key=True),
    _org(),
    _workspace(),
    Column("expires_at", UtcTime, nullable=False),
    Column("used_at", UtcTime),
    _created_at(),
)

secrets = Table(
    "secrets",
    metadata,
    Column("org_id", Words, ForeignKey("orgs.id"), primary_key=True),
    # Empty for a secret of the whole organisation, so that the key stays unique on both dialects.
    Column("workspace_id", Words, primary_key=True),
    Column("key", Words, primary_key=True),
    Column("nonce", LargeBinary, nullable=False),
    Column("ciphertext", LargeBinary, nullable=False),
    Column("key_id", Words, nullable=False),
    _created_at(),
    Column("updated_at", UtcTime, nullable=False),
)

messages = Table(
    "messages",
    metadata,
    Column("id", Words, primary_key=True),
    _org(),
    Column("seq", BigInteger, nullable=False),
    Column("target_id", Words, ForeignKey("workspaces.id"), nullable=False),
    Column("caller", Words, nullable=False),
    Column("caller_name", Words, nullable=False),
    Column("kind", Words, nullable=False),
    Column("method", Words, nullable=False),
    Column("dialect", Words, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("body_hash", Words, nullable=False),
    Column("message_ref", Words, nullable=False),
    Column("context_id", Words, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    _created_at(),
    Column("deadline_at", UtcTime, nullable=False),
    Column("waits_until", UtcTime, nullable=False),
    Column("run_limit_seconds", Integer),
    Column("idempotency_key", Words),
    Column("activity_id", Words, nullable=False),
    Column("status", Words, nullable=False),
    Column("task_state", Words),
    Column("task_id", Words, nullable=False, index=True),
    Column("agent_task_id", Words),
    Column("delegation_id", Words),
    Column("parent_message_id", Words),
    Column("attempts", Integer, nullable=False),
    Column("not_before", UtcTime),
    Column("lease_epoch", Integer, nullable=False),
    Column("lease_kind", Words),
    Column("lease_owner", Words),
    Column("lease_token_hash", Words),
    Column("lease_expires_at", UtcTime),
    Column("leased_at", UtcTime),
    Column("worker", Words),
    Column("reply_hash", Words),
    Column("held_by", Words),
    Column("held_until", UtcTime),
    Column("seen_at", UtcTime),
    Column("result", LargeBinary),
    Column("error", Json),
    Column("dead_letter", Boolean, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    Column("finished_at", UtcTime),
    one_of("status", message_rules.STATUSES),
    one_of("kind", message_rules.KINDS),
    one_of("lease_kind", message_rules.LEASE_KINDS),
    Index("ix_messages_repeat", "caller", "target_id", "message_ref", "body_hash"),
    Index("ix_messages_queue", "target_id", "status", "seq"),
    Index("ix_messages_deadline", "status", "deadline_at"),
)
_where_given(
    "ix_messages_key", messages.c.idempotency_key, messages.c.caller, messages.c.target_id, unique=True
)
_where_given("ix_messages_agent_task", messages.c.agent_task_id)
_where_given("ix_messages_reply", messages.c.reply_hash)

message_events = Table(
    "message_events",
    metadata,
    Column("task_id", Words, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("workspace_id", Words, primary_key=True),
    Column("tenant", Words, primary_key=True, server_default=""),
    _org(),
    Column("message_id", Words, nullable=False),
    Column("kind", Words, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    _created_at(),
)

message_transitions = Table(
    "message_transitions",
    metadata,
    Column("event_id", LogNumber, primary_key=True, autoincrement=False),
    _org(),
    Column("message_id", Words, ForeignKey("messages.id"), nullable=False),
    Column("target_id", Words, nullable=False),
    Column("caller", Words, nullable=False),
    Column("kind", Words, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("lease_epoch", Integer, nullable=False),
    _created_at(),
    one_of("kind", message_rules.TRANSITIONS),
)

activity_logs = Table(
    "activity_logs",
    metadata,
    Column("id", Words, primary_key=True),
    _org(),
    Column("seq", BigInteger, nullable=False, unique=True),
    _workspace(),
    Column("activity_type", Words, nullable=False),
    Column("caller", Words, nullable=False),
    Column("source_id", Words, nullable=False),
    Column("target_id", Words, nullable=False),
    Column("method", Words, nullable=False),
    Column("summary", Words, nullable=False),
    Column("status", Words, nullable=False),
    Column("request_body", Json),
    Column("error_detail", Words, nullable=False),
    Column("duration_ms", BigInteger),
    Column("message_id", Words),
    Column("origin", Words, nullable=False),
    _created_at(),
    Index("ix_activity_logs_list", "workspace_id", "activity_type", "seq"),
)

events = Table(
    "events",
    metadata,
    Column("id", LogNumber, primary_key=True, autoincrement=False),
    _org(),
    Column("event_type", Words, nullable=False),
    Column("workspace_id", Words, nullable=False),
    Column("payload", Json, nullable=False),
    _created_at(),
    Index("ix_events_list", "org_id", "id"),
)
