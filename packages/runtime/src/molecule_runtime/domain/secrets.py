"""The table of secret patterns, and how a text loses what they match.

Every pattern costs time linear in the text: a search that can fail late starts only where no run of its own
characters is under way. `redact` repeats the table until nothing changes, so redacting twice changes nothing.
"""

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from molecule_runtime.domain.entropy import MIN_LENGTH, is_random

KNOWN_LABEL = "VALUE"
MIN_KNOWN_LENGTH = 6
"""Shorter values are no secrets: a text would lose every `1` and `true`."""

_MARKER_TEXT = r"\[REDACTED(?::[A-Z0-9_]{1,40})?\]"
MARKER = re.compile(_MARKER_TEXT)
_PIECES = re.compile(f"({_MARKER_TEXT})")

# A text that holds JSON has escapes before what it says: `\nghp_…`, `\u201cghp_…`.
_AFTER_ESCAPE = r"(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{4})"


def marker(label: str) -> str:
    """What stays in the place of a secret."""
    return f"[REDACTED:{label}]"


@dataclass(frozen=True)
class TokenKind:
    """Tokens with a prefix of their own: `prefix`, then at least `minimum` characters of `alphabet`.

    `memory_minimum` is the length that counts in memories. `not_after` are the characters that may not stand
    before one.
    """

    label: str
    prefix: str
    alphabet: str
    minimum: int
    words: tuple[str, ...]
    memory_minimum: int | None = None
    not_after: str = r"A-Za-z0-9"

    def start(self, minimum: int | None = None) -> str:
        """The pattern of what shows that one begins; all further characters of `alphabet` belong to it."""
        least = self.minimum if minimum is None else minimum
        return rf"(?:(?<![{self.not_after}])|{_AFTER_ESCAPE}){self.prefix}[{self.alphabet}]{{{least}}}"

    def whole(self, minimum: int | None = None) -> re.Pattern[str]:
        """The pattern of a whole one."""
        return re.compile(rf"{self.start(minimum)}[{self.alphabet}]*+", re.ASCII)


# `sk-` is a word of its own: "task-…" is none, nor is "/docs/sk-learn-tutorials".
TOKEN_KINDS = (
    TokenKind("SK_TOKEN", "sk-", r"\w-", 16, ("sk-",), memory_minimum=20, not_after=r"\w./~-"),
    TokenKind("GITHUB_PAT", "ghp_", r"\w", 20, ("ghp_",), memory_minimum=36),
    TokenKind("GITHUB_SERVER_TOKEN", "ghs_", r"\w", 1, ("ghs_",), memory_minimum=36),
    TokenKind("GITHUB_PAT_V2", "github_pat_", r"\w", 60, ("github_pat_",), memory_minimum=82),
    TokenKind("AWS_ACCESS_KEY", "AKIA", "0-9A-Z", 16, ("akia",), memory_minimum=16),
    TokenKind("CF_TOKEN", "cfut_", r"\w-", 32, ("cfut_",)),
    TokenKind("MOL_PK", "mol_pk_", r"\w-", 20, ("mol_pk_",)),
    TokenKind("CTX7_TOKEN", "ctx7_", r"\w-", 1, ("ctx7_",)),
)
LATER_TOKEN_KINDS = (
    TokenKind("SLACK_TOKEN", "xox[abprs]-", r"\w-", 1, ("xox",), memory_minimum=1),
    TokenKind("GOOGLE_API_KEY", "AIza", r"\w-", 35, ("aiza",), memory_minimum=35),
)


@dataclass(frozen=True)
class Rule:
    """One row of the table: the last group that matched is the secret; without any groups, the whole match.

    A text is searched only if it has one of `words` (in lower case); nearly every text has none of them.
    A rule without words looks for long runs.
    """

    label: str
    pattern: re.Pattern[str]
    words: tuple[str, ...]
    is_secret: Callable[[str], bool] = lambda _value: True

    def may_match(self, lower: str) -> bool:
        """Whether a search is worth its time, for a text in lower case."""
        if self.words:
            return any(word in lower for word in self.words)
        return _longest_run(lower) >= MIN_LENGTH

    def sub(self, text: str, mark: str) -> str:
        """The text with `mark` in the place of every secret of this kind."""

        def replaced(found: re.Match[str]) -> str:
            whole, group = found[0], found.lastindex or 0
            value = found[group]
            is_context = self.pattern.groups and not group
            if is_context or MARKER.fullmatch(value) or not self.is_secret(value):
                return whole
            start = found.start(group) - found.start()
            return whole[:start] + mark + whole[start + len(value) :]

        return self.pattern.sub(replaced, text)


# Assignments: `X_TOKEN=value`, `x_token: "value"`, also with the quotes of JSON in a JSON string.
_QUOTE = r"\\{0,3}[\"']"
_BACKSLASH = r"\\(?![bfnrtu\"'\\/])"
_SIGN = rf"(?:[^\s\"'`,;&<>@)}}\\]|{_BACKSLASH})"
_PASSWORD_SIGN = rf"(?:[^\s\"'`;&\\]|{_BACKSLASH})"
_NOT_NOTHING = r"(?!(?:null|none|true|false)\b)"
_GIVEN = r"[ \t]{0,8}[:=][ \t]{0,8}"
# After a colon or spaces a value has to look like one: "the secret: patience", "token: 1500".
_TOLD = r"(?!~?\.{0,2}/|\d{1,9}\b)(?=[^\s\"',;&]{0,64}\d)"


def _assignment(names: str, sign: str, told: str) -> re.Pattern[str]:
    quoted = rf"{_GIVEN}(?P<quote>{_QUOTE})(?![\s,)\]}}:])((?:(?!(?P=quote))(?:\\[^\r\n]|[^\\\r\n]))++)"
    direct = rf"={_NOT_NOTHING}((?:(?:bearer|basic)\s{{1,8}})?{sign}++)"
    spaced = rf"{_GIVEN}{_NOT_NOTHING}{told}"
    return re.compile(rf"(?:{names})(?:{_QUOTE})?(?:{quoted}|{direct}|{spaced})", re.IGNORECASE)


_NAMES = (
    ("API_KEY", r"api[_-]?key", ("key",)),
    ("TOKEN", r"token", ("token",)),
    (
        "SECRET",
        r"secret(?:[_-]?(?:access[_-]?)?key)?|(?:private|signing|encryption|access)[_-]?key(?!=~?/)",
        ("secret", "key"),
    ),
)
_PASSWORD_NAMES = r"password|(?<![/.])passwd|passphrase|pwd(?!=(?:/|~|\.|[a-z]:\\))"  # noqa: S105 - a pattern
_PRIVATE_BLOCK = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_BEARER_PROSE = (
    r"tokens?|auth|authentication|authorization|schemes?|headers?|credentials?|of|is|and|or|the|with"
)

_PRIVATE_KEY = Rule(
    "PRIVATE_KEY",
    re.compile(rf"-----BEGIN {_PRIVATE_BLOCK}.*?(?:-----END {_PRIVATE_BLOCK}|\Z)", re.DOTALL),
    ("private key",),
)
_ASSIGNMENTS = tuple(
    Rule(label, _assignment(names, _SIGN, rf"{_TOLD}({_SIGN}{{6,}}+)"), words)
    for label, names, words in _NAMES
)
_BEARER = Rule(
    "BEARER_TOKEN",
    re.compile(
        rf"\bbearer\s{{1,8}}(?!(?:{_BEARER_PROSE})(?![\w.~+/=-]))([\w.~+/=-]*[\w~+/=-])",
        re.ASCII | re.IGNORECASE,
    ),
    ("bearer",),
)
_KINDS = tuple(Rule(kind.label, kind.whole(), kind.words) for kind in TOKEN_KINDS)
_LATER_KINDS = tuple(Rule(kind.label, kind.whole(), kind.words) for kind in LATER_TOKEN_KINDS)
_DSN = Rule(
    "DSN_PASSWORD",
    re.compile(rf"://(?:{_MARKER_TEXT}|[^\s/:@\"'<>`\\\[])*+:([^\s/\"'<>`\\]+)(?=@)"),
    ("://",),
)
_PASSWORD = Rule(
    "PASSWORD",
    _assignment(_PASSWORD_NAMES, _PASSWORD_SIGN, rf"({_PASSWORD_SIGN}{{4,}}+)"),
    ("passw", "passphrase", "pwd"),
)
_BASIC = Rule(
    "PASSWORD",
    re.compile(r"\bauthorization\W{1,8}basic\s{1,8}([\w+/=-]+)", re.ASCII | re.IGNORECASE),
    ("basic",),
)
_JWT = Rule(
    "JWT",
    re.compile(
        rf"(?:(?<![\w-])|{_AFTER_ESCAPE})eyJ[\w-]{{4,}}+\.[\w-]{{4,}}+\.[\w-]*+(?:\.[\w-]{{16,}}+){{0,2}}",
        re.ASCII,
    ),
    ("eyj",),
)
# A URL without user-info is matched whole, so that its path is no candidate; the value of a query is one.
_BLOB = Rule(
    "BASE64_BLOB",
    re.compile(
        r"[A-Za-z][A-Za-z0-9]{1,15}://(?![^\s/@]*@)[^\s?#,;|()\[\]{}\"'<>\\]*+"
        rf"|(?:(?<![\w+/.~\\-])|{_AFTER_ESCAPE})([\w+/.~-]{{{MIN_LENGTH},}}(?<=[\w+/~-])={{0,2}})",
        re.ASCII,
    ),
    (),
    is_random,
)

SCRUB_RULES = (
    # Before all others, although it is listed late: `X_TOKEN=-----BEGIN …` would lose only its first word.
    _PRIVATE_KEY,
    *_ASSIGNMENTS,
    _BEARER,
    *_KINDS,
    _DSN,
    _PASSWORD,
    _BASIC,
    *_LATER_KINDS[:1],
    _JWT,
    *_LATER_KINDS[1:],
    _BLOB,
)

IDENTIFIER_RULES = SCRUB_RULES[:-1]
"""For ids, which are random like secrets: all but the entropy rule."""

MEMORY_RULES = (
    _PRIVATE_KEY,
    *(
        Rule(kind.label, kind.whole(kind.memory_minimum), kind.words)
        for kind in (*TOKEN_KINDS, *LATER_TOKEN_KINDS)
        if kind.memory_minimum is not None
    ),
    Rule(
        "SECRET",
        re.compile(
            rf"(?:key|token|secret|password)(?:{_QUOTE})?{_GIVEN}(?:{_QUOTE})?([\w+/=.~-]{{40,}}+)",
            re.ASCII | re.IGNORECASE,
        ),
        ("key", "token", "secret", "password"),
    ),
    _DSN,
    _PASSWORD,
    _JWT,
)


_WORDS = tuple(dict.fromkeys(word for rule in (*SCRUB_RULES, *MEMORY_RULES) for word in rule.words))
_ANY_WORD = re.compile("|".join(map(re.escape, _WORDS)))
_SHORT = 512  # characters up to which one search for all words is quicker than one for each


def redact(
    text: str, rules: Iterable[Rule], mark: Callable[[str], str], known_values: Iterable[str] = ()
) -> str:
    """The text without known values and without what the rules match; `mark` gives what stays for a label.

    It ends because every change leaves fewer characters outside of markers, or fewer markers.
    """
    known = _known_pattern(tuple(known_values))
    while True:
        before = text
        if known is not None and known.search(text):
            text = _without_known(text, known, mark(KNOWN_LABEL))
        lower = text.lower()
        # Asked once for all rules: to ask each of them took a third of a short turn.
        if _has_word(lower) or _longest_run(lower) >= MIN_LENGTH:
            for rule in rules:
                if rule.may_match(lower):
                    text = rule.sub(text, mark(rule.label))
        if text == before:
            return text


def is_clean(text: str, known_values: tuple[str, ...]) -> bool:
    """Whether a text has no known value and nothing that any rule could match."""
    known, lower = _known_pattern(known_values), text.lower()
    if known is not None and known.search(text):
        return False
    return not _has_word(lower) and _longest_run(lower) < MIN_LENGTH


def _has_word(lower: str) -> bool:
    if len(lower) <= _SHORT:
        return _ANY_WORD.search(lower) is not None
    return any(word in lower for word in _WORDS)


def _longest_run(text: str) -> int:
    return max(map(len, text.split()), default=0)


def usable(known_values: Iterable[str]) -> tuple[str, ...]:
    """The known values that are long enough to be redacted, the longest first."""
    stripped = {value.strip() for value in known_values}
    return tuple(sorted((one for one in stripped if len(one) >= MIN_KNOWN_LENGTH), key=_longest_first))


def _longest_first(value: str) -> tuple[int, str]:
    return -len(value), value


@functools.lru_cache(maxsize=16)
def _known_pattern(known_values: tuple[str, ...]) -> re.Pattern[str] | None:
    values = usable(known_values)
    return re.compile("|".join(map(re.escape, values))) if values else None


def _without_known(text: str, known: re.Pattern[str], mark: str) -> str:
    pieces = _PIECES.split(text)
    pieces[::2] = [known.sub(lambda _found: mark, piece) for piece in pieces[::2]]
    return "".join(pieces)
