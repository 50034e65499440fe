"""Packing a plugin: the same files always become the same bytes."""

import gzip
import hashlib
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from molecule_plugin.archive_members import check_portable
from molecule_plugin.digest import SIGNATURE_FILE, content_digest
from molecule_plugin.errors import PluginTooLargeError, UnsafeArchiveError
from molecule_plugin.file_tree import Tree, TreeFile, check_tree
from molecule_plugin.limits import LIMITS, Limits

_COMPRESSION = 6


@dataclass(frozen=True)
class PackedArchive:
    """What was packed: the digests of the archive and of the content in it, and the archive's size."""

    archive_sha256: str
    content_sha256: str
    size: int


def pack_plugin(plugin_dir: Path | str, out: Path | str, limits: Limits = LIMITS) -> PackedArchive:
    """Write a plugin's directory as a gzip tar, replacing `out` in one step.

    Entries are sorted files with fixed times and owners; `plugin.sig` stays outside, since it travels beside
    the archive. `UnsafeArchiveError` on a link, a special file, or what could not be unpacked again.
    """
    root, target = Path(plugin_dir), Path(out)
    if target.resolve().is_relative_to(root.resolve()):
        raise ValueError(f"{target} is inside the plugin: write the archive somewhere else")
    temporary = target.with_name(f".{target.name[:64]}.{os.urandom(8).hex()}.tmp")
    try:
        with temporary.open("xb") as file:
            packed = write_archive(root, file, limits)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return packed


def write_archive(plugin_dir: Path, file: BinaryIO, limits: Limits = LIMITS) -> PackedArchive:
    """Write the archive of `pack_plugin` to an open file."""
    files = [found for found in check_tree(plugin_dir, limits) if found.path != SIGNATURE_FILE]
    for found in files:
        check_portable(found.path)
    noted = _DigestWriter(file)
    digests: list[tuple[str, str]] = []
    with Tree(plugin_dir) as tree, gzip.GzipFile("", "wb", _COMPRESSION, noted, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8") as tar:
            for found in files:
                digests.append((found.path, _add(tar, tree, found)))
        unpacked = packed.tell()
    _check_size(noted.size, unpacked, limits)
    return PackedArchive(noted.digest.hexdigest(), content_digest(digests), noted.size)


class _DigestWriter:
    """A file that is written to, with the digest and the number of what was written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self.size += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


class _DigestReader:
    """A file that is read, with the digest of what was read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        return data


def _add(tar: tarfile.TarFile, tree: Tree, found: TreeFile) -> str:
    member = tarfile.TarInfo(found.path)
    member.size = found.size
    member.mode = 0o755 if found.mode & 0o111 else 0o644
    with tree.open(found.path) as file:
        content = _DigestReader(file)
        try:
            tar.addfile(member, content)
        except OSError as problem:
            if problem.errno is not None:
                raise
            raise UnsafeArchiveError(f"{found.path!r} changed while it was packed; pack again") from problem
    return content.digest.hexdigest()


def _check_size(packed: int, unpacked: int, limits: Limits) -> None:
    if packed > limits.archive_bytes:
        raise PluginTooLargeError(
            f"the archive is larger than {limits.archive_bytes} bytes", limits.archive_bytes
        )
    if unpacked > limits.unpacked_bytes(packed):
        raise UnsafeArchiveError(
            f"the files shrink to less than 1/{limits.ratio} of their size, and such an archive is refused:"
            " compress large files before you put them into a plugin"
        )
