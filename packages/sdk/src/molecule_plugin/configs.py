"""Where the parts of an install are in a configs directory."""

import contextlib
from collections.abc import Generator
from pathlib import Path

from molecule_plugin import lock
from molecule_plugin.atomic_swap import Change, change, recover
from molecule_plugin.file_lock import INSTALL_WAIT, InstallInProgressError, one_at_a_time
from molecule_plugin.file_writer import InstallWriter
from molecule_plugin.ledger import InstallLedger, OriginalFile, read_ledger, read_ledgers
from molecule_plugin.protocol import PLUGINS_SUBDIR
from molecule_plugin.safe_paths import Root

LEDGERS = ".molecule/plugins"
LOCK_FILE = ".plugins-install.lock"


class Configs:
    """A configs directory; only one install at a time changes it."""

    def __init__(self, directory: Path) -> None:
        self.root = Root(directory)
        self.plugins = self.root.directory / PLUGINS_SUBDIR
        self.ledgers = self.root.directory / LEDGERS
        self.lock_file = self.root.directory / lock.LOCK_FILE

    @contextlib.contextmanager
    def changing(self, wait: float = INSTALL_WAIT) -> Generator[Change]:
        """Change the directory: alone, all or nothing, after repairing what a killed process left."""
        self.root.directory.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(self._mutex, wait), change(self.root.directory, self.plugins) as swap:
            yield swap

    def repair(self) -> bool:
        """Undo an install that was killed, unless one is in progress; true when there was something to undo.

        Call it before reading plugins, for example when a runtime starts.
        """
        if not Change(self.root.directory, self.plugins).left_something():
            return False
        try:
            with one_at_a_time(self._mutex, wait=0):
                return recover(self.root.directory, self.plugins)
        except InstallInProgressError:
            return False

    @property
    def _mutex(self) -> Path:
        return self.root.directory / LOCK_FILE

    def tree(self, name: str) -> Path:
        """The plugin's own directory."""
        return self.plugins / name

    def ledger_file(self, name: str) -> Path:
        """Where the plugin's ledger is kept."""
        return self.ledgers / f"{name}.json"

    def ledger(self, name: str) -> InstallLedger | None:
        """The ledger of an installed plugin."""
        return read_ledger(self.ledger_file(name), self.root)

    def other_ledgers(self, name: str) -> dict[str, InstallLedger]:
        """The ledgers of all other plugins."""
        found = read_ledgers(self.ledgers, self.root)
        found.pop(name, None)
        return found

    def write_lock(self, writer: InstallWriter, entries: dict[str, lock.LockEntry]) -> None:
        """Write `plugins.lock`, remembering what it was."""
        writer.note_before(self.lock_file, OriginalFile(text=_text(self.lock_file)))
        writer.work.change.write(self.lock_file, lock.lock_content(entries))

    def restore_lock(self, writer: InstallWriter, ledger: InstallLedger) -> None:
        """Take the plugin out of `plugins.lock`, or put back what was pinned before it was installed."""
        before = ledger.before.get(lock.LOCK_FILE)
        entries = lock.read_lock(self.lock_file)
        if before is None or ledger.name not in entries:
            return
        original = lock.parse_lock(before.text.encode()) if before.text else {}
        del entries[ledger.name]
        if ledger.name in original:
            entries[ledger.name] = original[ledger.name]
        if entries == original and before.text is None:
            writer.work.change.remove(self.lock_file)
        elif entries == original and before.text is not None:
            writer.write_shared(self.lock_file, before.text.encode())
        else:
            writer.write_shared(self.lock_file, lock.lock_content(entries))


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None
