"""What a runtime and an adaptor say to each other."""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeAlias, runtime_checkable

from molecule_plugin.ledger import InstallLedger
from molecule_plugin.plugin_layout import SKILLS_SUBDIR

__all__ = [
    "DEFAULT_MEMORY_FILENAME",
    "PLUGINS_SUBDIR",
    "SKILLS_SUBDIR",
    "AdaptorSource",
    "InstallContext",
    "InstallResult",
    "PluginAdaptor",
    "SetupEnv",
]

DEFAULT_MEMORY_FILENAME = "CLAUDE.md"
PLUGINS_SUBDIR = "plugins"

SetupEnv: TypeAlias = Collection[str]
"""Environment variables approved for `setup.sh`: names to be taken from ours, or a mapping with values."""


def _ignore(_name: str, _thing: object) -> None:
    """The hook of a runtime that registers nothing while it runs."""


@dataclass
class InstallContext:
    """Where an adaptor installs, and what the runtime lets it do there."""

    configs_dir: Path
    workspace_id: str
    runtime: str
    plugin_root: Path
    memory_filename: str = DEFAULT_MEMORY_FILENAME
    register_tool: Callable[[str, Callable[..., object]], None] = _ignore
    register_subagent: Callable[[str, dict[str, object]], None] = _ignore
    append_to_memory: Callable[[str, str], None] = _ignore
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("molecule_plugin"))
    ledger: InstallLedger | None = None
    run_setup: bool = True
    setup_env: SetupEnv = ()


@dataclass
class InstallResult:
    """What an adaptor did; `files_written` are POSIX paths relative to the configs directory."""

    plugin_name: str
    runtime: str
    source: str
    files_written: list[str] = field(default_factory=list[str])
    tools_registered: list[str] = field(default_factory=list[str])
    subagents_registered: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])


@runtime_checkable
class PluginAdaptor(Protocol):
    """Installs a plugin into one runtime and removes it again.

    Both calls may be repeated: installing what is there changes nothing, and uninstalling works after an
    install that failed.
    """

    plugin_name: str
    runtime: str

    async def install(self, ctx: InstallContext) -> InstallResult:
        """Install from `ctx.plugin_root`; an exception undoes the whole install."""
        ...

    async def uninstall(self, ctx: InstallContext) -> None:
        """Take back what `install` did."""
        ...


class AdaptorSource:
    """Where an adaptor was found."""

    REGISTRY: Final = "registry"
    PLUGIN: Final = "plugin"
    RAW_DROP: Final = "raw_drop"
