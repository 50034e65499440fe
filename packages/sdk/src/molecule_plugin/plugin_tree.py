"""What must hold of a plugin as a whole: its manifest, its skills, and the files around them."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from molecule_plugin import file_tree, managed_blocks, plugin_layout
from molecule_plugin import findings as found
from molecule_plugin.errors import PluginError
from molecule_plugin.findings import Finding
from molecule_plugin.limits import LIMITS
from molecule_plugin.manifest_rules import manifest_findings
from molecule_plugin.plugin_manifest import MANIFEST
from molecule_plugin.skills import skill_findings
from molecule_plugin.text_reader import UnreadableFile, read_text

_SIGNATURE = "plugin.sig"


def validate_plugin(path: Path | str) -> dict[str, list[str]]:
    """What is wrong with a plugin: the part (`plugin.yaml`, `skills/<name>`, a file) → its faults.

    An empty mapping is a valid plugin.
    """
    faults: dict[str, list[str]] = {}
    for finding in found.errors(plugin_findings(Path(path))):
        faults.setdefault(_part(finding.file), []).append(finding.message)
    return faults


def plugin_findings(plugin_dir: Path) -> list[Finding]:
    """The same, each with its file and line."""
    listed = [
        finding
        for skill in plugin_layout.skill_dirs(plugin_dir)
        for finding in found.inside(f"{plugin_layout.SKILLS_SUBDIR}/{skill.name}", skill_findings(skill))
    ]
    return [
        *manifest_findings(plugin_dir / MANIFEST),
        *listed,
        *_markers(plugin_dir),
        *_tree(plugin_dir),
    ]


def _part(file: str) -> str:
    """A skill's file counts for the skill."""
    folder, _, rest = file.partition("/")
    skill, slash, name = rest.partition("/")
    return (
        f"{folder}/{skill}"
        if folder == plugin_layout.SKILLS_SUBDIR and slash and name == "SKILL.md"
        else file
    )


def _markers(plugin_dir: Path) -> Iterator[Finding]:
    for path in (*plugin_layout.rule_files(plugin_dir), *plugin_layout.fragment_files(plugin_dir)):
        file = path.relative_to(plugin_dir).as_posix()
        try:
            text = read_text(path, LIMITS.memory_block_bytes)
        except UnreadableFile as unreadable:
            yield Finding(file, f"cannot become part of a memory file: {unreadable}", code="limit")
            continue
        before, marker, _ = text.partition(managed_blocks.RESERVED)
        if marker:
            message = f"contains the reserved marker '{managed_blocks.RESERVED}'; write it another way"
            yield Finding(file, message, code="reserved-marker", line=before.count("\n") + 1)


def _tree(plugin_dir: Path) -> Iterator[Finding]:
    """Links, special files and what is over a limit; the first excess of the whole ends the search."""
    total = 0
    for count, (path, shape) in enumerate(_entries(plugin_dir), start=1):
        if not stat.S_ISDIR(shape.st_mode) and not stat.S_ISREG(shape.st_mode):
            kind = "link" if stat.S_ISLNK(shape.st_mode) else "special file"
            yield Finding(path, f"is a {kind}; a plugin holds only files and directories", code="link")
            continue
        size = shape.st_size if stat.S_ISREG(shape.st_mode) else 0
        total += size
        if excess := _excess(path, count, size, total):
            yield Finding(path, excess, code="limit")
        if count > LIMITS.entries or total > LIMITS.tree_bytes:
            return


def _excess(path: str, count: int, size: int, total: int) -> str:
    if path == _SIGNATURE and size > LIMITS.signature_bytes:
        return f"plugin.sig is larger than {LIMITS.signature_bytes} bytes"
    try:
        path.encode()
        file_tree.check_place(path, count, LIMITS)
        file_tree.check_sizes(path, size, total, LIMITS)
    except PluginError as problem:
        return str(problem)
    except UnicodeEncodeError:
        return "the name of the file is not UTF-8; rename it"
    return ""


def _entries(plugin_dir: Path) -> Iterator[tuple[str, os.stat_result]]:
    waiting = [""]
    while waiting:
        prefix = waiting.pop(0)
        try:
            with os.scandir(plugin_dir / prefix) as entries:
                shapes = sorted((entry.name, entry.stat(follow_symlinks=False)) for entry in entries)
        except OSError:
            continue  # what cannot be listed has no faults that an author could mend here
        for name, shape in shapes:
            yield prefix + name, shape
            if stat.S_ISDIR(shape.st_mode):
                waiting.append(f"{prefix}{name}/")
