"""What a plugin brings for `<configs>/.claude`: hooks, commands and settings."""

import json
from pathlib import Path
from typing import cast

from molecule_plugin import plugin_layout, settings_merge
from molecule_plugin.file_writer import InstallWriter, mode_of, plain_mode
from molecule_plugin.ledger import InstallLedger, OriginalFile
from molecule_plugin.safe_paths import files_below, is_plain_file, is_plain_folder
from molecule_plugin.settings_merge import Entries, Settings
from molecule_wire import jsontext

CLAUDE_DIR = ".claude"
SETTINGS_FILE = f"{CLAUDE_DIR}/settings.json"


def install_claude_layer(writer: InstallWriter, plugin_root: Path, plugin: str) -> None:
    """Copy hooks and commands and merge the settings fragment; without any of them nothing is made."""
    for source, relative, mode in claude_files(plugin_root):
        writer.copy(source, relative, mode)
    if is_plain_file(plugin_root / plugin_layout.SETTINGS_FRAGMENT):
        _merge_settings(writer, plugin_root / plugin_layout.SETTINGS_FRAGMENT, plugin)


def claude_files(plugin_root: Path) -> list[tuple[Path, str, int]]:
    """Each hook and command with its place below the configs directory and its mode."""
    found: list[tuple[Path, str, int]] = []
    hooks, commands = plugin_root / plugin_layout.HOOKS_SUBDIR, plugin_root / plugin_layout.COMMANDS_SUBDIR
    if is_plain_folder(hooks):
        for path in files_below(hooks):
            mode = 0o755 if path.suffix == ".sh" else plain_mode(mode_of(path, 0o644))
            found.append((path, f"{CLAUDE_DIR}/hooks/{path.relative_to(hooks).as_posix()}", mode))
    if is_plain_folder(commands):
        for path in sorted(commands.glob("*.md")):
            if is_plain_file(path):
                found.append((path, f"{CLAUDE_DIR}/commands/{path.name}", plain_mode(mode_of(path, 0o644))))
    return found


def read_fragment(path: Path) -> Settings:
    """The fragment of a plugin; `ValueError` when it is no JSON object."""
    return _decoded(path.read_bytes())


def _merge_settings(writer: InstallWriter, fragment_file: Path, plugin: str) -> None:
    try:
        fragment = read_fragment(fragment_file)
    except ValueError as problem:
        writer.warn(f"settings-fragment.json invalid: {problem}")
        return
    path = writer.root.path(SETTINGS_FILE)
    found = _read_settings(writer, path)
    if found is None:
        return
    settings, text = found
    claude_dir = str(writer.root.directory / CLAUDE_DIR)
    others = {name: other.settings for name, other in writer.work.others.items()}
    old = settings_merge.digest_of(settings)
    added, warnings = settings_merge.merge(settings, fragment, plugin, claude_dir, others)
    for warning in warnings:
        writer.warn(warning)
    writer.ledger.settings = added
    if added != Entries():
        writer.note_before(path, OriginalFile(text=text))
    if settings_merge.digest_of(settings) != old:
        writer.write_shared(path, settings_text(settings).encode())
        writer.result.files_written.append(SETTINGS_FILE)


def remove_settings(writer: InstallWriter, ledger: InstallLedger, entries: Entries) -> None:
    """Take a plugin's entries out; if nothing else changed, the file is again what it was before."""
    path = writer.root.path(SETTINGS_FILE)
    if not (entries.hooks or entries.servers or entries.keys) or not is_plain_file(path):
        return
    found = _read_settings(writer, path)
    if found is None:
        return
    settings, _ = found
    before = ledger.before.get(SETTINGS_FILE)
    original = _original(before)
    others = [other.settings for other in writer.work.others.values()]
    for warning in settings_merge.take_out(settings, entries, others, original or {}):
        writer.warn(f"{SETTINGS_FILE}: {warning}")
    if before is not None and before.text is None and not settings:
        writer.work.change.remove(path)
    elif before is not None and before.text is not None and settings == original:
        writer.write_shared(path, before.text.encode(errors="surrogateescape"))
    else:
        writer.write_shared(path, settings_text(settings).encode())


def settings_text(settings: Settings) -> str:
    """Settings as we write them."""
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"


def _original(before: OriginalFile | None) -> Settings | None:
    if before is None or before.text is None:
        return None
    try:
        return _decoded(before.text.encode(errors="surrogateescape"))
    except ValueError:
        return None


def _read_settings(writer: InstallWriter, path: Path) -> tuple[Settings, str | None] | None:
    """The settings and their text; `None`, with a warning, when they are not ours to touch."""
    if not path.exists() and not path.is_symlink():
        return {}, None
    try:
        if not is_plain_file(path):
            raise ValueError("it is not a regular file")
        data = path.read_bytes()
        return _decoded(data), data.decode()
    except ValueError as problem:
        writer.warn(f"{SETTINGS_FILE} is left as it is, nothing was merged: {problem}")
        return None


def _decoded(data: bytes) -> Settings:
    value = jsontext.decode(data)
    if not isinstance(value, dict):
        raise ValueError("it must be a JSON object")
    return cast("Settings", value)
