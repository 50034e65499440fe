"""Reading a text file that somebody else put there."""

import os
import stat
from pathlib import Path


class UnreadableFile(Exception):
    """A file cannot be read; the text says why, `line` where."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line


def read_text(path: Path, largest: int) -> str:
    """The text of a regular file that is no link, is not longer than `largest` bytes, and is UTF-8."""
    try:
        content = _bytes(path, largest)
    except (OSError, ValueError) as problem:
        raise UnreadableFile(_why(path, problem)) from None
    if len(content) > largest:
        raise UnreadableFile(f"longer than {largest} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise UnreadableFile(f"not UTF-8 (byte {problem.start})") from None


def _bytes(path: Path, largest: int) -> bytes:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise UnreadableFile("not a regular file")
        return file.read(largest + 1)


def _why(path: Path, problem: Exception) -> str:
    if isinstance(problem, OSError) and os.path.islink(path):
        return "a link; put the file itself here"
    return (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
