"""Shannon entropy of a run of characters: tells keys from paths, identifiers and digests."""

import re
from collections import Counter
from math import log2

MIN_LENGTH = 33
MIN_BITS_PER_CHARACTER = 3.5
DIGEST_LENGTHS = frozenset({32, 40, 56, 64, 96, 128})

# A change from small to capital letter, or between letter and digit. Random base64 has one in 42 % of its
# pairs, camel case in about 20 %, plain words in none.
MIN_CHANGES = 0.2

_UUID = re.compile(
    r"(?<![0-9A-Za-z])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![0-9A-Za-z])", re.ASCII
)
_SEPARATORS = re.compile(r"[-_./~]")
_HEX = re.compile(r"[0-9a-fA-F]+")
_CHANGE = re.compile(r"[a-z](?=[A-Z])|[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])")


def is_random(run: str) -> bool:
    """Whether a run of `[A-Za-z0-9+/_.~-]`, with its `=` padding, looks like a key.

    Paths, URL paths, UUIDs and hex digests do not, nor do words that are joined by separators. A run of
    letters and digits alone is judged by its entropy only.
    """
    if run.startswith(("/", "./", "../", "~/")) and "+" not in run and "=" not in run:
        return False
    words = [word for word in _SEPARATORS.split(_UUID.sub("", run.rstrip("="))) if not _is_digest(word)]
    rest = "-".join(words)
    if len(rest) < MIN_LENGTH or not _is_mixed(rest):
        return False
    if _is_joined(run) and _changes(words) < MIN_CHANGES:
        return False
    return bits_per_character(rest) >= MIN_BITS_PER_CHARACTER


def bits_per_character(text: str) -> float:
    """The entropy of the characters of a text that is not empty."""
    counts = Counter(text).values()
    return -sum(count * log2(count / len(text)) for count in counts) / len(text)


def _is_digest(word: str) -> bool:
    return len(word) in DIGEST_LENGTHS and _HEX.fullmatch(word) is not None


def _is_mixed(run: str) -> bool:
    lower, upper = run.upper() != run, run.lower() != run
    return (lower and upper) or ((lower or upper) and any(map(str.isdigit, run)))


def _is_joined(run: str) -> bool:
    """Whether it may be words with separators; `+` and `=` stand in base64 only."""
    return _SEPARATORS.search(run) is not None and "+" not in run and "=" not in run


def _changes(words: list[str]) -> float:
    pairs = sum(max(len(word) - 1, 0) for word in words)
    return sum(len(_CHANGE.findall(word)) for word in words) / max(pairs, 1)
