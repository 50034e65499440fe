"""The plugins of a workspace, found and verified: their rules, prompt fragments and skills.

What a plugin is, `molecule_plugin` says. A plugin that cannot be used is left out with a warning and never
stops the start of a workspace.
"""

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from molecule_wire import jsontext
from molecule_wire.exceptions import PluginError

if TYPE_CHECKING:
    from molecule_plugin.lock import LockEntry

PLUGINS_FOLDER = "plugins"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoadedPlugin:
    """One plugin; `trusted` lets the tools of its skills run in this process."""

    name: str
    path: Path
    version: str = ""
    description: str = ""
    trusted: bool = False
    rules: tuple[str, ...] = ()
    prompt_fragments: tuple[str, ...] = ()

    @property
    def skills_dir(self) -> Path:
        """The folder of its skills, which need not be there."""
        return self.path / "skills"


@dataclass
class LoadedPlugins:
    """All usable plugins, and what they bring together; `skill_dirs` are their `skills` folders."""

    rules: list[str] = field(default_factory=list[str])
    prompt_fragments: list[str] = field(default_factory=list[str])
    skill_dirs: list[str] = field(default_factory=list[str])
    plugin_names: list[str] = field(default_factory=list[str])
    plugins: list[LoadedPlugin] = field(default_factory=list[LoadedPlugin])

    def add(self, plugin: LoadedPlugin) -> None:
        """Take a plugin in."""
        self.rules += plugin.rules
        self.prompt_fragments += plugin.prompt_fragments
        if plugin.skills_dir.is_dir():
            self.skill_dirs.append(str(plugin.skills_dir))
        self.plugin_names.append(plugin.name)
        self.plugins.append(plugin)


@dataclass(frozen=True)
class _Lock:
    entries: "dict[str, LockEntry]"
    trusted: frozenset[str]


def load_plugins(
    workspace_plugins_dir: str | Path | None = None,
    shared_plugins_dir: str | Path | None = None,
    *,
    only: Collection[str] = (),
) -> LoadedPlugins:
    """Load the plugins of a workspace, then the shared ones whose names it has not; `only` names the active.

    A plugin that `plugins.lock` beside the workspace's folder pins must be what is pinned. When that file is
    damaged nothing can be verified, and no plugin is loaded.
    """
    loaded = LoadedPlugins()
    folders = [Path(folder) for folder in (workspace_plugins_dir, shared_plugins_dir) if folder]
    try:
        lock = (
            _read_lock(Path(workspace_plugins_dir).parent)
            if workspace_plugins_dir
            else _Lock({}, frozenset())
        )
    except (PluginError, OSError) as problem:
        log.error("no plugin is loaded: %s", problem)
        return loaded
    for path in _plugin_folders(folders):
        if only and path.name not in only:
            continue
        try:
            loaded.add(_load_plugin(path, lock))
        except (PluginError, OSError, ValueError) as problem:
            log.warning("plugin %s is left out: %s", path.name, problem)
    return loaded


def _read_lock(configs_dir: Path) -> _Lock:
    """What is pinned, after an install that was killed has been undone."""
    from molecule_plugin.configs import Configs
    from molecule_plugin.lock import LOCK_FILE, read_lock

    Configs(configs_dir).repair()
    entries = read_lock(configs_dir / LOCK_FILE)
    return _Lock(entries, _trusted(configs_dir / LOCK_FILE) if entries else frozenset())


def _trusted(lock_file: Path) -> frozenset[str]:
    """The plugins whose entry says `"trusted": true`, which only the owner of the workspace writes."""
    shape = jsontext.decode(lock_file.read_bytes())
    plugins = shape.get("plugins") if isinstance(shape, dict) else None
    named = plugins if isinstance(plugins, dict) else {}
    return frozenset(
        name for name, entry in named.items() if isinstance(entry, dict) and entry.get("trusted") is True
    )


def _plugin_folders(folders: list[Path]) -> Iterator[Path]:
    """The folders of plugins, sorted within each place; the first of a name wins, hidden ones are none."""
    seen: set[str] = set()
    for folder in folders:
        if not folder.is_dir():
            continue
        for path in sorted(folder.iterdir()):
            if path.is_dir() and not path.name.startswith(".") and path.name not in seen:
                seen.add(path.name)
                yield path


def _load_plugin(path: Path, lock: _Lock) -> LoadedPlugin:
    from molecule_plugin import lock as locks
    from molecule_plugin.memory import shipped_blocks
    from molecule_plugin.names import check_name
    from molecule_plugin.plugin_manifest import DEFAULT_VERSION, read_manifest

    name = check_name(path.name)
    manifest = read_manifest(path)
    version = manifest.version if manifest else DEFAULT_VERSION
    entry = lock.entries.get(name)
    if entry is not None:
        found = locks.describe(path, version=version, source=entry.source, resolved=entry.resolved)
        locks.check(name, entry, found)
    blocks = shipped_blocks(path, name, lambda warning: log.warning("plugin %s: %s", name, warning))
    return LoadedPlugin(
        name,
        path,
        version,
        manifest.description if manifest else "",
        entry is not None and name in lock.trusted,
        tuple(block.prose for block in blocks if block.name.startswith("rule/")),
        tuple(block.prose for block in blocks if block.name.startswith("fragment/")),
    )
