"""Owners of runs on one machine: a process owns its runs while it holds the lock on its own file.

The system gives the lock back when the process ends, however it ends, so a run is known to be abandoned at
once and without a heartbeat.
"""

import os
from pathlib import Path

from molecule_skill.ids import new_id
from molecule_wire import file_locks


class OwnerLock:
    """The lock file of one owner, held until `release`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.owner = new_id("o_")
        folder.mkdir(parents=True, exist_ok=True)
        self._handle: int | None = os.open(folder / self.owner, os.O_CREAT | os.O_RDWR, 0o600)
        file_locks.try_lock(self._handle)

    def is_gone(self, owner: str) -> bool:
        """Whether the process of another owner has ended; its file is then removed."""
        if owner == self.owner:
            return False
        path = self._folder / owner
        try:
            handle = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return True
        try:
            if not file_locks.try_lock(handle):
                return False
            path.unlink(missing_ok=True)
            return True
        finally:
            os.close(handle)

    def release(self) -> None:
        """Stop owning; harmless when repeated."""
        if self._handle is not None:
            (self._folder / self.owner).unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None
