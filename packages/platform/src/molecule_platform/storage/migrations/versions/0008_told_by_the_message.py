"""How a message ended is told by the message itself, and no longer written a second time."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Bring the schema forward."""
    also = sa.Column("also_told", sa.Boolean(), server_default=sa.false(), nullable=False)
    op.add_column("message_transitions", also)
