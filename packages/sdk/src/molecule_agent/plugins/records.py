"""What is installed: the ledger of each plugin, and how the files on disk differ from it."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from molecule_plugin import lock
from molecule_plugin.errors import PluginError
from molecule_plugin.file_tree import list_files
from molecule_plugin.file_writer import sha256_of
from molecule_plugin.ledger import InstallLedger, read_ledgers
from molecule_plugin.lock import LockEntry
from molecule_plugin.safe_paths import Root, is_plain_folder

LEDGER_DIRECTORY = ".ledger"


class PluginHome:
    """The directory of an agent, as far as plugins are concerned."""

    def __init__(self, directory: Path) -> None:
        self.root = Root(directory)
        self.directory = self.root.directory
        self.trees = self.directory / "plugins"
        self.lock_file = self.directory / lock.LOCK_FILE

    def tree(self, name: str) -> Path:
        """Where a plugin is."""
        return self.trees / name

    def ledger_file(self, name: str) -> Path:
        """Where its ledger is."""
        return self.directory / LEDGER_DIRECTORY / f"{name}.json"

    def ledgers(self) -> dict[str, InstallLedger]:
        """The ledgers that can be relied on, by plugin."""
        return read_ledgers(self.directory / LEDGER_DIRECTORY, self.root)

    def locked(self) -> dict[str, LockEntry]:
        """What `plugins.lock` pins."""
        return lock.read_lock(self.lock_file)


@dataclass(frozen=True)
class Differences:
    """How a plugin's directory differs from its ledger; POSIX paths below the agent's directory."""

    missing: tuple[str, ...]
    changed: tuple[str, ...]
    added: tuple[str, ...]
    """Neither of the plugin nor made by its `setup.sh`."""

    @property
    def intact(self) -> bool:
        """Whether every file of the plugin is as it was installed."""
        return not self.missing and not self.changed


def differences(home: PluginHome, ledger: InstallLedger) -> Differences:
    """Compare a plugin's directory with its ledger."""
    here = set(_paths(home, ledger.name))
    changed = [
        path
        for path, file in ledger.files.items()
        if path in here and sha256_of(home.root.path(path)) != file.sha256
    ]
    missing = [path for path in ledger.files if path not in here]
    added = [path for path in here - set(ledger.files) if not _made_by_setup(path, ledger)]
    return Differences(tuple(sorted(missing)), tuple(sorted(changed)), tuple(sorted(added)))


def recordable(home: PluginHome, paths: Iterable[Path]) -> tuple[str, ...]:
    """These paths as a ledger names them; those with odd names are left out."""
    return tuple(_recorded(home, paths))


def _recorded(home: PluginHome, paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        with contextlib.suppress(PluginError):
            yield home.root.relative(path)


def _paths(home: PluginHome, name: str) -> Iterator[str]:
    """Every file and link in a plugin's directory, below the agent's directory."""
    tree = home.tree(name)
    if is_plain_folder(tree):
        for folder, _, names in os.walk(tree, followlinks=False):
            yield from (Path(folder, file).relative_to(home.directory).as_posix() for file in names)


def _made_by_setup(path: str, ledger: InstallLedger) -> bool:
    return any(path == made or path.startswith(f"{made}/") for made in ledger.setup.created)


def own_files(home: PluginHome, staging: Path, name: str) -> Iterator[tuple[str, Path, int]]:
    """Each file of a plugin in staging: its path once installed, where it is now, its mode."""
    installed = home.root.relative(home.tree(name))
    for file in list_files(staging):
        yield f"{installed}/{file.path}", staging / file.path, file.mode
