"""One platform per data directory: an exclusive lock, held for as long as the process lives."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from molecule_platform.cli import problems

FILE_NAME = "molecule.lock"


@contextmanager
def hold(folder: Path) -> Generator[None]:
    """Keep others out of the data directory, which is made if need be. Raises a `Problem`."""
    handle = _open(folder)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(handle)
        raise problems.Problem(
            f"Molecule already runs on {folder} (process {holder}): stop that one, "
            "or choose another folder with --data-dir",
            "already-running",
        ) from None
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def check(folder: Path) -> None:
    """Raise a `Problem` if the folder can be neither used nor made; nothing is written yet."""
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    if not nearest.is_dir():
        raise _unusable(folder, f"{nearest} is a file")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise _unusable(folder, "permission denied")


def _open(folder: Path) -> int:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(folder / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise _unusable(folder, problem.strerror or "it failed") from problem


def _unusable(folder: Path, reason: str) -> problems.Problem:
    return problems.Problem(
        f"the data directory {folder} cannot be written ({reason}): "
        "choose another with --data-dir or MOLECULE_DATA_DIR",
        "data-dir",
    )
