"""Claims: the first use of a token claims its workspace, and enrolment tokens know what they may yield."""

import sqlalchemy as sa
from alembic import op

from molecule_platform.storage.columns import UtcTime

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Bring the schema forward.

    The ids of the workspaces that are here were shown to everybody, so they prove nothing: nobody claims
    those any more, and their tokens, or new enrolment tokens, let their agents in.
    """
    op.execute("""
        UPDATE workspaces SET claimed_at = (
            SELECT MIN(last_used_at) FROM tokens WHERE tokens.workspace_id = workspaces.id
        ) WHERE claimed_at IS NULL
    """)
    op.execute("UPDATE workspaces SET claim_until = NULL")
    # Those that were issued before are void: what their issuers could mint was not written down.
    op.drop_table("enrolment_tokens")
    op.create_table(
        "enrolment_tokens",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires_at", UtcTime(), nullable=False),
        sa.Column("token_expires_at", UtcTime(), nullable=True),
        sa.Column("used_at", UtcTime(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["orgs.id"], name=op.f("fk_enrolment_tokens_org_id")),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_enrolment_tokens_workspace_id")
        ),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_enrolment_tokens")),
    )
