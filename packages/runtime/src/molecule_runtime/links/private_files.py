"""Small files of the workspace that only its owner may read: atomic writes, and one lock per directory.

A write goes to a temporary file that has mode 0600 from its creation, is synced, and then renamed. So a
reader needs no lock and never sees half a file. The lock file is the one that the agent SDK uses.
"""

import contextlib
import os
import time
from collections.abc import Generator
from pathlib import Path

from molecule_runtime.kit.files import atomic_files
from molecule_wire import file_locks

LOCK_NAME = ".store.lock"
LOCK_WAIT_SECONDS = 2.0
_LOCK_RETRY_SECONDS = 0.02
_MODE = 0o600


def read(path: Path) -> str | None:
    """The content of a file, or `None` when there is none. OSError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None


def write(path: Path, text: str) -> None:
    """Replace a file in one step; OSError when it cannot be written, and then the old one is still there."""
    with locked(path.parent):
        atomic_files.write_private(path, text.encode())


def append(path: Path, text: str) -> None:
    """Add to the end of a file, which is made when it is missing."""
    with locked(path.parent):
        atomic_files.append_private(path, text.encode(), sync=True)


@contextlib.contextmanager
def locked(directory: Path) -> Generator[None]:
    """Hold the lock of a directory, which is made when it is missing; TimeoutError after two seconds."""
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT, _MODE)
    try:
        deadline = time.monotonic() + LOCK_WAIT_SECONDS
        while not file_locks.try_lock(handle):
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{directory / LOCK_NAME} is held by another process")
            time.sleep(_LOCK_RETRY_SECONDS)
        yield
    finally:
        os.close(handle)
