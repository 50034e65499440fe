"""A running task is folded from its log: its row is small, and knows its artifacts."""

import hashlib
import json
from typing import Any, cast

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Bring the schema forward."""
    columns = [("artifact_bytes", sa.BigInteger(), "0"), ("report_lease", sa.Text(), "")]
    columns += [("report_number", sa.Integer(), "0"), ("report_seq", sa.Integer(), "0")]
    for name, kind, default in columns:
        op.add_column("tasks", sa.Column(name, kind, nullable=False, server_default=default))
    op.create_table(
        "task_artifacts",
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("artifact_hash", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id", "tenant", "task_id"],
            ["tasks.workspace_id", "tasks.tenant", "tasks.id"],
            name=op.f("fk_task_artifacts_workspace_id_tenant_task_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "workspace_id", "tenant", "task_id", "artifact_hash", name=op.f("pk_task_artifacts")
        ),
        sqlite_with_rowid=False,
    )
    _find_artifacts()
    # The log of a task that is not over is complete, so its snapshot is not needed any more.
    op.execute("UPDATE tasks SET snapshot = NULL, snapshot_seq = 0 WHERE finished_at IS NULL")


def _find_artifacts() -> None:
    """Write down the artifacts of the tasks that are not over, and their size."""
    connection = op.get_bind()
    names: list[str] = ["workspace_id", "tenant", "task_id", "artifact_hash"]
    found = sa.table("task_artifacts", *map(sa.column, names))
    task = sa.table(
        "tasks", *map(sa.column, ("workspace_id", "tenant", "id", "finished_at", "artifact_bytes"))
    )
    event = sa.table(
        "message_events",
        *map(sa.column, ("workspace_id", "tenant", "task_id", "seq", "kind")),
        sa.column("payload", sa.LargeBinary),
    )
    running = sa.select(task.c.workspace_id, task.c.tenant, task.c.id).where(task.c.finished_at.is_(None))
    for key in connection.execute(running).all():
        mine = sa.and_(event.c.workspace_id == key[0], event.c.tenant == key[1], event.c.task_id == key[2])
        told = sa.select(event.c.payload).where(mine, event.c.kind.in_(("task", "artifact")))
        hashes: set[str] = set()
        size = 0
        for (payload,) in connection.execute(told.order_by(event.c.seq)):
            size += len(payload)
            hashes |= {_hash(name) for name in _artifacts_in(payload)}
        rows = [dict(zip(names, (*key, one), strict=True)) for one in sorted(hashes)]
        if rows:
            connection.execute(sa.insert(found), rows)
        this = (task.c.workspace_id == key[0]) & (task.c.tenant == key[1]) & (task.c.id == key[2])
        connection.execute(sa.update(task).where(this).values(artifact_bytes=size))


def _artifacts_in(payload: bytes) -> list[str]:
    try:
        event: Any = json.loads(payload)
    except (ValueError, RecursionError):
        return []
    # In 1.0 an event has one member, its body; in 0.3 it is the body itself.
    members = _object(event)
    artifacts: list[dict[str, Any]] = []
    for body in (members, *map(_object, members.values())):
        listed: list[Any] = body["artifacts"] if isinstance(body.get("artifacts"), list) else []
        artifacts += map(_object, [body.get("artifact"), *listed])
    return [one["artifactId"] for one in artifacts if isinstance(one.get("artifactId"), str)]


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _hash(artifact_id: str) -> str:
    return hashlib.blake2b(artifact_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
