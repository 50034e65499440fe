"""Taking back what a ledger says a plugin did; what somebody changed since stays, with a warning."""

from collections.abc import Iterable

from molecule_plugin.claude_layer import remove_settings
from molecule_plugin.file_writer import InstallWriter, sha256_of
from molecule_plugin.ledger import InstallLedger, LedgerFile
from molecule_plugin.managed_blocks import Block
from molecule_plugin.memory import remove_memory
from molecule_plugin.protocol import PLUGINS_SUBDIR
from molecule_plugin.safe_paths import is_plain_file
from molecule_plugin.settings_merge import Entries


def reverse_effects(
    writer: InstallWriter, ledger: InstallLedger, entries: Entries, blocks: Iterable[Block] = ()
) -> None:
    """Take back everything outside the plugin's own directory: files, memory blocks, settings `entries`."""
    remove_files(writer, effects(ledger))
    shipped = list(blocks)
    for file in dict.fromkeys(block.file for block in ledger.memory):
        remove_memory(writer, file, ledger.name, shipped, ledger.before.get(file))
    remove_settings(writer, ledger, entries)
    writer.work.change.remove_directories(writer.root.path(path) for path in ledger.dirs)


def reverse_outdated(writer: InstallWriter, old: InstallLedger, new: InstallLedger) -> None:
    """After an upgrade, take back what the old version did and the new one does not."""
    remove_files(writer, [file for file in effects(old) if file.path not in new.files])
    present = {block.file for block in new.memory}
    for file in dict.fromkeys(block.file for block in old.memory):
        if file not in present:
            remove_memory(writer, file, old.name, [], old.before.get(file))
    writer.work.change.remove_directories(writer.root.path(path) for path in old.dirs if path not in new.dirs)


def effects(ledger: InstallLedger) -> list[LedgerFile]:
    """The files outside the plugin's own directory."""
    own = f"{PLUGINS_SUBDIR}/{ledger.name}/"
    return [file for file in ledger.files.values() if not file.path.startswith(own)]


def remove_files(writer: InstallWriter, files: Iterable[LedgerFile]) -> None:
    """Remove files that are as they were written and that no other plugin has too."""
    for file in files:
        path = writer.root.path(file.path)
        shared = any(file.path in other.files for other in writer.work.others.values())
        if shared or not is_plain_file(path):
            continue
        if sha256_of(path) == file.sha256:
            writer.work.change.remove(path)
        else:
            writer.kept.append(file.path)
            writer.warn(f"'{file.path}' was changed — kept")
