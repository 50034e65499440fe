"""Which members of a plugin archive are written, and where: decided for all of them before the first byte."""

import logging
import math
import os
import re
import tarfile
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from molecule_plugin.errors import UnsafeArchiveError
from molecule_plugin.file_tree import check_place, check_sizes
from molecule_plugin.limits import Limits

log = logging.getLogger("molecule_plugin")

_DRIVE = re.compile(r"[A-Za-z]:")
_RESERVED = re.compile(r"(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(COM|LPT)[1-9¹²³]) *(\..*)?", re.IGNORECASE)
_FILE_TYPES = (tarfile.REGTYPE, tarfile.AREGTYPE)


@dataclass(frozen=True)
class PlannedMember:
    """A member that will be written: where, as what, and the member itself."""

    path: str
    member: tarfile.TarInfo
    directory: bool

    @property
    def mode(self) -> int:
        """Nothing but the plain permissions, and always readable and writable by its owner."""
        return self.member.mode & 0o755 | 0o600

    def modified(self, now: float) -> float:
        """The time of the file, which is not in the future."""
        mtime = float(self.member.mtime)
        return min(max(mtime, 0.0), now) if math.isfinite(mtime) else now


def plan(members: Iterable[tarfile.TarInfo], dest: Path, limits: Limits) -> list[PlannedMember]:
    """What will be written; `UnsafeArchiveError` for an archive that is not to be unpacked at all.

    Links are left out with a warning.
    """
    planned: list[PlannedMember] = []
    layout = _Layout()
    total = 0
    for count, member in enumerate(members, start=1):
        path = _place(member.name, dest)
        check_place(path, count, limits)
        if member.islnk() or member.issym():
            _skip(member)
            continue
        directory = _is_directory(member, path)
        if not directory:
            total += member.size
            check_sizes(path, member.size, total, limits)
        if path:
            layout.add(path, directory=directory)
            planned.append(PlannedMember(path, member, directory))
    return planned


def check_portable(path: str) -> None:
    """Refuse a relative POSIX path that not every system could hold as it is."""
    if any(unicodedata.category(sign) in ("Cc", "Cs") for sign in path) or "\\" in path:
        raise UnsafeArchiveError(
            f"refusing the name {path[:200]!r}: it has a backslash or control character, or is not UTF-8"
        )
    for step in path.split("/"):
        # Windows cuts spaces off the end of a name, and then `.. ` leads upwards.
        unnamed = " " in step and not step.strip(". ")
        if unnamed or _DRIVE.match(step) or _RESERVED.fullmatch(step) or (os.name == "nt" and ":" in step):
            raise UnsafeArchiveError(f"refusing the name {path[:200]!r}: it is reserved on Windows")


@dataclass
class _Layout:
    """The tree that the members so far would make."""

    files: set[str] = field(default_factory=set[str])
    directories: set[str] = field(default_factory=set[str])
    named: set[str] = field(default_factory=set[str])

    def add(self, path: str, *, directory: bool) -> None:
        above = _above(path)
        if path in self.named:
            raise UnsafeArchiveError(f"refusing the archive: it has {path!r} twice")
        if path in self.files or any(step in self.files for step in above):
            raise UnsafeArchiveError(f"refusing the archive: {path!r} needs a directory where it has a file")
        if not directory and path in self.directories:
            raise UnsafeArchiveError(f"refusing the archive: {path!r} is both a file and a directory")
        self.named.add(path)
        self.directories.update(above)
        (self.directories if directory else self.files).add(path)


def _above(path: str) -> list[str]:
    steps = path.split("/")
    return ["/".join(steps[:count]) for count in range(1, len(steps))]


def _place(name: str, dest: Path) -> str:
    """Where a name leads, as a relative path without `.` and `..`; the empty path is `dest` itself."""
    check_portable(name)
    steps: list[str] = []
    for step in name.split("/"):
        if step == ".." and not steps:
            raise _escaping(name, dest)
        if step == "..":
            steps.pop()
        elif step not in ("", "."):
            steps.append(step)
    if name.startswith("/"):
        raise _escaping(name, dest)
    return "/".join(steps)


def _escaping(name: str, dest: Path) -> UnsafeArchiveError:
    target = os.path.normpath(os.path.join(dest, name))
    return UnsafeArchiveError(f"refusing tar entry escaping dest: {name!r} -> {target}")


def _is_directory(member: tarfile.TarInfo, path: str) -> bool:
    if member.type == tarfile.DIRTYPE:
        return True
    if member.type not in _FILE_TYPES or member.issparse():
        raise UnsafeArchiveError(
            f"refusing {member.name!r}: it is neither a file nor a directory (type {member.type!r})"
        )
    if not path:
        raise UnsafeArchiveError(f"refusing {member.name!r}: a file cannot take the place of the plugin")
    return False


def _skip(member: tarfile.TarInfo) -> None:
    target = member.linkname[:512].encode("unicode_escape", "backslashreplace").decode("ascii")
    log.warning(
        "skipping symlink in plugin tarball (not supported for security): %s -> %s", member.name, target
    )
