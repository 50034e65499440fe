"""A token knows the person with whom it ends."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Bring the schema forward."""
    for table in ("tokens", "enrolment_tokens"):
        op.add_column(table, sa.Column("ends_with", sa.Text(), nullable=False, server_default=""))
    # What has a recovery secret came with a workspace or with a registration, and is the agent's.
    op.execute("""
        UPDATE tokens SET ends_with = created_by
        WHERE recovery_hash IS NULL AND created_by NOT LIKE 'workspace:%'
    """)
    op.execute("UPDATE enrolment_tokens SET ends_with = created_by")
    for table in ("tokens", "enrolment_tokens"):
        _follow_minters(table)


def _follow_minters(name: str) -> None:
    """Put in the place of a token, or of the session exchanged for it, whom it ends with, up to a person."""
    table = sa.table(name, sa.column("ends_with", sa.Text))
    minter = sa.table("tokens", sa.column("id", sa.Text), sa.column("ends_with", sa.Text)).alias("minter")
    names = (sa.literal("org-token:") + minter.c.id, sa.literal("user:") + minter.c.id)
    above = sa.select(minter.c.ends_with).where(table.c.ends_with.in_(names)).correlate(table)
    follow = sa.update(table).values(ends_with=above.scalar_subquery()).where(above.exists())
    while op.get_bind().execute(follow).rowcount:
        pass
