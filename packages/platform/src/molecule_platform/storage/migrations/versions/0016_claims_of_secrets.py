"""A workspace knows whether its claim gives a token that reads secrets."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Bring the schema forward: a claim gives what the first token of the workspace gave."""
    column = sa.Column("claim_reads_secrets", sa.Boolean(), nullable=False, server_default=sa.false())
    op.add_column("workspaces", column)
    op.execute("""
        UPDATE workspaces SET claim_reads_secrets = TRUE WHERE (
            SELECT CAST(scopes AS TEXT) FROM tokens WHERE tokens.workspace_id = workspaces.id
            ORDER BY created_at, id LIMIT 1
        ) LIKE '%"workspace"%'
    """)
