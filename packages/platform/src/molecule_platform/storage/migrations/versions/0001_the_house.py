"""The first tables: organisations, tokens, workspaces, messages, events."""

import sqlalchemy as sa
from alembic import op

from molecule_platform.storage.columns import LogNumber, UtcTime

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Bring the schema forward."""
    op.create_table(
        "counters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )
    op.create_table(
        "orgs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_orgs")),
        sa.UniqueConstraint("slug", name=op.f("uq_orgs_slug")),
    )
    op.create_table(
        "replicas",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("seen_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_replicas")),
    )
    op.create_table(
        "users",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("disabled", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("last_login_at", UtcTime(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_users")),
    )
    op.create_table(
        "events",
        sa.Column("id", LogNumber, autoincrement=False, nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("event_type", sa.Text(), nullable=False),
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column("payload", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_events_org_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
    )
    op.create_index("ix_events_list", "events", ["org_id", "id"], unique=False)
    op.create_table(
        "login_codes",
        sa.Column("code_hash", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("expires_at", UtcTime(), nullable=False),
        sa.Column("used_at", UtcTime(), nullable=True),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_login_codes_org_id")),
        sa.PrimaryKeyConstraint("code_hash", name=op.f("pk_login_codes")),
    )
    op.create_table(
        "memberships",
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.CheckConstraint(
            "role IN ('viewer', 'member', 'admin', 'owner')", name=op.f("ck_memberships_role_known")
        ),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_memberships_org_id")),
        sa.ForeignKeyConstraint(["user"], ["users.name"], name=op.f("fk_memberships_user")),
        sa.PrimaryKeyConstraint("user", "org_id", name=op.f("pk_memberships")),
    )
    op.create_table(
        "message_events",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), server_default="", nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_message_events_org_id")),
        sa.PrimaryKeyConstraint("task_id", "seq", "workspace_id", "tenant", name=op.f("pk_message_events")),
    )
    op.create_table(
        "secrets",
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("ciphertext", sa.LargeBinary(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_secrets_org_id")),
        sa.PrimaryKeyConstraint("org_id", "workspace_id", "key", name=op.f("pk_secrets")),
    )
    op.create_table(
        "sessions",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("scopes", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("expires_at", UtcTime(), nullable=False),
        sa.Column("seen_at", UtcTime(), nullable=False),
        sa.Column("revoked_at", UtcTime(), nullable=True),
        sa.Column("token_id", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_sessions_org_id")),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_sessions")),
    )
    op.create_table(
        "workspaces",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("tier", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("status_reason", sa.Text(), nullable=False),
        sa.Column("runtime", sa.Text(), nullable=False),
        sa.Column("external", sa.Boolean(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("delivery_mode", sa.Text(), nullable=False),
        sa.Column("protocols", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("dispatch_secret_sealed", sa.Text(), nullable=True),
        sa.Column("agent_card", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("parent_id", sa.Text(), nullable=True),
        sa.Column("visibility", sa.Text(), nullable=False),
        sa.Column("isolated", sa.Boolean(), nullable=False),
        sa.Column("awareness_namespace", sa.Text(), nullable=False),
        sa.Column("workspace_dir", sa.Text(), nullable=True),
        sa.Column("workspace_access", sa.Text(), nullable=False),
        sa.Column("budget_limit", sa.BigInteger(), nullable=True),
        sa.Column("monthly_spend", sa.BigInteger(), nullable=False),
        sa.Column("spend_period", sa.Text(), nullable=False),
        sa.Column("max_concurrent_tasks", sa.Integer(), nullable=False),
        sa.Column("hibernation_idle_minutes", sa.Integer(), nullable=True),
        sa.Column("capabilities", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("idle_timeout_seconds", sa.Integer(), nullable=True),
        sa.Column("runtime_metadata", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("needs_restart", sa.Boolean(), nullable=False),
        sa.Column("active_tasks", sa.Integer(), nullable=False),
        sa.Column("current_task", sa.Text(), nullable=False),
        sa.Column("last_error_rate", sa.Float(), nullable=False),
        sa.Column("last_sample_error", sa.Text(), nullable=False),
        sa.Column("uptime_seconds", sa.Integer(), nullable=False),
        sa.Column("last_heartbeat_at", UtcTime(), nullable=True),
        sa.Column("liveness_expires_at", UtcTime(), nullable=True),
        sa.Column("last_activity_at", UtcTime(), nullable=True),
        sa.Column("last_outbound_at", UtcTime(), nullable=True),
        sa.Column("claimed_at", UtcTime(), nullable=True),
        sa.Column("claim_until", UtcTime(), nullable=True),
        sa.Column("removed_at", UtcTime(), nullable=True),
        sa.Column("x", sa.Float(), nullable=False),
        sa.Column("y", sa.Float(), nullable=False),
        sa.Column("collapsed", sa.Boolean(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.CheckConstraint(
            "delivery_mode IN ('push', 'poll')", name=op.f("ck_workspaces_delivery_mode_known")
        ),
        sa.CheckConstraint(
            "status IN ('provisioning', 'online', 'degraded', 'offline', 'paused', 'hibernating', "
            "'hibernated', 'awaiting_agent', 'failed', 'removed')",
            name=op.f("ck_workspaces_status_known"),
        ),
        sa.CheckConstraint(
            "visibility IN ('private', 'public')", name=op.f("ck_workspaces_visibility_known")
        ),
        sa.CheckConstraint(
            "workspace_access IN ('none', 'read_only', 'read_write')",
            name=op.f("ck_workspaces_workspace_access_known"),
        ),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_workspaces_org_id")),
        sa.ForeignKeyConstraint(["parent_id"], ["workspaces.id"], name=op.f("fk_workspaces_parent_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workspaces")),
    )
    op.create_index("ix_workspaces_liveness", "workspaces", ["status", "liveness_expires_at"], unique=False)
    op.create_index("ix_workspaces_org", "workspaces", ["org_id", "created_at"], unique=False)
    op.create_index(op.f("ix_workspaces_parent_id"), "workspaces", ["parent_id"], unique=False)
    op.create_table(
        "access_grants",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("from_id", sa.Text(), nullable=False),
        sa.Column("to_id", sa.Text(), nullable=False),
        sa.Column("bidirectional", sa.Boolean(), nullable=False),
        sa.Column("expires_at", UtcTime(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("revoked_at", UtcTime(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["from_id"], ["workspaces.id"], name=op.f("fk_access_grants_from_id")),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_access_grants_org_id")),
        sa.ForeignKeyConstraint(["to_id"], ["workspaces.id"], name=op.f("fk_access_grants_to_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_access_grants")),
    )
    op.create_index(op.f("ix_access_grants_from_id"), "access_grants", ["from_id"], unique=False)
    op.create_index(op.f("ix_access_grants_to_id"), "access_grants", ["to_id"], unique=False)
    op.create_table(
        "activity_logs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column("activity_type", sa.Text(), nullable=False),
        sa.Column("caller", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("request_body", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("error_detail", sa.Text(), nullable=False),
        sa.Column("duration_ms", sa.BigInteger(), nullable=True),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_activity_logs_org_id")),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_activity_logs_workspace_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_activity_logs")),
        sa.UniqueConstraint("seq", name=op.f("uq_activity_logs_seq")),
    )
    op.create_index(
        "ix_activity_logs_list", "activity_logs", ["workspace_id", "activity_type", "seq"], unique=False
    )
    op.create_table(
        "enrolment_tokens",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column("expires_at", UtcTime(), nullable=False),
        sa.Column("used_at", UtcTime(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_enrolment_tokens_org_id")),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_enrolment_tokens_workspace_id")
        ),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_enrolment_tokens")),
    )
    op.create_table(
        "messages",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=False),
        sa.Column("caller", sa.Text(), nullable=False),
        sa.Column("caller_name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("dialect", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("body_hash", sa.Text(), nullable=False),
        sa.Column("message_ref", sa.Text(), nullable=False),
        sa.Column("context_id", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("deadline_at", UtcTime(), nullable=False),
        sa.Column("waits_until", UtcTime(), nullable=False),
        sa.Column("run_limit_seconds", sa.Integer(), nullable=True),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("activity_id", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("task_state", sa.Text(), nullable=True),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("agent_task_id", sa.Text(), nullable=True),
        sa.Column("delegation_id", sa.Text(), nullable=True),
        sa.Column("parent_message_id", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("not_before", UtcTime(), nullable=True),
        sa.Column("lease_epoch", sa.Integer(), nullable=False),
        sa.Column("lease_kind", sa.Text(), nullable=True),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_token_hash", sa.Text(), nullable=True),
        sa.Column("lease_expires_at", UtcTime(), nullable=True),
        sa.Column("leased_at", UtcTime(), nullable=True),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("reply_hash", sa.Text(), nullable=True),
        sa.Column("held_by", sa.Text(), nullable=True),
        sa.Column("held_until", UtcTime(), nullable=True),
        sa.Column("seen_at", UtcTime(), nullable=True),
        sa.Column("result", sa.LargeBinary(), nullable=True),
        sa.Column("error", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("dead_letter", sa.Boolean(), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("finished_at", UtcTime(), nullable=True),
        sa.CheckConstraint(
            "kind IN ('message', 'reply', 'delegation', 'delegation_result', "
            "'schedule', 'channel', 'system')",
            name=op.f("ck_messages_kind_known"),
        ),
        sa.CheckConstraint(
            "lease_kind IN ('dispatch', 'inbox', 'cursor')", name=op.f("ck_messages_lease_kind_known")
        ),
        sa.CheckConstraint(
            "status IN ('accepted', 'leased', 'answered', 'failed', 'expired', 'cancelled')",
            name=op.f("ck_messages_status_known"),
        ),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_messages_org_id")),
        sa.ForeignKeyConstraint(["target_id"], ["workspaces.id"], name=op.f("fk_messages_target_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
    )
    op.create_index(
        "ix_messages_agent_task",
        "messages",
        ["agent_task_id"],
        unique=False,
        sqlite_where=sa.text("agent_task_id IS NOT NULL"),
        postgresql_where=sa.text("agent_task_id IS NOT NULL"),
    )
    op.create_index("ix_messages_deadline", "messages", ["status", "deadline_at"], unique=False)
    op.create_index(
        "ix_messages_key",
        "messages",
        ["idempotency_key", "caller", "target_id"],
        unique=True,
        sqlite_where=sa.text("idempotency_key IS NOT NULL"),
        postgresql_where=sa.text("idempotency_key IS NOT NULL"),
    )
    op.create_index("ix_messages_queue", "messages", ["target_id", "status", "seq"], unique=False)
    op.create_index(
        "ix_messages_repeat", "messages", ["caller", "target_id", "message_ref", "body_hash"], unique=False
    )
    op.create_index(
        "ix_messages_reply",
        "messages",
        ["reply_hash"],
        unique=False,
        sqlite_where=sa.text("reply_hash IS NOT NULL"),
        postgresql_where=sa.text("reply_hash IS NOT NULL"),
    )
    op.create_index(op.f("ix_messages_task_id"), "messages", ["task_id"], unique=False)
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("workspace_id", sa.Text(), nullable=True),
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scopes", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("expires_at", UtcTime(), nullable=True),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("last_used_at", UtcTime(), nullable=True),
        sa.Column("revoked_at", UtcTime(), nullable=True),
        sa.Column("revoke_reason", sa.Text(), nullable=True),
        sa.Column("recovery_hash", sa.Text(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.CheckConstraint("kind IN ('workspace', 'org')", name=op.f("ck_tokens_kind_known")),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_tokens_org_id")),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_tokens_workspace_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_tokens_token_hash")),
    )
    op.create_index("ix_tokens_workspace", "tokens", ["workspace_id"], unique=False)
    op.create_table(
        "message_transitions",
        sa.Column("event_id", LogNumber, autoincrement=False, nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=False),
        sa.Column("caller", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("lease_epoch", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.CheckConstraint(
            "kind IN ('accepted', 'leased', 'retry', 'released', 'answered', "
            "'failed', 'expired', 'cancelled')",
            name=op.f("ck_message_transitions_kind_known"),
        ),
        sa.ForeignKeyConstraint(
            ["message_id"], ["messages.id"], name=op.f("fk_message_transitions_message_id")
        ),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_message_transitions_org_id")),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_message_transitions")),
    )
    op.execute("INSERT INTO counters (name, value) VALUES ('log', 0)")
