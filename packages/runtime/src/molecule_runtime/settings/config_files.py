"""The files that a workspace is configured with, and whether one of them changed."""

import hashlib
import os
import stat
from collections.abc import Collection
from pathlib import Path


class ConfigFiles:
    """The files below a config directory, but hidden ones, logs and `left_out` folders.

    A log may well be there, and a reload writes to it. Only a file with a new size or time is read again.
    """

    def __init__(self, folder: Path, left_out: Collection[Path] = ()) -> None:
        self._folder = folder
        self._left_out = {path.resolve() for path in left_out}
        self._known: dict[str, tuple[int, int, str]] = {}

    def digests(self) -> dict[str, str]:
        """The SHA-256 of each file by its path; a file that cannot be read has none."""
        known: dict[str, tuple[int, int, str]] = {}
        for parent, folders, names in os.walk(self._folder):
            folders[:] = [
                name
                for name in folders
                if not name.startswith(".") and Path(parent, name).resolve() not in self._left_out
            ]
            for name in names:
                if not name.startswith(".") and not name.endswith(".log"):
                    path = os.path.join(parent, name)
                    known[path] = self._digest(path)
        self._known = known
        return {path: digest for path, (_, _, digest) in known.items()}

    def _digest(self, path: str) -> tuple[int, int, str]:
        try:
            found = os.stat(path)
            if not stat.S_ISREG(found.st_mode):  # a pipe or a device would never end
                return -1, -1, ""
            last = self._known.get(path)
            if last is not None and last[:2] == (found.st_size, found.st_mtime_ns):
                return last
            with open(path, "rb") as file:
                return found.st_size, found.st_mtime_ns, hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return -1, -1, ""
