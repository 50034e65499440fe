"""Takes a secret out of the command line that other users of the machine can see."""

import re
import sys
from pathlib import Path

_ARG_START, _ARG_END = 45, 46  # of /proc/self/stat, counted from behind the name of the program
_MAX_LENGTH = 1 << 21


def hide(secret: str) -> None:
    """Overwrite a secret among the arguments of this process; does nothing where that is not possible."""
    if not secret or not sys.platform.startswith("linux"):
        return
    try:
        start, end = _arguments()
    except (OSError, ValueError, IndexError):
        return
    if 0 < end - start <= _MAX_LENGTH and _is_writable(start, end):
        _overwrite(start, end - start, secret.encode())


def _arguments() -> tuple[int, int]:
    numbers = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(numbers[_ARG_START]), int(numbers[_ARG_END])


def _is_writable(start: int, end: int) -> bool:
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        place, rights, *_ = line.split()
        first, last = (int(number, 16) for number in place.split("-"))
        if first <= start and end <= last:
            return rights.startswith("rw")
    return False


def _overwrite(start: int, length: int, secret: bytes) -> None:
    import ctypes

    # Only where it is a whole argument, or the whole value of one: short secrets are in many words.
    whole = re.compile(rb"(?<=[\0=])" + re.escape(secret) + rb"(?=\0)")
    for found in whole.finditer(ctypes.string_at(start, length)):
        ctypes.memset(start + found.start(), ord("*"), len(secret))
