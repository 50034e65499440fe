"""Plugins as the store keeps them: who has which, what each organisation pinned, allows and trusts."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True)
class InstalledPlugin:
    """A row of `workspace_plugins`: what a workspace has, or what its agent reported.

    `signer` is the trusted key that signed it, empty when none did. `about` is what its manifest says of it,
    `ledger` the digests and warnings of the installation.
    """

    workspace_id: str
    org_id: str
    name: str
    source: str
    state: str
    created_at: datetime
    installed_at: datetime
    version: str = ""
    resolved_ref: str = ""
    sha256: str = ""
    signer: str = ""
    about: dict[str, Any] = field(default_factory=dict[str, Any])
    ledger: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class PinnedSource:
    """A row of `plugin_locks`: what a source stood for when the organisation first used it."""

    org_id: str
    source: str
    resolved: str
    # What the source named: a commit, a tag or a branch.
    kind: str
    name: str
    version: str
    content_sha256: str
    manifest_sha256: str
    archive_sha256: str
    signed_by: list[str]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class PublisherKey:
    """A key whose signatures an organisation trusts, for the plugins that its globs name."""

    key_id: str
    key: str
    name: str
    allow: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class RevokedList:
    """What no workspace of the platform may install any more. A newer list has a larger version."""

    version: int
    updated_at: datetime
    updated_by: str
    body: dict[str, Any]


class Plugins(Protocol):
    """Verbs on plugins."""

    def installed(self, workspace_id: str) -> list[InstalledPlugin]:
        """What a workspace has, by name."""
        ...

    def get(self, workspace_id: str, name: str) -> InstalledPlugin | None:
        """One plugin of a workspace."""
        ...

    def put(self, plugin: InstalledPlugin) -> None:
        """Keep what a workspace has, over an older version of the same name."""
        ...

    def delete(self, workspace_id: str, name: str) -> bool:
        """Forget a plugin; False when there was none."""
        ...

    def pinned(self, org_id: str, source: str) -> PinnedSource | None:
        """What the organisation pinned a source to."""
        ...

    def pin_count(self, org_id: str) -> int:
        """How many sources the organisation has pinned."""
        ...

    def pin(self, pinned: PinnedSource) -> None:
        """Pin a source, over what it was pinned to before."""
        ...

    def allowlist(self, org_id: str) -> list[str]:
        """What the organisation allows, in the order it was written; nothing means everything."""
        ...

    def put_allowlist(self, org_id: str, entries: list[str], enabled_by: str, now: datetime) -> None:
        """Write the list anew."""
        ...

    def keys(self, org_id: str) -> list[PublisherKey]:
        """The keys that the organisation trusts, in the order they were written."""
        ...

    def put_keys(self, org_id: str, keys: list[PublisherKey], now: datetime) -> None:
        """Write the keys anew."""
        ...

    def revocations(self) -> RevokedList | None:
        """The newest list; None before the first one."""
        ...

    def put_revocations(self, revoked: RevokedList) -> None:
        """Keep a newer list."""
        ...
