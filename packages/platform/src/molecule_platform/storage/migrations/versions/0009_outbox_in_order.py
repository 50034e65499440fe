"""The outbox lies in the order in which it is told: one place to write for each event and config."""

import sqlalchemy as sa
from alembic import op

from molecule_platform.storage.columns import UtcTime

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Bring the schema forward."""
    op.execute("CREATE TEMPORARY TABLE untold AS SELECT * FROM outbox")
    op.drop_table("outbox")
    op.create_table(
        "outbox",
        sa.Column("push_config_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", UtcTime(), nullable=True),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["push_config_id"], ["push_configs.id"], name=op.f("fk_outbox_push_config_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("push_config_id", "seq", "id", name=op.f("pk_outbox")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_outbox_due",
        "outbox",
        ["next_attempt_at"],
        sqlite_where=sa.text("next_attempt_at IS NOT NULL"),
        postgresql_where=sa.text("next_attempt_at IS NOT NULL"),
    )
    op.execute(
        "INSERT INTO outbox (push_config_id, seq, id, org_id, kind, attempts, next_attempt_at, lease_owner,"
        " created_at) SELECT push_config_id, seq, id, org_id, kind, attempts, next_attempt_at, lease_owner,"
        " created_at FROM untold"
    )
    op.execute("DROP TABLE untold")
