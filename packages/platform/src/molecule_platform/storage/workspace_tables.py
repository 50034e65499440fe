"""Tables of the house and the tree: replicas, organisations, people, workspaces, credentials, secrets."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    false,
)

from molecule_platform.domain import workspaces as workspace_rules
from molecule_platform.storage import metadata as storage_metadata
from molecule_platform.storage.columns import Json, StringList, UtcTime, one_of

counters = Table(
    "counters",
    storage_metadata.metadata,
    Column("name", StringList, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

replicas = Table(
    "replicas",
    storage_metadata.metadata,
    Column("id", StringList, primary_key=True),
    Column("seen_at", UtcTime, nullable=False),
)

loops = Table(
    "loops",
    storage_metadata.metadata,
    Column("name", StringList, primary_key=True),
    Column("last_tick_at", UtcTime),
    Column("lease_owner", StringList, nullable=False),
    Column("lease_until", UtcTime, nullable=False),
    Column("fence", BigInteger, nullable=False),
)

orgs = Table(
    "orgs",
    storage_metadata.metadata,
    Column("id", StringList, primary_key=True),
    Column("slug", StringList, nullable=False, unique=True),
    Column("name", StringList, nullable=False),
    storage_metadata.created_at(),
)

users = Table(
    "users",
    storage_metadata.metadata,
    Column("name", StringList, primary_key=True),
    Column("platform_admin", Boolean, nullable=False, server_default=false()),
    storage_metadata.created_at(),
)

memberships = Table(
    "memberships",
    storage_metadata.metadata,
    Column("user", StringList, ForeignKey("users.name"), primary_key=True),
    Column("org_id", StringList, ForeignKey("orgs.id"), primary_key=True),
    Column("role", StringList, nullable=False),
    # Of this membership alone: what one organisation does to somebody, another neither feels nor sees.
    Column("disabled", Boolean, nullable=False, server_default=false()),
    Column("last_login_at", UtcTime),
    storage_metadata.created_at(),
    one_of("role", ("viewer", "member", "admin", "owner")),
)

login_codes = Table(
    "login_codes",
    storage_metadata.metadata,
    Column("code_hash", StringList, primary_key=True),
    storage_metadata.org(),
    Column("user", StringList, nullable=False),
    Column("role", StringList, nullable=False),
    storage_metadata.created_at(),
    Column("expires_at", UtcTime, nullable=False),
    Column("used_at", UtcTime),
)

sessions = Table(
    "sessions",
    storage_metadata.metadata,
    Column("token_hash", StringList, primary_key=True),
    storage_metadata.org(),
    Column("user", StringList, nullable=False),
    Column("role", StringList, nullable=False),
    Column("scopes", Json, nullable=False),
    storage_metadata.created_at(),
    Column("expires_at", UtcTime, nullable=False),
    Column("seen_at", UtcTime, nullable=False),
    Column("revoked_at", UtcTime),
    Column("token_id", StringList),
)

stream_tickets = Table(
    "stream_tickets",
    storage_metadata.metadata,
    Column("ticket_hash", StringList, primary_key=True),
    storage_metadata.org(),
    # The digest of the token or session that asked for it: the ticket is good while that one lives.
    Column("credential", StringList, nullable=False),
    storage_metadata.created_at(),
    Column("expires_at", UtcTime, nullable=False),
    Column("used_at", UtcTime),
)

workspaces = Table(
    "workspaces",
    storage_metadata.metadata,
    Column("id", StringList, primary_key=True),
    storage_metadata.org(),
    Column("name", StringList, nullable=False),
    Column("role", StringList, nullable=False),
    Column("tier", Integer, nullable=False),
    Column("status", StringList, nullable=False),
    Column("status_reason", StringList, nullable=False),
    Column("runtime", StringList, nullable=False),
    Column("external", Boolean, nullable=False),
    Column("url", StringList, nullable=False),
    Column("delivery_mode", StringList, nullable=False),
    Column("protocols", Json),
    Column("dispatch_secret_sealed", StringList),
    Column("agent_card", Json),
    Column("card_signature", StringList, nullable=False, server_default="unsigned"),
    Column("parent_id", StringList, ForeignKey("workspaces.id"), index=True),
    Column("visibility", StringList, nullable=False),
    Column("isolated", Boolean, nullable=False),
    Column("awareness_namespace", StringList, nullable=False),
    Column("workspace_dir", StringList),
    Column("workspace_access", StringList, nullable=False),
    Column("budget_limit", BigInteger),
    Column("monthly_spend", BigInteger, nullable=False),
    Column("spend_period", StringList, nullable=False),
    # What the operators set; NULL leaves it to the agent.
    Column("max_concurrent_tasks", Integer),
    Column("hibernation_idle_minutes", Integer),
    Column("capabilities", Json),
    Column("idle_timeout_seconds", Integer),
    Column("runtime_metadata", Json),
    Column("needs_restart", Boolean, nullable=False),
    Column("active_tasks", Integer, nullable=False),
    Column("current_task", StringList, nullable=False),
    Column("last_error_rate", Float, nullable=False),
    Column("last_sample_error", StringList, nullable=False),
    Column("uptime_seconds", Integer, nullable=False),
    Column("last_heartbeat_at", UtcTime),
    Column("liveness_expires_at", UtcTime),
    Column("last_activity_at", UtcTime),
    Column("last_outbound_at", UtcTime),
    Column("claimed_at", UtcTime),
    Column("claim_until", UtcTime),
    Column("claim_reads_secrets", Boolean, nullable=False, server_default=false()),
    Column("removed_at", UtcTime),
    Column("x", Float, nullable=False),
    Column("y", Float, nullable=False),
    Column("collapsed", Boolean, nullable=False),
    Column("provisioning_since", UtcTime),
    Column("provision_attempts", Integer, nullable=False, server_default="0"),
    Column("restart_reason", StringList),
    Column("session_ended_at", UtcTime),
    # The newest start that a replica took on, and which replica that was.
    Column("start_epoch", Integer, nullable=False, server_default="0"),
    Column("started_by", StringList),
    # Processes of this start and of earlier ones may still run, and must end.
    Column("stop_through", Integer, index=True),
    # Why the agent is to be restarted, until that is begun.
    Column("restart_owed", StringList, index=True),
    Column("version", Integer, nullable=False),
    storage_metadata.created_at(),
    Column("updated_at", UtcTime, nullable=False),
    one_of("status", workspace_rules.STATUSES),
    one_of("delivery_mode", workspace_rules.DELIVERY_MODES),
    one_of("visibility", workspace_rules.VISIBILITIES),
    one_of("workspace_access", workspace_rules.WORKSPACE_ACCESS),
    one_of("card_signature", workspace_rules.CARD_SIGNATURES),
    Index("ix_workspaces_org", "org_id", "created_at", "id"),
    Index("ix_workspaces_siblings", "org_id", "parent_id", "created_at", "id"),
    Index("ix_workspaces_liveness", "status", "liveness_expires_at"),
)

# Who stands above whom, at any distance: the tree, laid out so that a page below anyone is one index scan.
lineage = Table(
    "lineage",
    storage_metadata.metadata,
    Column("ancestor_id", StringList, ForeignKey("workspaces.id"), primary_key=True),
    Column("descendant_id", StringList, ForeignKey("workspaces.id"), primary_key=True, index=True),
    Column("distance", Integer, nullable=False),
    # The descendant's, which never changes, so that pages come in the order of creation.
    storage_metadata.created_at(),
    Index("ix_lineage_below", "ancestor_id", "created_at", "descendant_id"),
)

access_grants = Table(
    "access_grants",
    storage_metadata.metadata,
    Column("id", StringList, primary_key=True),
    storage_metadata.org(),
    Column("from_id", StringList, ForeignKey("workspaces.id"), nullable=False, index=True),
    Column("to_id", StringList, ForeignKey("workspaces.id"), nullable=False, index=True),
    Column("bidirectional", Boolean, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
    Column("reason", StringList, nullable=False),
    Column("created_by", StringList, nullable=False),
    Column("revoked_at", UtcTime),
    storage_metadata.created_at(),
)

tokens = Table(
    "tokens",
    storage_metadata.metadata,
    Column("id", StringList, primary_key=True),
    storage_metadata.org(),
    Column("kind", StringList, nullable=False),
    storage_metadata.workspace(nullable=True),
    Column("token_hash", StringList, nullable=False, unique=True),
    Column("prefix", StringList, nullable=False),
    Column("name", StringList, nullable=False),
    Column("scopes", Json, nullable=False),
    Column("expires_at", UtcTime),
    Column("created_by", StringList, nullable=False),
    Column("last_used_at", UtcTime),
    Column("revoked_at", UtcTime),
    Column("revoke_reason", StringList),
    Column("recovery_hash", StringList),
    Column("ends_with", StringList, nullable=False, server_default=""),
    storage_metadata.created_at(),
    one_of("kind", ("workspace", "org")),
    Index("ix_tokens_workspace", "workspace_id"),
)

enrolment_tokens = Table(
    "enrolment_tokens",
    storage_metadata.metadata,
    Column("token_hash", StringList, primary_key=True),
    storage_metadata.org(),
    storage_metadata.workspace(),
    Column("scopes", Json, nullable=False),
    Column("created_by", StringList, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
    Column("token_expires_at", UtcTime),
    Column("used_at", UtcTime),
    Column("ends_with", StringList, nullable=False, server_default=""),
    storage_metadata.created_at(),
)

secrets = Table(
    "secrets",
    storage_metadata.metadata,
    Column("org_id", StringList, ForeignKey("orgs.id"), primary_key=True),
    # Empty for a secret of the whole organisation, so that the key stays unique on both dialects.
    Column("workspace_id", StringList, primary_key=True),
    Column("key", StringList, primary_key=True),
    Column("nonce", LargeBinary, nullable=False),
    Column("ciphertext", LargeBinary, nullable=False),
    Column("key_id", StringList, nullable=False),
    storage_metadata.created_at(),
    Column("updated_at", UtcTime, nullable=False),
)

signing_keys = Table(
    "signing_keys",
    storage_metadata.metadata,
    Column("kid", StringList, primary_key=True),
    Column("alg", StringList, nullable=False),
    Column("public", Json, nullable=False),
    Column("private_sealed", StringList, nullable=False),
    storage_metadata.created_at(),
    Column("retired_at", UtcTime),
)

idempotency = Table(
    "idempotency",
    storage_metadata.metadata,
    Column("scope", StringList, primary_key=True),
    Column("key", StringList, primary_key=True),
    Column("body_hash", StringList, nullable=False),
    Column("replica", StringList, nullable=False),
    Column("status", Integer),
    # Sealed, because an answer may show a token once.
    Column("answer_sealed", StringList),
    storage_metadata.created_at(),
    Column("expires_at", UtcTime, nullable=False, index=True),
)

security_log = Table(
    "security_log",
    storage_metadata.metadata,
    Column("id", StringList, primary_key=True),
    storage_metadata.org(),
    Column("principal", StringList, nullable=False),
    Column("action", StringList, nullable=False),
    Column("object", StringList, nullable=False),
    Column("request_id", StringList, nullable=False),
    storage_metadata.created_at(),
    Index("ix_security_log_org", "org_id", "id"),
)
