"""Cards: whether the signatures that agents bring hold."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Bring the schema forward. Signatures that nobody has looked at count as unverified.

    So does what only looks like them; the agent's next register puts that right.
    """
    # In the words of both engines: a check that came later would make SQLite write the whole table anew.
    op.execute("""
        ALTER TABLE workspaces ADD COLUMN card_signature TEXT DEFAULT 'unsigned' NOT NULL
        CONSTRAINT ck_workspaces_card_signature_known
        CHECK (card_signature IN ('unsigned', 'verified', 'unverified'))
    """)
    op.execute("""
        UPDATE workspaces SET card_signature = 'unverified'
        WHERE CAST(agent_card AS TEXT) LIKE '%"signatures"%'
    """)
