"""Private files: atomic writes with mode 0600 from creation, and reads with a size cap."""

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_WRITE = os.O_WRONLY | os.O_CREAT | _NO_FOLLOW | _CLOSE_ON_EXEC | _BINARY
_NON_BLOCKING = getattr(os, "O_NONBLOCK", 0)


class FileTooLarge(OSError):
    """The file has more bytes than the reader takes."""

    def __init__(self, path: Path, limit: int) -> None:
        super().__init__(errno.EFBIG, f"the file has more than {limit} bytes", str(path))


def write_private(path: str | os.PathLike[str], data: bytes, mode: int = 0o600) -> None:
    """Replace a file atomically: after a crash it has the old content or the new one, on the disk.

    The folder is made if it is missing. Nobody but the owner can read the file, unless another mode is given.
    """
    target = Path(path)
    private_folder(target.parent)
    temporary = target.parent / f".{target.name[:100]}.{secrets.token_hex(8)}.tmp"
    try:
        with open_private(temporary) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def open_private(path: Path) -> BinaryIO:
    """Open a new file for writing with mode 0600. Follows no symlink."""
    return os.fdopen(os.open(path, _WRITE | os.O_EXCL, 0o600), "wb")


def append_private(path: str | os.PathLike[str], data: bytes, *, sync: bool = False) -> None:
    """Add to a file, made with mode 0600 if it is missing; `sync` waits for the disk. Follows no symlink."""
    descriptor = os.open(path, _WRITE | os.O_APPEND, 0o600)
    try:
        while data:
            data = data[os.write(descriptor, data) :]
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def private_folder(path: Path) -> Path:
    """Make the folder if it is missing, for its owner alone; one that exists keeps its mode."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def read_limited(path: str | os.PathLike[str], limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes.

    Raises `FileTooLarge` for more, without reading it, and `OSError` for what is no regular file: a pipe
    would keep the reader waiting.
    """
    place = Path(path)
    descriptor = os.open(place, os.O_RDONLY | _NON_BLOCKING | _CLOSE_ON_EXEC | _BINARY)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(place))
        if status.st_size > limit:
            raise FileTooLarge(place, limit)
        data = file.read(limit + 1)
    if len(data) > limit:
        raise FileTooLarge(place, limit)
    return data


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # folders cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY | _CLOSE_ON_EXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
