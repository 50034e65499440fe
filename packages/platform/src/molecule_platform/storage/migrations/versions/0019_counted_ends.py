"""Messages that ended are counted as they end, and activity is found by its type."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Bring the schema forward."""
    messages = sa.table("messages", sa.column("status", sa.Text))
    counters = sa.table("counters", sa.column("name"), sa.column("value"))
    for ended in ("answered", "failed", "expired", "cancelled"):
        counted = sa.select(sa.literal(f"messages-{ended}"), sa.func.count())
        mine = counted.select_from(messages).where(messages.c.status == ended)
        op.execute(sa.insert(counters).from_select(["name", "value"], mine))
    op.drop_index("ix_activity_logs_list", table_name="activity_logs")
    op.create_index("ix_activity_logs_list", "activity_logs", ["workspace_id", "seq"])
    op.create_index("ix_activity_logs_type", "activity_logs", ["workspace_id", "activity_type", "seq"])
