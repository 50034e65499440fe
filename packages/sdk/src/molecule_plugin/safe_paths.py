"""Paths below one directory: what a record on disk names lies inside it and is reached through no link."""

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from molecule_plugin import errors


class Root:
    """A directory, and the only way from a relative path in a record to a file in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = Path(os.path.abspath(directory))

    def path(self, relative: str) -> Path:
        """The path of `relative`; refused when it leaves the directory or passes through a link."""
        parts = PurePosixPath(relative).parts
        if not parts or not _is_plain(relative) or ".." in parts:
            raise errors.PluginError(f"refusing a path outside {self.directory}: {relative!r}")
        path = self.directory
        for part in parts[:-1]:
            path = path / part
            if path.is_symlink():
                raise errors.PluginError(f"refusing {relative!r}: {path} is a link")
        return path / parts[-1]

    def relative(self, path: Path) -> str:
        """The POSIX form of a path below the directory, checked like `path`."""
        try:
            relative = Path(os.path.abspath(path)).relative_to(self.directory).as_posix()
        except ValueError:
            raise errors.PluginError(f"refusing a path outside {self.directory}: {path}") from None
        self.path(relative)
        return relative

    def holds(self, path: Path) -> bool:
        """Whether a path lies below the directory, as it is written."""
        return Path(os.path.abspath(path)).is_relative_to(self.directory)

    def missing_above(self, path: Path) -> list[Path]:
        """The directories that must be made for `path` to be a directory, outermost first."""
        missing: list[Path] = []
        while path != self.directory and not path.is_dir():
            missing.insert(0, path)
            path = path.parent
        return missing


def _is_plain(relative: str) -> bool:
    foreign = "\\:\0" if os.name == "nt" else "\0"
    return not relative.startswith("/") and not any(sign in relative for sign in foreign)


def is_plain_file(path: Path) -> bool:
    """Whether a regular file is there; a link is none, wherever it leads."""
    return stat.S_ISREG(_shape(path))


def is_plain_folder(path: Path) -> bool:
    """Whether a folder is there; a link is none, wherever it leads."""
    return stat.S_ISDIR(_shape(path))


def _shape(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except OSError:
        return 0


def files_below(directory: Path) -> Iterator[Path]:
    """Every regular file below a directory, in the order of their paths; links are not followed nor told."""
    for folder, folders, names in os.walk(directory, followlinks=False):
        folders.sort()
        for name in sorted(names):
            if is_plain_file(path := Path(folder, name)):
                yield path


def remove(path: Path) -> None:
    """Remove a file, a link or a whole directory, if it is there."""
    if is_plain_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_if_empty(directory: Path) -> None:
    """Remove a directory that holds nothing."""
    with contextlib.suppress(OSError):
        directory.rmdir()


def write_atomically(path: Path, data: bytes, mode: int, workshop: Path | None = None) -> None:
    """Put `data` where `path` is, in one step: a reader finds the old file or the new one.

    It is written in `workshop` first, a directory of the same file system, or beside `path`.
    """
    temporary = (workshop or path.parent) / f".{path.name[:64]}.{os.urandom(8).hex()}.tmp"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
