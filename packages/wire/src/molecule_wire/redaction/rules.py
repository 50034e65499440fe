"""Rules: the pattern of a credential kind, and what of a match is the secret.

Every pattern costs time linear in the text: a search that can fail late starts only where no run of its own
characters is under way. Rules for answers decide from `WINDOW` characters, because answers are streamed.
"""

import functools
import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from molecule_wire.redaction.entropy import MIN_LENGTH, is_random
from molecule_wire.redaction.tokens import AFTER_ESCAPE, TOKEN_KINDS, TokenKind, starts_with

WINDOW = 128
"""Characters from the start of a match that decide it in a stream."""

LONG_WORD = 20
"""Most kinds are longer than nearly all words: only long words are searched for their prefixes."""

MARKER_TEXT = r"\[REDACTED(?::[A-Z0-9_]{1,40})?\]"
MARKER = re.compile(MARKER_TEXT)


class Subject(NamedTuple):
    """A text to be searched.

    `lower` is the same in lower case, with equal positions. `long_words` are its words of `LONG_WORD`
    characters and more; the runs are the words that the entropy rule judges.
    """

    text: str
    lower: str
    long_words: str
    run_starts: list[int]
    run_ends: list[int]


def prepare(text: str) -> Subject:
    """Return a text ready to be searched."""
    lower = text.lower()
    if len(lower) != len(text):  # `İ` has two characters in lower case
        lower = "".join([one if len(one.lower()) > 1 else one.lower() for one in text])
    long_words = [word for word in text.split() if len(word) >= LONG_WORD]
    starts, ends, position = list[int](), list[int](), 0
    for word in long_words:
        if len(word) >= MIN_LENGTH:
            starts.append(text.index(word, position))
            position = starts[-1] + len(word)
            ends.append(position)
    return Subject(text, lower, " ".join(long_words), starts, ends)


@dataclass(frozen=True, eq=False)
class Rule:
    """One row of the table: the last group that matched is the secret; without groups, the whole match.

    A text is searched only if it has one of `words` (in a long word if `is_long`), or one of `lower_words` in
    lower case, or a match of `gate`. A rule with `is_run` searches runs alone, one with `in_lower` the text
    in lower case. `rest` matches what follows and belongs to the secret, however long; `end` finds its end.
    `title` names the kind in findings, `type` selects it in answers, where `answer_label` replaces `label`.
    """

    label: str
    title: str
    source: str
    flags: int = 0
    words: tuple[str, ...] = ()
    lower_words: tuple[str, ...] = ()
    gate: re.Pattern[str] | None = None
    is_long: bool = False
    is_run: bool = False
    in_lower: bool = False
    rest: re.Pattern[str] | None = None
    end: re.Pattern[str] | None = None
    is_secret: Callable[[str], bool] | None = None
    type: str = "api_key"
    answer_label: str = ""

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern; compiling all of them at import would take longer than most commands run."""
        return re.compile(self.source, self.flags)

    def find(self, subject: Subject, position: int) -> tuple[int, int, int] | None:
        """Return start of the match, start and end of the secret, or None."""
        if not self.is_run:
            return self._find(subject, position, len(subject.text))
        for place in range(bisect_right(subject.run_ends, position), len(subject.run_ends)):
            start = max(position, subject.run_starts[place])
            if found := self._find(subject, start, subject.run_ends[place]):
                return found
        return None

    def _find(self, subject: Subject, position: int, limit: int) -> tuple[int, int, int] | None:
        searched = subject.lower if self.in_lower else subject.text
        while match := self.pattern.search(searched, position, limit):
            start, end = match.span(match.lastindex or 0)
            value = subject.text[start:end]
            if not MARKER.fullmatch(value) and (self.is_secret is None or self.is_secret(value)):
                return match.start(), start, end
            position = match.start() + 1
        return None


# What is joined to a token goes with it.
JOINED = re.compile(r"[\w+/=~-]*", re.ASCII)
DOTTED = re.compile(r"(?:[\w+/=~-]|\.(?=[\w-]))*", re.ASCII)


def token_rule(kind: TokenKind, minimum: int) -> Rule:
    """Return the rule of a token kind."""
    return Rule(
        kind.label,
        kind.title,
        kind.start(minimum),
        re.ASCII,
        words=kind.words,
        is_long=min(map(len, kind.words)) + minimum >= LONG_WORD,
        rest=DOTTED if "." in kind.alphabet else JOINED,
        type=kind.type,
        answer_label=kind.type.upper(),
    )


def token_rules(minimum: Callable[[TokenKind], int | None]) -> tuple[Rule, ...]:
    """Return the rules of all token kinds, with the lengths of one column where it has one."""
    return tuple(token_rule(kind, minimum(kind) or kind.minimum) for kind in TOKEN_KINDS)


JWT = Rule(
    "JWT",
    "JSON Web Token",
    starts_with("eyJ", r"\w-") + r"[\w-]{8,110}\.[\w-]{8}",
    re.ASCII,
    words=("eyJ",),
    is_long=True,
    rest=DOTTED,
)
DISCORD_TOKEN = Rule(
    "DISCORD_TOKEN",
    "Discord bot token",
    rf"(?:(?<![\w.-])|{AFTER_ESCAPE})[MNO][\w-]{{23,27}}\.[\w-]{{6}}\.[\w-]{{27}}",
    re.ASCII,
    is_run=True,
    rest=JOINED,
)

# Random runs.
BLOB = Rule(
    "BASE64_BLOB",
    "random value",
    rf"(?:(?<![\w+/.~\\-])|{AFTER_ESCAPE})[\w+/.~-]{{{MIN_LENGTH},}}(?<=[\w+/~-])={{0,2}}",
    re.ASCII,
    is_run=True,
    is_secret=is_random,
)
# Answers hold images and archives in base64. There only a run that has exactly the form of our own tokens
# (32 random bytes in base64url) counts.
OUR_TOKEN = Rule(
    "TOKEN",
    "Molecule token",
    rf"(?:(?<![\w+/.~=\\-])|{AFTER_ESCAPE})(?<!SHA256:)[\w-]{{43}}(?![\w+/=~-])(?!\.[\w-])",
    re.ASCII,
    is_run=True,
    is_secret=is_random,
)
HEX_64 = Rule("HEX", "64+ hex string", r"(?<![0-9a-fA-F])[0-9a-fA-F]{64,}", is_run=True)
