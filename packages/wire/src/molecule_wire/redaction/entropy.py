"""Entropy rule: tell random keys from paths, identifiers, digests and words."""

import re
from collections import Counter
from math import log2

MIN_LENGTH = 33
MIN_BITS_PER_CHARACTER = 3.5
MIN_AVERAGE_WORD = 4
MAX_WORD = 20
OUR_TOKEN_LENGTH = 43

_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_DIGEST = "|".join(rf"[0-9a-fA-F]{{{length}}}" for length in (128, 96, 64, 56, 40, 32))
_IDENTIFIER = re.compile(rf"(?<![0-9a-fA-F])(?:{_UUID}|{_DIGEST})(?![0-9a-fA-F])")
_PATH = re.compile(r"~?\.{0,2}/|\.{1,2}\\|[A-Za-z]:[\\/]|[0-9]{1,5}/")
_SEPARATOR = re.compile(r"[-_./~]")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LETTER = re.compile(r"[A-Za-z]")
_DIGIT = re.compile(r"[0-9]")


def is_path(text: str) -> bool:
    """Return True for text that starts like a path: `/srv/x`, `./x`, `~/x`, `C:\\x`, `8080/x` of a URL."""
    return _PATH.match(text) is not None


def is_random(run: str) -> bool:
    """Return True if a run of `[A-Za-z0-9+/_.~-]` with `=` padding looks like a key.

    Paths, URL paths, UUIDs and hex digests do not, nor do words in camel case or joined by separators.
    """
    if is_path(run) and "+" not in run and "=" not in run:
        return False
    rest = _IDENTIFIER.sub("", run).strip("=")
    return (
        len(rest) >= MIN_LENGTH
        and _is_mixed(rest)
        and not _is_words(rest)
        and _bits_per_character(rest) >= MIN_BITS_PER_CHARACTER
    )


def is_random_value(value: str) -> bool:
    """Return True if a value under the name of a secret looks like a key and not like code or a word.

    The name is evidence too, so that shorter values, UUIDs and hex digests count.
    """
    return (
        _LETTER.search(value) is not None
        and _DIGIT.search(value) is not None
        and not is_path(value)
        and not _is_words(value)
    )


def _is_mixed(run: str) -> bool:
    # With separators only both cases count: `web-7d9f8b6c5d-x2k4j` is the name of a machine.
    if run.upper() != run and run.lower() != run:
        return True
    longest = max(_SEPARATOR.split(run), key=len)
    return len(longest) >= MIN_LENGTH and not longest.isdigit() and _DIGIT.search(longest) is not None


def _is_words(run: str) -> bool:
    # One of a thousand random tokens looks like words with separators; ours have a length of their own.
    is_ours = len(run) == OUR_TOKEN_LENGTH and "/" not in run and "." not in run
    if _DIGIT.search(run) is not None and (is_ours or _SEPARATOR.search(run) is None):
        return False
    lengths = [len(word) for word in _WORD.findall(run)]
    return max(lengths, default=0) <= MAX_WORD and sum(lengths) >= MIN_AVERAGE_WORD * len(lengths)


def _bits_per_character(run: str) -> float:
    counts = Counter(run).values()
    return -sum(count * log2(count / len(run)) for count in counts) / len(run)
