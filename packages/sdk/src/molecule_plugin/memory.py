"""A plugin's rules and prompt fragments in the memory file of a runtime."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from molecule_plugin import errors, managed_blocks, plugin_layout
from molecule_plugin.file_writer import InstallWriter
from molecule_plugin.ledger import MemoryBlock, OriginalFile
from molecule_plugin.limits import LIMITS
from molecule_plugin.managed_blocks import Block
from molecule_plugin.protocol import InstallContext
from molecule_plugin.safe_paths import Root, is_plain_file
from molecule_plugin.text_reader import UnreadableFile, read_text


def file_appender(configs_dir: Path) -> Callable[[str, str], None]:
    """An `append_to_memory` hook that does what its contract says and nothing more."""

    def append(filename: str, content: str) -> None:
        path = memory_path(Root(configs_dir), filename)
        path.parent.mkdir(parents=True, exist_ok=True)
        old = read_memory(path)
        gap = "" if not old or old.endswith("\n") else "\n"
        end = "" if content.endswith("\n") else "\n"
        with path.open("ab") as file:
            file.write((gap + content + end).encode(errors="surrogateescape"))

    return append


def install_memory(writer: InstallWriter, ctx: InstallContext, plugin: str) -> None:
    """Bring the plugin's blocks in the memory file up to date."""
    blocks = shipped_blocks(ctx.plugin_root, plugin, writer.warn)
    try:
        path = memory_path(writer.root, ctx.memory_filename)
    except errors.PluginError as problem:
        writer.warn(f"the memory file is left alone: {problem}")
        return
    old = read_memory(path)
    if blocks or managed_blocks.find(old, plugin):
        _write_blocks(writer, ctx, plugin, path, blocks)


def _write_blocks(
    writer: InstallWriter, ctx: InstallContext, plugin: str, path: Path, blocks: list[Block]
) -> None:
    change, old = writer.work.change, read_memory(path)
    edited = managed_blocks.update(old, plugin, blocks)
    for warning in edited.warnings:
        writer.warn(f"{ctx.memory_filename}: {warning}")
    change.keep(path)
    writer.note_before(
        path, OriginalFile(sha256=managed_blocks.digest_of(old) if os.path.lexists(path) else None)
    )
    relative = writer.root.relative(path)
    if edited.text != old:
        _write_back(writer, path, edited.text, writer.ledger.before[relative])
    for block in edited.missing:
        ctx.append_to_memory(ctx.memory_filename, block.fenced() + "\n")
    for fence in managed_blocks.find(read_memory(path), plugin):
        writer.ledger.memory.append(MemoryBlock(relative, fence.block, fence.sha256))


def remove_memory(
    writer: InstallWriter, filename: str, plugin: str, blocks: list[Block], before: OriginalFile | None
) -> None:
    """Remove the plugin's blocks; when nothing but them was added, the file is again what it was `before`."""
    try:
        path = memory_path(writer.root, filename)
    except errors.PluginError as problem:
        writer.warn(f"the memory file is left alone: {problem}")
        return
    old = read_memory(path)
    edited = managed_blocks.remove(old, plugin, blocks)
    for warning in edited.warnings:
        writer.warn(f"{filename}: {warning}")
    if edited.text != old:
        _write_back(writer, path, edited.text, before)


def _write_back(writer: InstallWriter, path: Path, text: str, before: OriginalFile | None) -> None:
    if before is not None and before.sha256 is None and not text.strip():
        writer.work.change.remove(path)
        return
    for candidate in _endings(text):
        if before is not None and managed_blocks.digest_of(candidate) == before.sha256:
            text = candidate
            break
    writer.write_shared(path, text.encode(errors="surrogateescape"))


def _endings(text: str) -> Iterator[str]:
    """The text with fewer and fewer newlines at its end, for appending may have added some."""
    while text.endswith("\n"):
        yield text
        text = text[:-1]
    yield text


def memory_path(root: Root, filename: str) -> Path:
    """The memory file; where it is a link to another file in the directory, that one."""
    path = root.path(filename)
    if not path.is_symlink():
        return path
    target = path.resolve()
    root_itself = root.directory.resolve()
    return root.path(Root(root_itself).relative(target))


def read_memory(path: Path) -> str:
    """The text of a memory file, byte for byte; empty without one."""
    return path.read_bytes().decode(errors="surrogateescape") if is_plain_file(path) else ""


def shipped_blocks(plugin_root: Path, plugin: str, warn: Callable[[str], None]) -> list[Block]:
    """The rules and fragments of a plugin, in the order of their file names; rules come first."""
    found = [("rule", path) for path in plugin_layout.rule_files(plugin_root)]
    found += [("fragment", path) for path in plugin_layout.fragment_files(plugin_root)]
    blocks = (_block(plugin, kind, path, warn) for kind, path in found)
    return [block for block in blocks if block is not None]


def _block(plugin: str, kind: str, path: Path, warn: Callable[[str], None]) -> Block | None:
    name = f"{kind}/{path.name}"
    try:
        prose = read_text(path, LIMITS.memory_block_bytes).replace("\r\n", "\n").strip()
    except UnreadableFile as problem:
        warn(f"{name} is left out: {problem}")
        return None
    if managed_blocks.RESERVED in prose or "-->" in name or not name.isprintable():
        warn(
            f"{name} is left out: it contains '{managed_blocks.RESERVED}', which marks the blocks of plugins"
        )
        return None
    return Block(plugin, name, prose) if prose else None
