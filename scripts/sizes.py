"""The size ratchet: a file is one noun, so it ends before 400 lines (a test before 800).

A file that is longer today stands in `EXCEPTIONS` with its exact number of lines. When the file shrinks, its
number must follow; a new exception or a larger number needs a reason that a reviewer accepts.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from scripts import repository

SOURCE_LIMIT = 400
TEST_LIMIT = 800
SUFFIXES = frozenset({".py", ".ts", ".tsx", ".css", ".sh"})
EXCEPTIONS: dict[str, int] = {}


def is_test(path: str) -> bool:
    """Whether the roomier limit of tests applies."""
    name = Path(path).name
    return "tests" in Path(path).parts or name == "conftest.py" or ".test." in name


def faults(sizes: Mapping[str, int], exceptions: Mapping[str, int]) -> list[str]:
    """One sentence for each file that breaks the ratchet, in the order of the paths."""
    paths = sorted(sizes.keys() | exceptions.keys())
    found = (_fault(path, sizes.get(path), exceptions.get(path)) for path in paths)
    return [sentence for sentence in found if sentence]


def _fault(path: str, size: int | None, excepted: int | None) -> str | None:
    limit = TEST_LIMIT if is_test(path) else SOURCE_LIMIT
    if size is None:
        return f"{path}: the exception names a file that is gone; remove it."
    if excepted is None:
        return f"{path}: {size} lines, the limit is {limit}; split it by noun." if size > limit else None
    if size <= limit:
        return f"{path}: {size} lines are within the limit of {limit} now; remove the exception."
    if size > excepted:
        return f"{path}: grew from {excepted} to {size} lines; an exception may only shrink."
    return (
        f"{path}: shrank to {size} lines; lower its exception from {excepted}." if size < excepted else None
    )


def measure() -> dict[str, int]:
    """The number of lines of every source and test file of the repository."""
    sources = [path for path in repository.files() if path.suffix in SUFFIXES]
    return {path.as_posix(): len((repository.ROOT / path).read_bytes().splitlines()) for path in sources}


def main() -> int:
    found = faults(measure(), EXCEPTIONS)
    print("\n".join(found) or "Every file keeps to its size.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
