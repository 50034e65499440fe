"""Tables of what messages are about: tasks, who is told of them, and delegations."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Table,
    UniqueConstraint,
)

from molecule_platform.domain import delegations as delegation_rules
from molecule_platform.storage import metadata as storage_metadata
from molecule_platform.storage.columns import Json, StringList, UtcTime, one_of

tasks = Table(
    "tasks",
    storage_metadata.metadata,
    Column("workspace_id", StringList, ForeignKey("workspaces.id"), primary_key=True),
    Column("tenant", StringList, primary_key=True),
    Column("id", StringList, primary_key=True),
    storage_metadata.org(),
    Column("owner", StringList, nullable=False),
    Column("context_id", StringList, nullable=False),
    Column("message_id", StringList, nullable=False),
    Column("is_agents", Boolean, nullable=False),
    Column("agent_task_id", StringList),
    Column("state", StringList, nullable=False),
    Column("status_at", UtcTime, nullable=False),
    Column("last_seq", Integer, nullable=False),
    # Who may append: a dispatch under its lease, or a follower. Whoever reads on takes the place of the last.
    Column("reader", StringList, nullable=False),
    # The whole task as 1.0 JSON, once it is over. Until then the row stays small: every event updates it.
    Column("snapshot", LargeBinary),
    Column("snapshot_seq", Integer, nullable=False),
    # Bytes of the artifacts in the log; bounded while the task runs.
    Column("artifact_bytes", BigInteger, nullable=False, server_default="0"),
    # The newest report of an inbox lease: its lease, its number there and the event it ended with.
    Column("report_lease", StringList, nullable=False, server_default=""),
    Column("report_number", Integer, nullable=False, server_default="0"),
    Column("report_seq", Integer, nullable=False, server_default="0"),
    # When to ask the agent again how a task without an open message does.
    Column("look_at", UtcTime),
    Column("looks", Integer, nullable=False),
    Column("watchers", Integer, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    storage_metadata.created_at(),
    Column("finished_at", UtcTime),
    Index("ix_tasks_list", "workspace_id", "owner", "status_at", "id"),
    Index("ix_tasks_finished", "finished_at"),
    Index("ix_tasks_named", "id"),
)
storage_metadata.where_given("ix_tasks_agent_task", tasks.c.agent_task_id, tasks.c.workspace_id)
storage_metadata.where_given("ix_tasks_look", tasks.c.look_at)

# One row for each artifact of a task: a chunk looks up whether its artifact was begun, without a fold.
task_artifacts = Table(
    "task_artifacts",
    storage_metadata.metadata,
    Column("workspace_id", StringList, primary_key=True),
    Column("tenant", StringList, primary_key=True),
    Column("task_id", StringList, primary_key=True),
    # A digest of the agent's own id, which may be long.
    Column("artifact_hash", StringList, primary_key=True),
    ForeignKeyConstraint(
        ["workspace_id", "tenant", "task_id"],
        ["tasks.workspace_id", "tasks.tenant", "tasks.id"],
        ondelete="CASCADE",
    ),
    sqlite_with_rowid=False,
)

push_configs = Table(
    "push_configs",
    storage_metadata.metadata,
    Column("id", StringList, primary_key=True),
    storage_metadata.org(),
    storage_metadata.workspace(),
    Column("tenant", StringList, nullable=False),
    Column("task_id", StringList, nullable=False),
    Column("config_id", StringList, nullable=False),
    Column("owner", StringList, nullable=False),
    Column("dialect", StringList, nullable=False),
    Column("url", StringList, nullable=False),
    # Token and authentication, sealed together.
    Column("secret_sealed", StringList),
    # What the client registered beside these, as it came.
    Column("config", Json, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("disabled_at", UtcTime),
    storage_metadata.created_at(),
    UniqueConstraint("workspace_id", "tenant", "task_id", "config_id"),
)

outbox = Table(
    "outbox",
    storage_metadata.metadata,
    Column("push_config_id", StringList, ForeignKey("push_configs.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    # The delivery's own name, the same on every try.
    Column("id", StringList, primary_key=True),
    # No foreign key: the config vouches for its organisation.
    Column("org_id", StringList, nullable=False),
    Column("kind", StringList, nullable=False),
    Column("attempts", Integer, nullable=False),
    # Empty while an earlier event of the same config waits; the end of the lease while a replica sends it.
    Column("next_attempt_at", UtcTime),
    Column("lease_owner", StringList),
    storage_metadata.created_at(),
    # Every event of a watched task is written here too: one tree is all that it costs.
    sqlite_with_rowid=False,
)
storage_metadata.where_given("ix_outbox_due", outbox.c.next_attempt_at)

delegations = Table(
    "delegations",
    storage_metadata.metadata,
    Column("id", StringList, primary_key=True),
    # Where the log stood when it was made; ids of recorded ones are the agents' own and have no order.
    Column("seq", BigInteger, nullable=False),
    storage_metadata.org(),
    Column("source", StringList, nullable=False),
    # The workspace that delegates, or in whose name a person does.
    Column("source_id", StringList, nullable=False),
    Column("target_id", StringList, ForeignKey("workspaces.id"), nullable=False),
    Column("task", StringList, nullable=False),
    Column("body_hash", StringList, nullable=False),
    # Given up to a new try of a delegation that has failed, and after a week to any other.
    Column("idempotency_key", StringList),
    Column("message_id", StringList),
    Column("parent_id", StringList),
    Column("root_id", StringList, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("chain", Json, nullable=False),
    # On the root: how many delegations there are below it, itself included.
    Column("calls", Integer, nullable=False),
    Column("deadline_at", UtcTime, nullable=False),
    Column("deliverables", Json, nullable=False),
    Column("context", Json),
    Column("report", StringList, nullable=False),
    Column("status", StringList, nullable=False),
    Column("outcome", StringList),
    Column("result", Json),
    Column("error", Json),
    Column("missing", Json),
    Column("recorded", Boolean, nullable=False),
    Column("retry_of", StringList),
    Column("attempts", Integer, nullable=False),
    storage_metadata.created_at(),
    Column("updated_at", UtcTime, nullable=False),
    Column("dispatched_at", UtcTime),
    Column("finished_at", UtcTime),
    Column("reported_at", UtcTime),
    one_of("status", delegation_rules.STATUSES),
    one_of("outcome", delegation_rules.OUTCOMES),
    Index("ix_delegations_of_source", "source_id", "seq"),
    Index("ix_delegations_of_target", "target_id", "seq"),
    Index("ix_delegations_deadline", "status", "deadline_at"),
    Index("ix_delegations_root", "root_id"),
    Index("ix_delegations_finished", "finished_at"),
)
storage_metadata.where_given(
    "ix_delegations_key", delegations.c.idempotency_key, delegations.c.source, unique=True
)
storage_metadata.where_given("ix_delegations_parent", delegations.c.parent_id)
storage_metadata.where_given("ix_delegations_message", delegations.c.message_id)

delegation_evidence = Table(
    "delegation_evidence",
    storage_metadata.metadata,
    Column("id", StringList, primary_key=True),
    storage_metadata.org(),
    Column(
        "delegation_id",
        StringList,
        ForeignKey("delegations.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    Column("deliverable", StringList, nullable=False),
    Column("kind", StringList, nullable=False),
    Column("uri", StringList),
    Column("text", StringList),
    Column("sha256", StringList),
    Column("media_type", StringList),
    Column("note", StringList),
    Column("by", StringList, nullable=False),
    storage_metadata.created_at(),
)
