"""Workspaces: a concurrency limit that nobody set is NULL, and then follows the agent and its kind."""

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Bring the schema forward. A limit of 1, which was the default, counts as one that nobody set."""
    # In the words of both engines: SQLite would write a table anew to let one of its columns be NULL.
    op.execute("ALTER TABLE workspaces RENAME COLUMN max_concurrent_tasks TO former_limit")
    op.execute("ALTER TABLE workspaces ADD COLUMN max_concurrent_tasks INTEGER")
    op.execute("UPDATE workspaces SET max_concurrent_tasks = NULLIF(former_limit, 1)")
    op.execute("ALTER TABLE workspaces DROP COLUMN former_limit")
