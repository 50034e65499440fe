"""Unpacking a plugin's archive.

All of it is checked before the first byte is written; then it is written without following a link, and what
could not be finished is taken away again.
"""

import contextlib
import gzip
import io
import os
import tarfile
import time
import zlib
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO, NoReturn

from molecule_plugin import archive_members, file_tree
from molecule_plugin.archive_members import PlannedMember
from molecule_plugin.errors import PluginTooLargeError, UnsafeArchiveError
from molecule_plugin.limits import LIMITS, Limits

_BLOCK = tarfile.BLOCKSIZE
# A name of 512 bytes needs no more than this; a longer header would only cost time and memory.
_EXTENDED_HEADER_BYTES = 16 * 1024
_EXTENDED_TYPES = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_OVERHEAD_PER_ENTRY = 4 * _BLOCK


def safe_extract(archive: Path | str | BinaryIO, dest: Path, limits: Limits = LIMITS) -> None:
    """Unpack a gzip tar into a directory that is made if need be; links are left out with a warning.

    `UnsafeArchiveError` when the archive is damaged, breaks a rule or a limit (`PluginTooLargeError` for a
    size); nothing of it is then left behind. An open file is read from its beginning.
    """
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(Path(archive).open("rb")) if isinstance(archive, str | Path) else archive
        unpacked = stack.enter_context(_DecompressedReader(opened, limits))
        with _damage_named():
            tar = stack.enter_context(
                tarfile.open(fileobj=unpacked, mode="r:", tarinfo=_StrictTarInfo, encoding="utf-8")
            )
            planned = archive_members.plan(tar, dest, limits)
            unpacked.check_end(tar.offset)
        _write(tar, planned, dest)


def _safe_extract_tar(tf: tarfile.TarFile, dest: Path) -> None:  # pyright: ignore[reportUnusedFunction]
    """Unpack an open archive by the same rules; kept under this name for programs of the first generation."""
    with _damage_named():
        planned = archive_members.plan(tf, Path(dest), LIMITS)
    _write(tf, planned, Path(dest))


class _StrictTarInfo(tarfile.TarInfo):
    """Refuses headers that would make the reader slow, greedy or go round in circles."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_StrictTarInfo":
        found = super().frombuf(buf, encoding, errors)
        if found.type == tarfile.GNUTYPE_SPARSE:
            raise _sparse()
        if found.type in _EXTENDED_TYPES and found.size > _EXTENDED_HEADER_BYTES:
            raise UnsafeArchiveError(
                f"refusing the archive: a header is larger than {_EXTENDED_HEADER_BYTES}"
            )
        return found

    def _block(self, count: int) -> int:
        """How many bytes `count` bytes take in the archive; older readers go backwards on a negative size."""
        if count < 0:
            raise UnsafeArchiveError("refusing the archive: a size is negative")
        return -(-count // _BLOCK) * _BLOCK

    def _proc_gnusparse_10(self, *_: object) -> NoReturn:
        """The map of a sparse file, as long as the archive: refused before it is read."""
        raise _sparse()


class _DecompressedReader(io.RawIOBase):
    """The decompressed side of an archive, which ends the reading when it grows beyond the limits."""

    def __init__(self, archive: BinaryIO, limits: Limits) -> None:
        super().__init__()
        size = archive.seek(0, os.SEEK_END)
        if size > limits.archive_bytes:
            raise PluginTooLargeError(
                f"the archive is larger than {limits.archive_bytes} bytes", limits.archive_bytes
            )
        archive.seek(0)
        self._limits = limits
        self._by_ratio = limits.unpacked_bytes(size)
        self._by_size = limits.tree_bytes + (limits.entries + 2) * _OVERHEAD_PER_ENTRY
        self._plain = gzip.GzipFile(fileobj=archive, mode="rb")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._plain.tell()

    def read(self, size: int = -1) -> bytes:
        with _damage_named():
            data = self._plain.read(size if size >= 0 else file_tree.CHUNK_BYTES)
        self._check(self._plain.tell())
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check(offset)
        with _damage_named():
            return self._plain.seek(offset, whence)

    def check_end(self, offset: int) -> None:
        """Read on after the last member: the checksum must be right, and nothing may be hidden there."""
        self.seek(offset)
        while chunk := self.read(file_tree.CHUNK_BYTES):
            if any(chunk):
                raise UnsafeArchiveError("the archive is damaged: something follows after its end")

    def _check(self, position: int) -> None:
        if position > self._by_ratio:
            raise UnsafeArchiveError(
                f"refusing the archive: it unpacks to more than {self._limits.ratio} times its size"
            )
        if position > self._by_size:
            limit = self._limits.tree_bytes
            raise PluginTooLargeError(f"the plugin is larger than {limit} bytes when unpacked", limit)


def _write(tar: tarfile.TarFile, planned: list[PlannedMember], dest: Path) -> None:
    made_dest = not os.path.lexists(dest)
    dest.mkdir(mode=0o755, parents=True, exist_ok=True)
    made: dict[str, bool] = {}
    with file_tree.Tree(dest) as tree:
        try:
            for item in planned:
                _write_one(tar, item, tree, made)
        except BaseException:
            for path, directory in reversed(made.items()):
                with contextlib.suppress(OSError, UnsafeArchiveError):
                    tree.remove(path, directory=directory)
            if made_dest:
                with contextlib.suppress(OSError):
                    dest.rmdir()
            raise


def _write_one(
    tar: tarfile.TarFile, item: PlannedMember, tree: file_tree.Tree, made: dict[str, bool]
) -> None:
    steps = item.path.split("/")
    for count in range(1, len(steps) + item.directory):
        above = "/".join(steps[:count])
        if above not in made and tree.make_directory(above):
            made[above] = True
    if item.directory:
        return
    try:
        file = tree.create(item.path, item.mode)
    except FileExistsError:
        raise UnsafeArchiveError(f"refusing {item.path!r}: something is already there") from None
    made[item.path] = False
    with file:
        _copy(tar, item, file)
        now = time.time()
        if os.utime in os.supports_fd:
            file.flush()
            os.utime(file.fileno(), (now, item.modified(now)))


def _copy(tar: tarfile.TarFile, item: PlannedMember, file: BinaryIO) -> None:
    left = item.member.size
    with _damage_named():
        content = tar.extractfile(item.member)
    if content is None:
        _damaged(f"{item.path!r} has no content")
    while left > 0:
        with _damage_named():
            chunk = content.read(min(left, file_tree.CHUNK_BYTES))
        if not chunk:
            _damaged(f"{item.path!r} ends too early")
        file.write(chunk)
        left -= len(chunk)


def _sparse() -> UnsafeArchiveError:
    return UnsafeArchiveError("refusing the archive: a sparse file is neither a file nor a directory of ours")


def _damaged(what: str) -> NoReturn:
    raise UnsafeArchiveError(f"the archive is damaged: {what}")


@contextlib.contextmanager
def _damage_named() -> Generator[None]:
    """Say in one class what the readers of gzip and tar say in many."""
    try:
        yield
    except UnsafeArchiveError:
        raise
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError, OverflowError) as problem:
        raise UnsafeArchiveError(f"the archive is damaged or no gzip tar: {problem}") from problem
    except RecursionError as problem:
        raise UnsafeArchiveError("the archive is damaged: its headers never end") from problem
