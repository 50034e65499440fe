"""Where plugins come from: sources that resolve and fetch, and the stock of what was fetched."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from molecule_plugin.digest import Form
from molecule_plugin.limits import Limits


@dataclass(frozen=True)
class SourceSpec:
    """A source as somebody names it; `text` is its one spelling.

    `name_hint` is what its plugin is called unless a manifest says otherwise. It is `unpinned` when it could
    name a version and names none.
    """

    scheme: str
    text: str
    name_hint: str
    unpinned: bool = False


@dataclass(frozen=True)
class Resolved:
    """Exactly one tree of a source.

    `pinned` names it for good, where the source can. `kind` says what the source named: a `commit`, a `tag`,
    a `branch` (its default one, if it named none) or a `folder`. Equal marks mean equal trees.
    """

    spec: SourceSpec
    pinned: str
    name_hint: str
    kind: str
    mark: str


class PluginSource(Protocol):
    """One scheme. It says no with an `ApiError`, or with an error of the plugin SDK."""

    @property
    def scheme(self) -> str:
        """What stands before `://`."""
        ...

    def parse(self, text: str) -> SourceSpec:
        """Read a source of this scheme, without touching anything."""
        ...

    async def resolve(self, spec: SourceSpec) -> Resolved:
        """Find the tree that the source stands for now."""
        ...

    async def fetch(self, resolved: Resolved, dest: Path, limits: Limits, deadline: float) -> None:
        """Put the tree into an empty directory, by a deadline of the event loop's clock."""
        ...


@dataclass(frozen=True)
class StagedPlugin:
    """A plugin that was fetched, read and packed. Nothing is said yet about whether it may be used."""

    name: str
    version: str
    source: str
    resolved: str
    content_sha256: str
    manifest_sha256: str
    archive_sha256: str
    archive: Path
    size: int
    tree: Path
    signature: bytes | None = field(default=None, repr=False)
    about: dict[str, Any] = field(default_factory=dict[str, Any])
    warnings: tuple[str, ...] = ()


class PluginCache(Protocol):
    """Every scheme, and what was fetched: the same tree is fetched once."""

    @property
    def schemes(self) -> list[str]:
        """The schemes that are served, sorted."""
        ...

    def parse(self, text: str) -> SourceSpec:
        """Read a source of any scheme; a bare name is one of the platform's own plugins."""
        ...

    async def resolve(self, spec: SourceSpec) -> Resolved:
        """Find the tree that a source stands for now."""
        ...

    async def staged(self, resolved: Resolved) -> StagedPlugin:
        """The tree, fetched, read and packed, within the caps of the platform."""
        ...

    async def matched(self, staged: StagedPlugin, expected: str) -> Form | None:
        """Which digest of a plugin `expected` is; None when it is none of them."""
        ...

    async def catalogue(self) -> list[StagedPlugin]:
        """The platform's own plugins, by name; what cannot be read is left out."""
        ...
