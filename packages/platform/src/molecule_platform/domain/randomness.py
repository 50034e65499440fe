"""Which runs of signs are random, as keys and tokens are, and which are paths, ids, digests or words."""

import re
from collections import Counter
from math import log2

SHORTEST = 33
OUR_TOKEN_LENGTH = 43
LEAST_BITS_PER_SIGN = 3.5
WORDS_AVERAGE = 4
LONGEST_WORD = 20

_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_DIGEST_LENGTHS = (128, 96, 64, 56, 40, 32)
_DIGEST = "|".join(rf"[0-9a-f]{{{length}}}|[0-9A-F]{{{length}}}" for length in _DIGEST_LENGTHS)
_KNOWN = re.compile(rf"(?<![0-9a-fA-F])(?:{_UUID}|{_DIGEST})(?![0-9a-fA-F])")
_LETTERS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SEPARATOR = re.compile(r"[-_./~]")


def is_path(run: str) -> bool:
    """Whether it says itself that it is a path: `/srv/x`, `./x`, `~/x`, `C:\\x`."""
    return run.startswith(("/", "./", "../", "~/", ".\\", "..\\")) or run[1:3] in (":\\", ":/")


def is_random(run: str) -> bool:
    """Whether a run of signs (letters, digits, `+-_./~=`) looks like the value of a key."""
    if is_path(run) and not run.endswith("="):
        return False
    rest = _KNOWN.sub("", run).strip("=")
    return (
        len(rest) >= SHORTEST
        and _is_mixed(rest)
        and not _is_words(rest)
        and _bits(rest) >= LEAST_BITS_PER_SIGN
    )


def _is_mixed(run: str) -> bool:
    """With separators only both cases tell: `web-7d9f8b6c5d-x2k4j` is the name of a machine."""
    lower, upper = any(map(str.islower, run)), any(map(str.isupper, run))
    if lower and upper:
        return True
    longest = max(_SEPARATOR.split(run), key=len)
    return len(longest) >= SHORTEST and not longest.isdigit() and any(map(str.isdigit, longest))


def _is_words(run: str) -> bool:
    separated = _SEPARATOR.search(run) is not None
    if len(run) == OUR_TOKEN_LENGTH and "/" not in run and "." not in run:
        return False
    if not separated and any(map(str.isdigit, run)):
        return False
    lengths = [len(word) for word in _LETTERS.findall(run)]
    return max(lengths) <= LONGEST_WORD and sum(lengths) >= WORDS_AVERAGE * len(lengths)


def _bits(run: str) -> float:
    """The entropy of its signs, in bits per sign."""
    counts = Counter(run).values()
    return -sum(count * log2(count / len(run)) for count in counts) / len(run)
