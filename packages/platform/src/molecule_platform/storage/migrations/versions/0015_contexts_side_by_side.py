"""Messages are found by their context first: new contexts are the newest, and are written side by side."""

from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Bring the schema forward."""
    op.drop_index("ix_messages_context", table_name="messages")
    op.create_index("ix_messages_context", "messages", ["context_id", "target_id", "caller", "seq"])
