"""What lint says about the files of a plugin beside its manifest and skills."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from molecule_plugin import digest, plugin_layout, plugin_manifest, signatures
from molecule_plugin.errors import PluginError, PluginManifestError
from molecule_plugin.findings import Finding, warning
from molecule_plugin.plugin_manifest import MANIFEST
from molecule_plugin.text_reader import UnreadableFile, read_text
from molecule_plugin.values import items, mapping, named

_STRAY = (
    ".git", ".hg", ".svn", "__pycache__", ".DS_Store", "Thumbs.db", ".idea", ".vscode",
    "*.pyc", "*.pyo", "*~", "*.swp", "*.swo", ".#*", "#*#",
)  # fmt: skip
_HOOK_FILE = re.compile(r"(?:\$\{?CLAUDE_DIR\}?|\.claude)/hooks/([^\s\"'`;|&<>()$]+)")
_MAX_FRAGMENT_BYTES = 1024 * 1024


def findings(root: Path) -> list[Finding]:
    """Stray files, a stale digest or signature, and hooks that are not there."""
    return [*_strays(root), *_integrity(root), *_settings(root)]


def _strays(root: Path) -> Iterator[Finding]:
    for folder, folders, files in os.walk(root):
        stray = sorted(name for name in (*folders, *files) if _is_stray(name))
        folders[:] = sorted(set(folders) - set(stray))
        for name in stray:
            file = Path(folder, name).relative_to(root).as_posix()
            yield warning(file, "does not belong into a plugin; it changes the digest", "stray-files")


def _is_stray(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in _STRAY)


def _integrity(root: Path) -> Iterator[Finding]:
    try:
        manifest = plugin_manifest.read_manifest(root)
        computed = digest.compute_plugin_sha256(root)
    except (PluginError, OSError):
        return  # the fault that keeps us from comparing is told elsewhere
    if manifest is not None and manifest.sha256 not in (None, computed):
        message = f"`sha256` is stale: the files have {computed}; run: molecule-plugin hash --write"
        yield Finding(MANIFEST, message, code="digest-stale")
    yield from _signature(root)


def _signature(root: Path) -> Iterator[Finding]:
    try:
        content = signatures.read_signature(root)
        if content is None:
            return
        claims = signatures.parse_signature(content).claims
        now = signatures.claims_about(root, datetime.now(UTC))
    except PluginManifestError:
        return
    except (PluginError, OSError) as problem:
        yield Finding(digest.SIGNATURE_FILE, str(problem), code="signature-stale")
        return
    if replace(now, created=claims.created) != claims:
        message = "the plugin was changed after it was signed; run: molecule-plugin sign"
        yield Finding(digest.SIGNATURE_FILE, message, code="signature-stale")


def _settings(root: Path) -> Iterator[Finding]:
    path = root / plugin_layout.SETTINGS_FRAGMENT
    if not os.path.lexists(path):
        return
    try:
        fragment: object = json.loads(read_text(path, _MAX_FRAGMENT_BYTES))
    except (UnreadableFile, ValueError, RecursionError) as problem:
        yield warning(path.name, f"{path.name} invalid: {problem}", "settings-invalid")
        return
    if mapping(fragment) is None:
        yield warning(path.name, f"{path.name} invalid: must be an object", "settings-invalid")
    for file in sorted(_hook_files(named(fragment).get("hooks"))):
        if ".." in file or not (root / plugin_layout.HOOKS_SUBDIR / file).is_file():
            yield warning(path.name, f"names hooks/{file[:80]}, which does not exist", "hook-missing")


def _hook_files(value: object) -> set[str]:
    """The files of `hooks/` that any command in the value names."""
    found: set[str] = set()
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, str):
            found.update(_HOOK_FILE.findall(here))
        waiting += [*(mapping(here) or {}).values(), *(items(here) or [])]
    return found
