"""What was sent for a message is found by that message."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Bring the schema forward."""
    given = sa.text("parent_message_id IS NOT NULL")
    op.create_index(
        "ix_messages_parent", "messages", ["parent_message_id"], sqlite_where=given, postgresql_where=given
    )
