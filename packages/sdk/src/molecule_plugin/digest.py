"""The digest of a plugin's content: the one that is written today, and the two older ones still accepted."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

from molecule_plugin.errors import PluginIntegrityError, SHA256MismatchError
from molecule_plugin.file_tree import CHUNK_BYTES, Tree, TreeFile, list_files
from molecule_wire import JSON, jsontext

MANIFEST_FILE = "plugin.yaml"
SIGNATURE_FILE = "plugin.sig"
LEGACY_MANIFEST_FILE = "manifest.json"

Form: TypeAlias = Literal["content", "archive", "legacy-tree", "legacy-manifest"]
"""Which digest of a plugin a caller gave."""

_NOT_CONTENT = frozenset({MANIFEST_FILE, SIGNATURE_FILE})
# A signature is made last and travels beside the archive: no older digest can know of it.
_NOT_IN_THE_LEGACY_TREE = frozenset({LEGACY_MANIFEST_FILE, SIGNATURE_FILE})
_HEX = re.compile(r"[0-9a-fA-F]{64}")
_LEGACY_MANIFEST_BYTES = 1024 * 1024


def compute_plugin_sha256(plugin_dir: Path | str) -> str:
    """The digest of a plugin's content: of every file but the root's `plugin.yaml` and `plugin.sig`.

    Modes and times do not count. `UnsafeArchiveError` on a link, a special file or a path that is not UTF-8.
    """
    root = Path(plugin_dir)
    with Tree(root) as tree:
        return content_digest((file.path, _hashed(tree, file)) for file in list_files(root))


def content_digest(files: Iterable[tuple[str, str]]) -> str:
    """The same digest, from the path and the SHA-256 of each file."""
    rows = [[path, digest] for path, digest in sorted(files) if path not in _NOT_CONTENT]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def verify_plugin_sha256(plugin_dir: Path | str, expected: str) -> bool:
    """Whether a plugin's content has this digest; `ValueError` when `expected` cannot be a digest."""
    return check_digest(expected) == compute_plugin_sha256(plugin_dir)


def check_digest(text: str) -> str:
    """The text itself; `ValueError` unless it has 64 hexadecimal characters."""
    # A caller without types may hand anything in.
    if not isinstance(text, str) or not _HEX.fullmatch(text):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"sha256 must be a 64-character lowercase hex string, not {str(text)[:80]!r}")
    return text


def manifest_sha256(plugin_dir: Path | str) -> str:
    """The digest of the bytes of `plugin.yaml`; empty when there is none."""
    with Tree(Path(plugin_dir)) as tree:
        try:
            return hash_file(tree.open(MANIFEST_FILE))
        except FileNotFoundError:
            return ""


def matched_form(plugin_dir: Path | str, archive_sha256: str, expected: str) -> Form | None:
    """Which digest of the plugin a caller's `expected` is; `None` when it is none of them.

    `ValueError` when `expected` cannot be a digest.
    """
    check_digest(expected)
    if expected == compute_plugin_sha256(plugin_dir):
        return "content"
    if expected == archive_sha256:
        return "archive"
    if expected.lower() == legacy_tree_sha256(plugin_dir):
        return "legacy-tree"
    return "legacy-manifest" if expected == manifest_sha256(plugin_dir) else None


def caution_about(form: Form | None) -> tuple[str, ...]:
    """What the giver of a digest of this form should know."""
    if form != "legacy-manifest":
        return ()
    return (
        "the sha256 given is that of plugin.yaml and proves nothing of the other files: give the content's",
    )


def legacy_tree_sha256(plugin_dir: Path | str) -> str:
    """The first older form: over path and content of every file but `manifest.json` and the signature."""
    root = Path(plugin_dir)
    digest = hashlib.sha256()
    with Tree(root) as tree:
        for file in list_files(root):
            if file.path not in _NOT_IN_THE_LEGACY_TREE:
                digest.update(file.path.encode() + b"\0")
                with tree.open(file.path) as content:
                    for chunk in _chunks(content):
                        digest.update(chunk)
    return digest.hexdigest()


def check_legacy_manifest(plugin_dir: Path | str) -> None:
    """Hold a plugin to the `sha256` of its `manifest.json`, if it has one.

    `PluginIntegrityError` when that is no text; `SHA256MismatchError` when the files have another digest.
    """
    declared = _legacy_declaration(Path(plugin_dir))
    if declared is None:
        return
    if not isinstance(declared, str):
        raise PluginIntegrityError(f"{LEGACY_MANIFEST_FILE}: sha256 field must be a string")
    computed = legacy_tree_sha256(plugin_dir)
    if declared.lower() != computed:
        raise SHA256MismatchError(
            f"{LEGACY_MANIFEST_FILE} declares sha256 {declared[:80]}, but the files have {computed}",
            declared[:80],
            computed,
        )


def hash_file(file: BinaryIO) -> str:
    """The SHA-256 of an open file, which is then closed."""
    digest = hashlib.sha256()
    with file:
        for chunk in _chunks(file):
            digest.update(chunk)
    return digest.hexdigest()


def _legacy_declaration(root: Path) -> JSON:
    with Tree(root) as tree:
        try:
            with tree.open(LEGACY_MANIFEST_FILE) as file:
                text = file.read(_LEGACY_MANIFEST_BYTES)
        except FileNotFoundError:
            return None
    try:
        value = jsontext.decode(text)
    except jsontext.NotJSON:
        return None
    return value.get("sha256") if isinstance(value, dict) else None


def _hashed(tree: Tree, file: TreeFile) -> str:
    return "" if file.path in _NOT_CONTENT else hash_file(tree.open(file.path))


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def walk_files(root: Path) -> list[str]:
    """Kept for programs of the first generation: the paths of the files below a directory, sorted."""
    return sorted(file.path for file in list_files(Path(root)))


def sha256_file(path: Path) -> str:
    """Kept for programs of the first generation: the SHA-256 of one file."""
    return hash_file(Path(path).open("rb"))
