"""Taking back what a ledger says a plugin did; what somebody changed since stays, with a warning."""

from collections.abc import Iterable

from molecule_plugin.claude_layer import remove_settings
from molecule_plugin.fences import Block
from molecule_plugin.ledger import InstallLedger, LedgerFile
from molecule_plugin.memory import remove_memory
from molecule_plugin.placing import Desk, sha256_of
from molecule_plugin.protocol import PLUGINS_SUBDIR
from molecule_plugin.rooted import is_plain_file
from molecule_plugin.settings_merge import Entries


def reverse_effects(
    desk: Desk, ledger: InstallLedger, entries: Entries, blocks: Iterable[Block] = ()
) -> None:
    """Take back everything outside the plugin's own directory: files, memory blocks, settings `entries`."""
    remove_files(desk, effects(ledger))
    shipped = list(blocks)
    for file in dict.fromkeys(block.file for block in ledger.memory):
        remove_memory(desk, file, ledger.name, shipped, ledger.before.get(file))
    remove_settings(desk, ledger, entries)
    desk.work.change.remove_directories(desk.root.path(path) for path in ledger.dirs)


def reverse_outdated(desk: Desk, old: InstallLedger, new: InstallLedger) -> None:
    """After an upgrade, take back what the old version did and the new one does not."""
    remove_files(desk, [file for file in effects(old) if file.path not in new.files])
    present = {block.file for block in new.memory}
    for file in dict.fromkeys(block.file for block in old.memory):
        if file not in present:
            remove_memory(desk, file, old.name, [], old.before.get(file))
    desk.work.change.remove_directories(desk.root.path(path) for path in old.dirs if path not in new.dirs)


def effects(ledger: InstallLedger) -> list[LedgerFile]:
    """The files outside the plugin's own directory."""
    own = f"{PLUGINS_SUBDIR}/{ledger.name}/"
    return [file for file in ledger.files.values() if not file.path.startswith(own)]


def remove_files(desk: Desk, files: Iterable[LedgerFile]) -> None:
    """Remove files that are as they were written and that no other plugin has too."""
    for file in files:
        path = desk.root.path(file.path)
        shared = any(file.path in other.files for other in desk.work.others.values())
        if shared or not is_plain_file(path):
            continue
        if sha256_of(path) == file.sha256:
            desk.work.change.remove(path)
        else:
            desk.kept.append(file.path)
            desk.warn(f"'{file.path}' was changed — kept")
