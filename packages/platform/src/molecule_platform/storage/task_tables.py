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
from molecule_platform.storage import catalogue
from molecule_platform.storage.columns import Json, UtcTime, Words, one_of

tasks = Table(
    "tasks",
    catalogue.metadata,
    Column("workspace_id", Words, ForeignKey("workspaces.id"), primary_key=True),
    Column("tenant", Words, primary_key=True),
    Column("id", Words, primary_key=True),
    catalogue.org(),
    Column("owner", Words, nullable=False),
    Column("context_id", Words, nullable=False),
    Column("message_id", Words, nullable=False),
    Column("is_agents", Boolean, nullable=False),
    Column("agent_task_id", Words),
    Column("state", Words, nullable=False),
    Column("status_at", UtcTime, nullable=False),
    Column("last_seq", Integer, nullable=False),
    # Who may append: a dispatch under its lease, or a follower. Whoever reads on takes the place of the last.
    Column("reader", Words, nullable=False),
    # The whole task as 1.0 JSON, once it is over. Until then the row stays small: every event updates it.
    Column("snapshot", LargeBinary),
    Column("snapshot_seq", Integer, nullable=False),
    # Bytes of the artifacts in the log; bounded while the task runs.
    Column("artifact_bytes", BigInteger, nullable=False, server_default="0"),
    # The newest report of an inbox lease: its lease, its number there and the event it ended with.
    Column("report_lease", Words, nullable=False, server_default=""),
    Column("report_number", Integer, nullable=False, server_default="0"),
    Column("report_seq", Integer, nullable=False, server_default="0"),
    # When to ask the agent again how a task without an open message does.
    Column("look_at", UtcTime),
    Column("looks", Integer, nullable=False),
    Column("watchers", Integer, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    catalogue.created_at(),
    Column("finished_at", UtcTime),
    Index("ix_tasks_list", "workspace_id", "owner", "status_at", "id"),
    Index("ix_tasks_finished", "finished_at"),
    Index("ix_tasks_named", "id"),
)
catalogue.where_given("ix_tasks_agent_task", tasks.c.agent_task_id, tasks.c.workspace_id)
catalogue.where_given("ix_tasks_look", tasks.c.look_at)

# One row for each artifact of a task: a chunk looks up whether its artifact was begun, without a fold.
task_artifacts = Table(
    "task_artifacts",
    catalogue.metadata,
    Column("workspace_id", Words, primary_key=True),
    Column("tenant", Words, primary_key=True),
    Column("task_id", Words, primary_key=True),
    # A digest of the agent's own id, which may be long.
    Column("artifact_hash", Words, primary_key=True),
    ForeignKeyConstraint(
        ["workspace_id", "tenant", "task_id"],
        ["tasks.workspace_id", "tasks.tenant", "tasks.id"],
        ondelete="CASCADE",
    ),
    sqlite_with_rowid=False,
)

push_configs = Table(
    "push_configs",
    catalogue.metadata,
    Column("id", Words, primary_key=True),
    catalogue.org(),
    catalogue.workspace(),
    Column("tenant", Words, nullable=False),
    Column("task_id", Words, nullable=False),
    Column("config_id", Words, nullable=False),
    Column("owner", Words, nullable=False),
    Column("dialect", Words, nullable=False),
    Column("url", Words, nullable=False),
    # Token and authentication, sealed together.
    Column("secret_sealed", Words),
    # What the client registered beside these, as it came.
    Column("config", Json, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("disabled_at", UtcTime),
    catalogue.created_at(),
    UniqueConstraint("workspace_id", "tenant", "task_id", "config_id"),
)

outbox = Table(
    "outbox",
    catalogue.metadata,
    Column("push_config_id", Words, ForeignKey("push_configs.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    # The delivery's own name, the same on every try.
    Column("id", Words, primary_key=True),
    # No foreign key: the config vouches for its organisation.
    Column("org_id", Words, nullable=False),
    Column("kind", Words, nullable=False),
    Column("attempts", Integer, nullable=False),
    # Empty while an earlier event of the same config waits; the end of the lease while a replica sends it.
    Column("next_attempt_at", UtcTime),
    Column("lease_owner", Words),
    catalogue.created_at(),
    # Every event of a watched task is written here too: one tree is all that it costs.
    sqlite_with_rowid=False,
)
catalogue.where_given("ix_outbox_due", outbox.c.next_attempt_at)

delegations = Table(
    "delegations",
    catalogue.metadata,
    Column("id", Words, primary_key=True),
    # Where the log stood when it was made; ids of recorded ones are the agents' own and have no order.
    Column("seq", BigInteger, nullable=False),
    catalogue.org(),
    Column("source", Words, nullable=False),
    # The workspace that delegates, or in whose name a person does.
    Column("source_id", Words, nullable=False),
    Column("target_id", Words, ForeignKey("workspaces.id"), nullable=False),
    Column("task", Words, nullable=False),
    Column("body_hash", Words, nullable=False),
    # Given up to a new try of a delegation that has failed, and after a week to any other.
    Column("idempotency_key", Words),
    Column("message_id", Words),
    Column("parent_id", Words),
    Column("root_id", Words, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("chain", Json, nullable=False),
    # On the root: how many delegations there are below it, itself included.
    Column("calls", Integer, nullable=False),
    Column("deadline_at", UtcTime, nullable=False),
    Column("deliverables", Json, nullable=False),
    Column("context", Json),
    Column("report", Words, nullable=False),
    Column("status", Words, nullable=False),
    Column("outcome", Words),
    Column("result", Json),
    Column("error", Json),
    Column("missing", Json),
    Column("recorded", Boolean, nullable=False),
    Column("retry_of", Words),
    Column("attempts", Integer, nullable=False),
    catalogue.created_at(),
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
catalogue.where_given("ix_delegations_key", delegations.c.idempotency_key, delegations.c.source, unique=True)
catalogue.where_given("ix_delegations_parent", delegations.c.parent_id)
catalogue.where_given("ix_delegations_message", delegations.c.message_id)

delegation_evidence = Table(
    "delegation_evidence",
    catalogue.metadata,
    Column("id", Words, primary_key=True),
    catalogue.org(),
    Column(
        "delegation_id",
        Words,
        ForeignKey("delegations.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    Column("deliverable", Words, nullable=False),
    Column("kind", Words, nullable=False),
    Column("uri", Words),
    Column("text", Words),
    Column("sha256", Words),
    Column("media_type", Words),
    Column("note", Words),
    Column("by", Words, nullable=False),
    catalogue.created_at(),
)
