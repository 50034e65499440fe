"""Commands in hints, as the reader has to type them here to reach the same platform."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path


def command(words: str, flags: Sequence[str] = ()) -> str:
    """The command of these words with the flags in use; a flag that the words give themselves is theirs."""
    given = words.split()
    repeated = [flag for flag in flags if flag.split()[0] not in given]
    return " ".join([_program(), words, *repeated])


def flag(name: str, value: object) -> str:
    """An option with its value."""
    return f"{name} {word(str(value))}"


def word(text: str) -> str:
    """A text as one word of a command."""
    return shlex.quote(text)


def short(path: Path) -> str:
    """A path as it is written in this folder."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _program() -> str:
    own = Path(sys.argv[0])
    return short(own) if own.name == "molecule" and not shutil.which("molecule") else "molecule"
