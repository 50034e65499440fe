"""The control plane: lineage of the tree, tickets, idempotency keys, the security log, leases of loops."""

import sqlalchemy as sa
from alembic import op

from molecule_platform.storage.columns import UtcTime

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Bring the schema forward."""
    op.create_table(
        "idempotency",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("body_hash", sa.Text(), nullable=False),
        sa.Column("replica", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("answer_sealed", sa.Text(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("expires_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "key", name=op.f("pk_idempotency")),
    )
    with op.batch_alter_table("idempotency") as batch:
        batch.create_index(batch.f("ix_idempotency_expires_at"), ["expires_at"], unique=False)

    op.create_table(
        "loops",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("last_tick_at", UtcTime(), nullable=True),
        sa.Column("lease_owner", sa.Text(), nullable=False),
        sa.Column("lease_until", UtcTime(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_loops")),
    )
    op.create_table(
        "signing_keys",
        sa.Column("kid", sa.Text(), nullable=False),
        sa.Column("alg", sa.Text(), nullable=False),
        sa.Column("public", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("private_sealed", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("retired_at", UtcTime(), nullable=True),
        sa.PrimaryKeyConstraint("kid", name=op.f("pk_signing_keys")),
    )
    op.create_table(
        "security_log",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("object", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_security_log_org_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_security_log")),
    )
    with op.batch_alter_table("security_log") as batch:
        batch.create_index("ix_security_log_org", ["org_id", "id"], unique=False)

    op.create_table(
        "stream_tickets",
        sa.Column("ticket_hash", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("credential", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("expires_at", UtcTime(), nullable=False),
        sa.Column("used_at", UtcTime(), nullable=True),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_stream_tickets_org_id")),
        sa.PrimaryKeyConstraint("ticket_hash", name=op.f("pk_stream_tickets")),
    )
    op.create_table(
        "lineage",
        sa.Column("ancestor_id", sa.Text(), nullable=False),
        sa.Column("descendant_id", sa.Text(), nullable=False),
        sa.Column("distance", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["ancestor_id"], ["workspaces.id"], name=op.f("fk_lineage_ancestor_id")),
        sa.ForeignKeyConstraint(["descendant_id"], ["workspaces.id"], name=op.f("fk_lineage_descendant_id")),
        sa.PrimaryKeyConstraint("ancestor_id", "descendant_id", name=op.f("pk_lineage")),
    )
    with op.batch_alter_table("lineage") as batch:
        batch.create_index("ix_lineage_below", ["ancestor_id", "created_at", "descendant_id"], unique=False)
        batch.create_index(batch.f("ix_lineage_descendant_id"), ["descendant_id"], unique=False)

    with op.batch_alter_table("activity_logs") as batch:
        batch.add_column(sa.Column("response_body", sa.JSON(none_as_null=True), nullable=True))
        batch.add_column(sa.Column("tool_trace", sa.JSON(none_as_null=True), nullable=True))
        batch.add_column(sa.Column("metadata", sa.JSON(none_as_null=True), nullable=True))

    with op.batch_alter_table("events") as batch:
        batch.add_column(sa.Column("parties", sa.JSON(none_as_null=True), nullable=True))
        batch.create_index("ix_events_of_workspace", ["workspace_id", "id"], unique=False)

    with op.batch_alter_table("memberships") as batch:
        batch.add_column(sa.Column("disabled", sa.Boolean(), server_default=sa.false(), nullable=False))
        batch.add_column(sa.Column("last_login_at", UtcTime(), nullable=True))

    with op.batch_alter_table("message_events") as batch:
        batch.create_index("ix_message_events_age", ["created_at"], unique=False)
        batch.create_index("ix_message_events_of_workspace", ["workspace_id"], unique=False)

    with op.batch_alter_table("message_transitions") as batch:
        batch.create_index("ix_message_transitions_list", ["org_id", "event_id"], unique=False)
        batch.create_index("ix_message_transitions_of_target", ["target_id", "event_id"], unique=False)
        batch.drop_constraint(batch.f("fk_message_transitions_message_id"), type_="foreignkey")

    with op.batch_alter_table("messages") as batch:
        batch.add_column(sa.Column("traceparent", sa.Text(), nullable=True))

    with op.batch_alter_table("users", recreate="never") as batch:
        batch.add_column(sa.Column("platform_admin", sa.Boolean(), server_default=sa.false(), nullable=False))
        batch.drop_column("last_login_at")
        batch.drop_column("disabled")

    with op.batch_alter_table("workspaces") as batch:
        batch.add_column(sa.Column("provisioning_since", UtcTime(), nullable=True))
        batch.add_column(sa.Column("provision_attempts", sa.Integer(), server_default="0", nullable=False))
        batch.add_column(sa.Column("restart_reason", sa.Text(), nullable=True))
        batch.add_column(sa.Column("session_ended_at", UtcTime(), nullable=True))
        batch.add_column(sa.Column("start_epoch", sa.Integer(), server_default="0", nullable=False))
        batch.add_column(sa.Column("started_by", sa.Text(), nullable=True))
        batch.add_column(sa.Column("stop_through", sa.Integer(), nullable=True))
        batch.add_column(sa.Column("restart_owed", sa.Text(), nullable=True))
        batch.drop_index(batch.f("ix_workspaces_org"))
        batch.create_index("ix_workspaces_org", ["org_id", "created_at", "id"], unique=False)
        batch.create_index(batch.f("ix_workspaces_restart_owed"), ["restart_owed"], unique=False)
        batch.create_index(
            "ix_workspaces_siblings", ["org_id", "parent_id", "created_at", "id"], unique=False
        )
        batch.create_index(batch.f("ix_workspaces_stop_through"), ["stop_through"], unique=False)

    _lay_out_the_tree()
    op.execute("INSERT INTO counters (name, value) VALUES ('pruned', 0)")


def _lay_out_the_tree() -> None:
    """Give every workspace that is there its ancestors."""
    op.execute("""
        WITH RECURSIVE above (descendant_id, ancestor_id, distance) AS (
            SELECT id, parent_id, 1 FROM workspaces WHERE parent_id IS NOT NULL AND status <> 'removed'
            UNION ALL
            SELECT above.descendant_id, workspaces.parent_id, above.distance + 1
            FROM above JOIN workspaces ON workspaces.id = above.ancestor_id
            WHERE workspaces.parent_id IS NOT NULL AND above.distance < 32
        )
        INSERT INTO lineage (ancestor_id, descendant_id, distance, created_at)
        SELECT above.ancestor_id, above.descendant_id, above.distance, workspaces.created_at
        FROM above JOIN workspaces ON workspaces.id = above.descendant_id
    """)
