"""The first schema, as SQL for each engine."""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0001_initial"
down_revision = None


def upgrade() -> None:
    """Create every table, and the counters at zero."""
    script = Path(__file__).with_name(f"0001_initial.{op.get_bind().dialect.name}.sql")
    for statement in script.read_text(encoding="utf-8").split(";\n"):
        if statement.strip():
            op.get_bind().execute(sa.text(statement.replace(":", "\\:")))
