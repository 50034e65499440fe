"""Tables of plugins: what workspaces have, and what organisations pinned, allow and trust."""

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, PrimaryKeyConstraint, Table

from molecule_platform.domain import plugins as rules
from molecule_platform.storage import metadata as storage_metadata
from molecule_platform.storage.columns import Json, StringList, UtcTime, one_of

workspace_plugins = Table(
    "workspace_plugins",
    storage_metadata.metadata,
    Column("workspace_id", StringList, ForeignKey("workspaces.id"), nullable=False),
    storage_metadata.org(),
    Column("name", StringList, nullable=False),
    Column("version", StringList, nullable=False),
    Column("source", StringList, nullable=False),
    Column("resolved_ref", StringList, nullable=False),
    Column("sha256", StringList, nullable=False),
    # The trusted key that signed it; empty when none did.
    Column("signer", StringList, nullable=False),
    Column("state", StringList, nullable=False),
    # What its manifest says of it.
    Column("about", Json, nullable=False),
    Column("ledger", Json, nullable=False),
    storage_metadata.created_at(),
    Column("installed_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("workspace_id", "name"),
    one_of("state", rules.STATES),
)

plugin_locks = Table(
    "plugin_locks",
    storage_metadata.metadata,
    storage_metadata.org(),
    Column("source", StringList, nullable=False),
    Column("resolved", StringList, nullable=False),
    # What the source named: a commit, a tag or a branch.
    Column("kind", StringList, nullable=False),
    Column("name", StringList, nullable=False),
    Column("version", StringList, nullable=False),
    Column("content_sha256", StringList, nullable=False),
    Column("manifest_sha256", StringList, nullable=False),
    Column("archive_sha256", StringList, nullable=False),
    Column("signed_by", Json, nullable=False),
    storage_metadata.created_at(),
    Column("updated_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("org_id", "source"),
)

org_plugin_allowlist = Table(
    "org_plugin_allowlist",
    storage_metadata.metadata,
    storage_metadata.org(),
    # A name, a glob, or the beginning of a source.
    Column("plugin", StringList, nullable=False),
    Column("place", Integer, nullable=False),
    Column("enabled_by", StringList, nullable=False),
    storage_metadata.created_at(),
    PrimaryKeyConstraint("org_id", "plugin"),
)

org_plugin_keys = Table(
    "org_plugin_keys",
    storage_metadata.metadata,
    storage_metadata.org(),
    Column("key_id", StringList, nullable=False),
    Column("key", StringList, nullable=False),
    Column("name", StringList, nullable=False),
    Column("allow", Json, nullable=False),
    Column("place", Integer, nullable=False),
    storage_metadata.created_at(),
    PrimaryKeyConstraint("org_id", "key_id"),
)

# Of the whole platform; only added to, so that a version is never taken back.
plugin_revocations = Table(
    "plugin_revocations",
    storage_metadata.metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("updated_at", UtcTime, nullable=False),
    Column("updated_by", StringList, nullable=False),
    Column("body", Json, nullable=False),
)
