"""A directory of files, read and written without ever following a link.

Where the system allows it every file is reached from an open handle of the root, one directory at a time; a
link that appears meanwhile then stops the way instead of leading it elsewhere.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Generator, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple

from molecule_plugin.errors import PluginTooLargeError, UnsafeArchiveError
from molecule_plugin.limits import LIMITS, Limits

CHUNK_BYTES = 64 * 1024

_BY_HANDLE = {os.open, os.mkdir, os.unlink, os.rmdir} <= os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_PLAIN = _NO_FOLLOW | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_ENTER = os.O_RDONLY | _PLAIN | getattr(os, "O_DIRECTORY", 0)
# A pipe that took the place of a file must not keep us waiting.
_READ = os.O_RDONLY | _PLAIN | getattr(os, "O_NONBLOCK", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN
_NOT_A_PLAIN_PLACE = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.ENXIO, errno.EOPNOTSUPP)


class TreeFile(NamedTuple):
    """A regular file of a tree: its POSIX path from the root, its size and its mode."""

    path: str
    size: int
    mode: int


class Tree:
    """An open directory; use it in a `with` statement. All paths are POSIX and relative to it."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        found = os.lstat(self.root)
        if not stat.S_ISDIR(found.st_mode):
            what = "a link" if stat.S_ISLNK(found.st_mode) else "not a directory"
            raise UnsafeArchiveError(f"{self.root} is {what}: name the plugin's own directory")
        self._handle = os.open(self.root, _ENTER) if _BY_HANDLE else -1

    def __enter__(self) -> "Tree":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle >= 0:
            os.close(self._handle)

    def open(self, path: str) -> BinaryIO:
        """Open a regular file for reading; `UnsafeArchiveError` when a link or anything else is there."""
        with self._parent(path) as (where, name):
            handle = _guarded(path, name, _READ, where)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise UnsafeArchiveError(f"{path!r} is not a regular file: a plugin holds only files")
        return os.fdopen(handle, "rb")

    def create(self, path: str, mode: int) -> BinaryIO:
        """Create a file that must not exist yet and open it for writing."""
        with self._parent(path) as (where, name):
            handle = os.open(name, _CREATE, mode, dir_fd=where)
        if hasattr(os, "fchmod"):
            os.fchmod(handle, mode)
        return os.fdopen(handle, "wb")

    def make_directory(self, path: str) -> bool:
        """Make a directory with mode 0755; false when it is there already."""
        with self._parent(path) as (where, name):
            try:
                os.mkdir(name, 0o755, dir_fd=where)
                made = True
            except FileExistsError:
                made = False
            if _BY_HANDLE:
                handle = _guarded(path, name, _ENTER, where)
                if made:
                    os.fchmod(handle, 0o755)
                os.close(handle)
            else:
                _checked_directory(Path(name))
        return made

    def remove(self, path: str, *, directory: bool) -> None:
        """Remove a file, or a directory that is empty."""
        with self._parent(path) as (where, name):
            if directory:
                os.rmdir(name, dir_fd=where)
            else:
                os.unlink(name, dir_fd=where)

    @contextlib.contextmanager
    def _parent(self, path: str) -> Generator[tuple[int | None, str]]:
        *above, name = path.split("/")
        if not _BY_HANDLE:
            yield None, str(self._checked_parent(above) / name)
            return
        handle = self._handle
        try:
            for step in above:
                inner = _guarded(path, step, _ENTER, handle)
                self._leave(handle)
                handle = inner
            yield handle, name
        finally:
            self._leave(handle)

    def _leave(self, handle: int) -> None:
        if handle != self._handle:
            os.close(handle)

    def _checked_parent(self, above: list[str]) -> Path:
        place = self.root
        for step in above:
            place /= step
            _checked_directory(place)
        return place


def list_files(root: Path) -> list[TreeFile]:
    """Every regular file below a directory, hidden ones too, in the order of their paths.

    `UnsafeArchiveError` on a link, a special file, or a name that is not UTF-8.
    """
    return sorted(
        TreeFile(path, found.st_size, found.st_mode) for path, found in _entries(Path(root)) if found
    )


def check_tree(root: Path, limits: Limits = LIMITS) -> list[TreeFile]:
    """The files of a directory that keeps the limits of a plugin; `UnsafeArchiveError` when it does not."""
    files: list[TreeFile] = []
    total = 0
    for count, (path, found) in enumerate(_entries(Path(root)), start=1):
        check_place(path, count, limits)
        if found is None:
            continue
        total += found.st_size
        check_sizes(path, found.st_size, total, limits)
        files.append(TreeFile(path, found.st_size, found.st_mode))
    return sorted(files)


def check_place(path: str, count: int, limits: Limits) -> None:
    """Refuse the `count`-th entry of a plugin when it is one too many, too deep, or its path too long."""
    if count > limits.entries:
        raise UnsafeArchiveError(f"the plugin has more than {limits.entries} entries")
    if len(path.encode(errors="surrogateescape")) > limits.path_bytes:
        raise UnsafeArchiveError(f"a path is longer than {limits.path_bytes} bytes: {path[:80]!r}…")
    if path.count("/") >= limits.depth:
        raise UnsafeArchiveError(f"a path is deeper than {limits.depth} levels: {path[:80]!r}")


def check_sizes(path: str, size: int, total: int, limits: Limits) -> None:
    """Refuse a file that is too large, or with which the whole becomes too large."""
    if size > limits.file_bytes:
        raise PluginTooLargeError(f"{path!r} is larger than {limits.file_bytes} bytes", limits.file_bytes)
    if total > limits.tree_bytes:
        raise PluginTooLargeError(
            f"the plugin is larger than {limits.tree_bytes} bytes when unpacked", limits.tree_bytes
        )


def _entries(root: Path) -> Iterator[tuple[str, os.stat_result | None]]:
    """Files with what `lstat` says of them, directories with `None`."""
    with Tree(root):
        pass
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        with os.scandir(root / prefix) as found:
            for entry in found:
                path = _utf8(prefix + entry.name)
                shape = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(shape.st_mode):
                    waiting.append(path + "/")
                    yield path, None
                elif stat.S_ISREG(shape.st_mode):
                    yield path, shape
                else:
                    what = "link" if stat.S_ISLNK(shape.st_mode) else "special file"
                    raise UnsafeArchiveError(
                        f"{path!r} is a {what}: a plugin holds only files and directories"
                    )


def _checked_directory(place: Path) -> None:
    if not stat.S_ISDIR(os.lstat(place).st_mode):
        raise UnsafeArchiveError(f"{place} is not a directory")


def _utf8(path: str) -> str:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UnsafeArchiveError(f"the path {path!r} is not UTF-8: rename the file") from None
    return path


def _guarded(path: str, name: str, flags: int, where: int | None) -> int:
    try:
        return os.open(name, flags, dir_fd=where)
    except OSError as problem:
        if problem.errno not in _NOT_A_PLAIN_PLACE:
            raise
        raise UnsafeArchiveError(f"{path!r} cannot be reached without following a link") from problem
