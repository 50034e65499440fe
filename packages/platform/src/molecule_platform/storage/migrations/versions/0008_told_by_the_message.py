"""Less to write for each message: what it tells is not written twice, and what it may say is compared."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_KNOWN = {
    ("messages", "status"): ("accepted", "leased", "answered", "failed", "expired", "cancelled"),
    ("messages", "kind"): (
        *("message", "reply", "delegation", "delegation_result"),
        *("schedule", "channel", "system"),
    ),
    ("messages", "lease_kind"): ("dispatch", "inbox", "cursor"),
    ("message_transitions", "kind"): (
        *("accepted", "leased", "retry", "released"),
        *("answered", "failed", "expired", "cancelled"),
    ),
}


def upgrade() -> None:
    """Bring the schema forward."""
    also = sa.Column("also_told", sa.Boolean(), server_default=sa.false(), nullable=False)
    op.add_column("message_transitions", also)
    for table in ("messages", "message_transitions"):
        with op.batch_alter_table(table) as batch:
            for (where, column), values in _KNOWN.items():
                if where == table:
                    name = op.f(f"ck_{table}_{column}_known")
                    batch.drop_constraint(name, type_="check")
                    batch.create_check_constraint(name, " OR ".join(f"{column} = '{v}'" for v in values))
