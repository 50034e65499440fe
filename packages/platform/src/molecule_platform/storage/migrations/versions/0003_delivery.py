"""Delivery: tasks and their numbered events, who is told of them, and delegations."""

import sqlalchemy as sa
from alembic import op

from molecule_platform.storage.columns import UtcTime

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Bring the schema forward."""
    op.create_table(
        "delegations",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("body_hash", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("parent_id", sa.Text(), nullable=True),
        sa.Column("root_id", sa.Text(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("chain", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("deadline_at", UtcTime(), nullable=False),
        sa.Column("deliverables", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("context", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("report", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("result", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("error", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("missing", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("recorded", sa.Boolean(), nullable=False),
        sa.Column("retry_of", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.Column("dispatched_at", UtcTime(), nullable=True),
        sa.Column("finished_at", UtcTime(), nullable=True),
        sa.Column("reported_at", UtcTime(), nullable=True),
        sa.CheckConstraint(
            "outcome IN ('completed', 'failed', 'expired', 'cancelled', 'rejected')",
            name=op.f("ck_delegations_outcome_known"),
        ),
        sa.CheckConstraint(
            "status IN ('pending', 'dispatched', 'queued', 'completed', 'failed')",
            name=op.f("ck_delegations_status_known"),
        ),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_delegations_org_id")),
        sa.ForeignKeyConstraint(["target_id"], ["workspaces.id"], name=op.f("fk_delegations_target_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_delegations")),
    )
    with op.batch_alter_table("delegations") as batch:
        batch.create_index("ix_delegations_deadline", ["status", "deadline_at"], unique=False)
        batch.create_index("ix_delegations_finished", ["finished_at"], unique=False)
        batch.create_index(
            "ix_delegations_key",
            ["idempotency_key", "source"],
            unique=True,
            sqlite_where=sa.text("idempotency_key IS NOT NULL"),
            postgresql_where=sa.text("idempotency_key IS NOT NULL"),
        )
        batch.create_index(
            "ix_delegations_message",
            ["message_id"],
            unique=False,
            sqlite_where=sa.text("message_id IS NOT NULL"),
            postgresql_where=sa.text("message_id IS NOT NULL"),
        )
        batch.create_index("ix_delegations_of_source", ["source_id", "seq"], unique=False)
        batch.create_index("ix_delegations_of_target", ["target_id", "seq"], unique=False)
        batch.create_index(
            "ix_delegations_parent",
            ["parent_id"],
            unique=False,
            sqlite_where=sa.text("parent_id IS NOT NULL"),
            postgresql_where=sa.text("parent_id IS NOT NULL"),
        )
        batch.create_index("ix_delegations_root", ["root_id"], unique=False)

    op.create_table(
        "push_configs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("config_id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("dialect", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("secret_sealed", sa.Text(), nullable=True),
        sa.Column("config", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("disabled_at", UtcTime(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_push_configs_org_id")),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_push_configs_workspace_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_push_configs")),
        sa.UniqueConstraint(
            "workspace_id",
            "tenant",
            "task_id",
            "config_id",
            name=op.f("uq_push_configs_workspace_id_tenant_task_id_config_id"),
        ),
    )
    op.create_table(
        "tasks",
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("context_id", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("is_agents", sa.Boolean(), nullable=False),
        sa.Column("agent_task_id", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("status_at", UtcTime(), nullable=False),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.Column("reader", sa.Text(), nullable=False),
        sa.Column("snapshot", sa.LargeBinary(), nullable=True),
        sa.Column("snapshot_seq", sa.Integer(), nullable=False),
        sa.Column("look_at", UtcTime(), nullable=True),
        sa.Column("looks", sa.Integer(), nullable=False),
        sa.Column("watchers", sa.Integer(), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("finished_at", UtcTime(), nullable=True),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_tasks_org_id")),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_tasks_workspace_id")),
        sa.PrimaryKeyConstraint("workspace_id", "tenant", "id", name=op.f("pk_tasks")),
    )
    with op.batch_alter_table("tasks") as batch:
        batch.create_index(
            "ix_tasks_agent_task",
            ["agent_task_id", "workspace_id"],
            unique=False,
            sqlite_where=sa.text("agent_task_id IS NOT NULL"),
            postgresql_where=sa.text("agent_task_id IS NOT NULL"),
        )
        batch.create_index("ix_tasks_finished", ["finished_at"], unique=False)
        batch.create_index("ix_tasks_list", ["workspace_id", "owner", "status_at", "id"], unique=False)
        batch.create_index(
            "ix_tasks_look",
            ["look_at"],
            unique=False,
            sqlite_where=sa.text("look_at IS NOT NULL"),
            postgresql_where=sa.text("look_at IS NOT NULL"),
        )

    op.create_table(
        "delegation_evidence",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("delegation_id", sa.Text(), nullable=False),
        sa.Column("deliverable", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("uri", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("sha256", sa.Text(), nullable=True),
        sa.Column("media_type", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["delegation_id"],
            ["delegations.id"],
            name=op.f("fk_delegation_evidence_delegation_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_delegation_evidence_org_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_delegation_evidence")),
    )
    with op.batch_alter_table("delegation_evidence") as batch:
        batch.create_index(batch.f("ix_delegation_evidence_delegation_id"), ["delegation_id"], unique=False)

    op.create_table(
        "outbox",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("push_config_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", UtcTime(), nullable=True),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_outbox_org_id")),
        sa.ForeignKeyConstraint(
            ["push_config_id"], ["push_configs.id"], name=op.f("fk_outbox_push_config_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
    )
    with op.batch_alter_table("outbox") as batch:
        batch.create_index(
            "ix_outbox_due",
            ["next_attempt_at"],
            unique=False,
            sqlite_where=sa.text("next_attempt_at IS NOT NULL"),
            postgresql_where=sa.text("next_attempt_at IS NOT NULL"),
        )
        batch.create_index("ix_outbox_of_config", ["push_config_id", "seq"], unique=False)

    with op.batch_alter_table("message_events", recreate="never") as batch:
        batch.add_column(sa.Column("dialect", sa.Text(), server_default="1.0", nullable=False))
        batch.create_index("ix_message_events_of_message", ["message_id"], unique=False)

    with op.batch_alter_table("message_transitions") as batch:
        batch.create_index("ix_message_transitions_of_message", ["message_id", "event_id"], unique=False)

    with op.batch_alter_table("messages", recreate="never") as batch:
        batch.add_column(sa.Column("request_id", sa.Text(), nullable=True))
        batch.add_column(sa.Column("extensions", sa.Text(), nullable=True))
        batch.add_column(sa.Column("tenant", sa.Text(), server_default="", nullable=False))
        batch.add_column(sa.Column("delegation", sa.JSON(none_as_null=True), nullable=True))
        batch.create_index(
            "ix_messages_delegation",
            ["delegation_id"],
            unique=False,
            sqlite_where=sa.text("delegation_id IS NOT NULL"),
            postgresql_where=sa.text("delegation_id IS NOT NULL"),
        )
        batch.create_index("ix_messages_sent", ["caller", "seq"], unique=False)
