"""Plugins: what workspaces have, and what organisations pinned, allow and trust."""

import sqlalchemy as sa
from alembic import op

from molecule_platform.storage.columns import UtcTime

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Bring the schema forward."""
    op.create_table(
        "workspace_plugins",
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("resolved_ref", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("signer", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("about", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("ledger", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("installed_at", UtcTime(), nullable=False),
        sa.CheckConstraint(
            "state IN ('recorded', 'installed', 'failed', 'quarantined', 'blocked')",
            name=op.f("ck_workspace_plugins_state_known"),
        ),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_workspace_plugins_org_id")),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_workspace_plugins_workspace_id")
        ),
        sa.PrimaryKeyConstraint("workspace_id", "name", name=op.f("pk_workspace_plugins")),
    )
    op.create_table(
        "plugin_locks",
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("resolved", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("content_sha256", sa.Text(), nullable=False),
        sa.Column("manifest_sha256", sa.Text(), nullable=False),
        sa.Column("archive_sha256", sa.Text(), nullable=False),
        sa.Column("signed_by", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_plugin_locks_org_id")),
        sa.PrimaryKeyConstraint("org_id", "source", name=op.f("pk_plugin_locks")),
    )
    op.create_table(
        "org_plugin_allowlist",
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("plugin", sa.Text(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("enabled_by", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_org_plugin_allowlist_org_id")),
        sa.PrimaryKeyConstraint("org_id", "plugin", name=op.f("pk_org_plugin_allowlist")),
    )
    op.create_table(
        "org_plugin_keys",
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("allow", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_org_plugin_keys_org_id")),
        sa.PrimaryKeyConstraint("org_id", "key_id", name=op.f("pk_org_plugin_keys")),
    )
    op.create_table(
        "plugin_revocations",
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.Column("updated_by", sa.Text(), nullable=False),
        sa.Column("body", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_plugin_revocations")),
    )
