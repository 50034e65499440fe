"""Indexes that hold only the rows somebody looks for, and lead to them without passing by all others."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_BEFORE = ("repeat", "task_id", "deadline", "agent_task", "reply")
_NOW = (
    ("repeat", ["caller", "target_id", "message_ref", "body_hash"], sa.text("body_hash != ''")),
    ("task", ["task_id", "target_id"], sa.text("task_id != id")),
    ("deadline", ["status", "deadline_at"], sa.text("finished_at IS NULL")),
    ("dead", ["target_id", "status", "seq"], sa.column("dead_letter").is_(sa.true())),
    ("agent_task", ["agent_task_id", "target_id"], sa.text("agent_task_id IS NOT NULL")),
    ("reply", ["reply_hash", "target_id"], sa.text("reply_hash IS NOT NULL")),
)


def upgrade() -> None:
    """Bring the schema forward."""
    for name in _BEFORE:
        op.drop_index(f"ix_messages_{name}", table_name="messages")
    for name, columns, where in _NOW:
        op.create_index(
            f"ix_messages_{name}", "messages", columns, sqlite_where=where, postgresql_where=where
        )
    op.drop_index("ix_activity_logs_list", table_name="activity_logs")
    op.create_index("ix_activity_logs_list", "activity_logs", ["workspace_id", "seq", "activity_type"])
    op.create_index("ix_tasks_named", "tasks", ["id"])
