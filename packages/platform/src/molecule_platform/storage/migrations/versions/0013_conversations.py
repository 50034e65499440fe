"""The messages of a conversation are found by their context and its two sides."""

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Bring the schema forward."""
    columns = ["target_id", "context_id", "caller", "seq"]
    op.create_index("ix_messages_context", "messages", columns)
