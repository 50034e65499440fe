"""How often an agent gave a message back without an outcome."""

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Bring the schema forward. What was given back before now is not known, and counts for nothing."""
    # In the words of both engines, and without writing the table anew.
    op.execute("ALTER TABLE messages ADD COLUMN releases INTEGER DEFAULT '0' NOT NULL")
