"""One at a time: a lock file that a killed process gives back and that leaves nothing behind."""

import contextlib
import os
import time
from collections.abc import Generator
from pathlib import Path

from molecule_plugin import errors
from molecule_wire import file_locks


class InstallInProgressError(errors.PluginError):
    """Another process installs a plugin in the same place; try again later."""


INSTALL_WAIT = 30.0
_RETRY_EVERY = 0.02


@contextlib.contextmanager
def one_at_a_time(lock_file: Path, wait: float = INSTALL_WAIT) -> Generator[None]:
    """Hold `lock_file`, in a directory that exists; an error when another has it for `wait` seconds."""
    deadline = time.monotonic() + wait
    while (handle := _take(lock_file)) is None:
        if time.monotonic() >= deadline:
            raise InstallInProgressError(
                f"another plugin install is in progress ({lock_file}); try again later"
            )
        time.sleep(_RETRY_EVERY)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock_file.unlink()
        os.close(handle)


def _take(lock_file: Path) -> int | None:
    """The handle of the lock if it is free; a file that its last holder has just removed does not count."""
    handle = os.open(lock_file, os.O_RDWR | os.O_CREAT, 0o600)
    if file_locks.try_lock(handle) and _is_still_there(handle, lock_file):
        return handle
    os.close(handle)
    return None


def _is_still_there(handle: int, lock_file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), lock_file.lstat())
    except FileNotFoundError:
        return False
