"""Paths of workspace files, and the closed pattern language of file grants, views and denials.

The language is small on purpose: whether one pattern covers another can be decided by looking at the two
texts, so a child of a grant can be proven not to reach further than its parent.
"""

import unicodedata
from enum import Enum, auto
from typing import NamedTuple

MAX_BYTES = 1024
MAX_SEGMENTS = 64
_WILDCARDS = frozenset("*?[]{}")


class Form(Enum):
    """What a pattern matches."""

    EXACT = auto()
    CHILDREN = auto()
    TREE = auto()
    NAME = auto()
    EXTENSION = auto()
    BELOW_NAME = auto()


DENY_ONLY = frozenset({Form.NAME, Form.EXTENSION, Form.BELOW_NAME})
"""Forms that may only deny."""


class Pattern(NamedTuple):
    """A pattern taken apart: `base` is the directory, path, name or ending that its form is about.

    The base of `*` and `**` is empty.
    """

    form: Form
    base: str


def normalize(path: str) -> str:
    """The path in Unicode form NFC. Anything else that is wrong with it is refused, never repaired.

    Raises ValueError for an empty path, a leading `/`, a backslash, control characters, empty, `.` or `..`
    segments, more than 1024 bytes or more than 64 segments.
    """
    normal = unicodedata.normalize("NFC", path)
    try:
        size = len(normal.encode())
    except UnicodeEncodeError:
        raise ValueError(f"the path {path!r} has an unpaired surrogate") from None
    if not normal or size > MAX_BYTES:
        raise ValueError(f"a path has 1 to {MAX_BYTES} bytes, this one has {size}")
    if normal.startswith("/") or "\\" in normal:
        raise ValueError(f"the path {path!r} must be relative, with / between its segments")
    if any(unicodedata.category(character) == "Cc" for character in normal):
        raise ValueError(f"the path {path!r} has a control character")
    segments = normal.split("/")
    if len(segments) > MAX_SEGMENTS:
        raise ValueError(f"a path has at most {MAX_SEGMENTS} segments, this one has {len(segments)}")
    if any(segment in ("", ".", "..") for segment in segments):
        raise ValueError(f"the path {path!r} has an empty, . or .. segment")
    return normal


def parse(pattern: str) -> Pattern:
    """Take a pattern apart. Raises ValueError for one outside the language."""
    text = normalize(pattern)
    if text == "**" or text.endswith("/**"):
        rest = text[:-3] if text != "**" else ""
        found = Pattern(Form.BELOW_NAME, rest[3:]) if rest.startswith("**/") else Pattern(Form.TREE, rest)
        is_known = "/" not in found.base or found.form is Form.TREE
    elif text == "*" or (text.endswith("/*") and not text.startswith("**/")):
        found, is_known = Pattern(Form.CHILDREN, text[:-2] if text != "*" else ""), True
    elif text.startswith("**/*."):
        found = Pattern(Form.EXTENSION, text[5:])
        is_known = bool(found.base) and "/" not in found.base
    elif text.startswith("**/"):
        found = Pattern(Form.NAME, text[3:])
        is_known = "/" not in found.base
    else:
        found, is_known = Pattern(Form.EXACT, text), True
    if not is_known or _WILDCARDS & set(found.base):
        raise ValueError(
            f"the pattern {pattern!r} is not one of: a/b.txt, a/*, a/**, "
            "and, only to deny, **/NAME, **/*.EXT, **/NAME/**"
        )
    return found


def check_pattern(pattern: str, *, deny: bool = False) -> str:
    """The pattern in form NFC, if it may stand in a list of reads or writes, or of denials.

    Raises ValueError otherwise.
    """
    if parse(pattern).form in DENY_ONLY and not deny:
        raise ValueError(f"the pattern {pattern!r} can only deny; to read or write use a/b.txt, a/* or a/**")
    return normalize(pattern)


def matches(pattern: str, path: str) -> bool:
    """Whether a pattern means a path; case-sensitive. Raises ValueError for a bad one of either."""
    form, base = parse(pattern)
    normal = normalize(path)
    parent, _, last = normal.rpartition("/")
    if form is Form.EXACT:
        return normal == base
    if form is Form.CHILDREN:
        return parent == base
    if form is Form.TREE:
        return not base or normal.startswith(f"{base}/")
    if form is Form.NAME:
        return last == base
    if form is Form.EXTENSION:
        return last.endswith(f".{base}")
    return base in normal.split("/")[:-1]


def covers(parent: str, child: str) -> bool:
    """Whether everything that `child` matches is matched by `parent`. Raises ValueError for a bad pattern."""
    over, under = parse(parent), parse(child)
    if over == under or over == Pattern(Form.TREE, ""):
        return True
    if under.form in DENY_ONLY:
        return False
    if over.form is Form.TREE:
        is_inside = under.base.startswith(f"{over.base}/")
        return is_inside or (under.form is not Form.EXACT and under.base == over.base)
    if over.form is Form.CHILDREN:
        return under.form is Form.EXACT and under.base.rpartition("/")[0] == over.base
    return False
