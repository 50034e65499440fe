"""Output redaction: what an agent says loses personal data and secrets, as a whole or while it is streamed.

Two stages, each with a hold-back of at most 127 characters: known values are taken out literally, then the
patterns are matched. A stage decides about a place in the text only when what is still to come cannot change
the decision, so it does not matter in which pieces a text comes.
"""

import functools
import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from molecule_runtime.domain.literal_redaction import LiteralRedactor, has_none
from molecule_runtime.domain.secrets import LATER_TOKEN_KINDS, MARKER, TOKEN_KINDS, TokenKind, marker

OUTPUT_TYPES = ("github_token", "aws_key", "api_key", "email", "ssn", "credit_card")
DEFAULT_TYPES = tuple(one for one in OUTPUT_TYPES if one != "email")
"""Without `email`: an agent that is asked for an address could not answer."""

SECRET_TYPES = ("github_token", "aws_key", "api_key")
"""What is redacted of the text of an agent whose configuration turns the checks of compliance off."""

WINDOW = 128
"""No decision about a place needs more characters from there on."""

_FIRST = {"github_token": "g", "aws_key": "A", "api_key": "sAxcm", "ssn": "0-9", "credit_card": "2-6"}
_CONTEXT = 8  # what a lookbehind may see of text that has gone out
_CARD_CHARACTERS = 40
_DOMAIN = r"(?:[A-Za-z0-9-]|\.(?=[A-Za-z0-9-]))*"


class _Alternative(NamedTuple):
    """What shows that a secret begins, and what of the text after it belongs to it, however long it is."""

    type: str
    start: str
    rest: str


def _tokens(type: str, *kinds: TokenKind) -> list[_Alternative]:
    return [_Alternative(type, kind.start(), f"[{kind.alphabet}]*") for kind in kinds]


_BY_LABEL = {kind.label: kind for kind in (*TOKEN_KINDS, *LATER_TOKEN_KINDS)}
_API_KEYS = ("SK_TOKEN", "GOOGLE_API_KEY", "SLACK_TOKEN", "CF_TOKEN", "MOL_PK")

# The order decides where two begin at one place. The card is last: what its check digit refuses is none.
_ALTERNATIVES = (
    *_tokens(
        "github_token",
        TokenKind("GITHUB_TOKEN", "gh[pousr]_", r"\w", 20, ()),
        TokenKind("GITHUB_TOKEN", "github_pat_", r"\w", 20, ()),
    ),
    *_tokens("aws_key", TokenKind("AWS_KEY", "A[KS]IA", "0-9A-Z", 16, ())),
    *_tokens("api_key", *(_BY_LABEL[label] for label in _API_KEYS)),
    *_tokens("api_key", TokenKind("CTX7_TOKEN", "ctx7_", r"\w-", 8, ())),
    _Alternative(
        "email", r"(?<![\w.+%-])[\w.+%-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9-]{0,57})\.[A-Za-z0-9]", _DOMAIN
    ),
    _Alternative("ssn", r"(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d\d-(?!0000)\d{4}(?![\w-])", ""),
    _Alternative("credit_card", r"(?<![\w.])[2-6](?:[ -]?\d){12,18}(?![ -]?\d)(?!\w)", ""),
)
_CARD_BEGUN = re.compile(r"(?<![\w.])[2-6](?:[ -]?\d){0,18}[ -]?\Z", re.ASCII)
_CARD_PREFIX = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"  # Visa
    r"|(?:5[1-5]|2[2-7])\d{14}"  # Mastercard
    r"|3[47]\d{13}"  # American Express
    r"|3(?:0[0-5]|[68]\d)\d{11}"  # Diners Club
    r"|(?:6011|64[4-9]\d|65\d\d)\d{12}"  # Discover
    r"|35(?:2[89]|[3-8]\d)\d{12}"  # JCB
    r"|62\d{14,17}",  # UnionPay
    re.ASCII,
)


@functools.cache
def _compiled(types: frozenset[str]) -> re.Pattern[str]:
    """One group for markers, then one for each alternative; those of other types never match."""
    groups = [f"({one.start})" if one.type in types else "((?!))" for one in _ALTERNATIVES]
    # Most places are dismissed by their character alone: a fifth of the time.
    first = "" if "email" in types else rf"(?=[\[{''.join(_FIRST.get(one, '') for one in sorted(types))}])"
    return re.compile(f"{first}(?:({MARKER.pattern})|{'|'.join(groups)})", re.ASCII)


@functools.lru_cache(maxsize=16)
def _patterns(types: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str], bool]:
    """The patterns for a text with and without `@`, and whether they look for cards."""
    chosen = frozenset(types)
    return _compiled(chosen), _compiled(chosen - {"email"}), "credit_card" in chosen


_RESTS = [re.compile(one.rest, re.ASCII) if one.rest else None for one in _ALTERNATIVES]


class _PatternRedactor:
    """Takes what the patterns match out of a text that comes in pieces."""

    def __init__(self, types: Collection[str]) -> None:
        self._with_email, self._without_email, self._holds_cards = _patterns(tuple(types))
        self._buffer, self._start = "", 0
        self._rest: re.Pattern[str] | None = None
        self.found = set[str]()

    def feed(self, text: str) -> str:
        """What may be shown now."""
        self._buffer += text
        return self._scan(final=False)

    def flush(self) -> str:
        """The rest; the next text begins anew."""
        shown = self._scan(final=True)
        self._buffer, self._start, self._rest = "", 0, None
        return shown

    def _scan(self, *, final: bool) -> str:
        buffer, position, shown = self._buffer, self._start, list[str]()
        limit = len(buffer) if final else self._undecided()
        pattern = self._with_email if "@" in buffer else self._without_email
        while True:
            position = self._skip_rest(position, final=final)
            found = None if self._rest else pattern.search(buffer, position)
            if found is None or found.start() >= limit:
                break
            group = found.lastindex or 1
            type = _ALTERNATIVES[group - 2].type
            if group == 1:  # a marker stays
                shown.append(buffer[position : found.end()])
                position = found.end()
            elif type == "credit_card" and not is_card(found[0]):
                shown.append(buffer[position : found.start() + 1])
                position = found.start() + 1
            else:
                self.found.add(type)
                shown += (buffer[position : found.start()], marker(type.upper()))
                position, self._rest = found.end(), _RESTS[group - 2]
        if not self._rest and limit > position:
            shown.append(buffer[position:limit])
            position = limit
        kept = max(0, position - _CONTEXT)
        self._buffer, self._start = buffer[kept:], position - kept
        return "".join(shown)

    def _skip_rest(self, position: int, *, final: bool) -> int:
        """Step over what belongs to the secret before; a pattern of a rest looks one character ahead."""
        if self._rest is None:
            return position
        found = self._rest.match(self._buffer, position)
        position = found.end() if found else position
        if final or len(self._buffer) - position >= 2:
            self._rest = None
        return position

    def _undecided(self) -> int:
        """The first place about which the text to come may decide.

        No pattern but that of cards has spaces, so what stands before the last word is decided.
        """
        buffer = self._buffer
        low = max(self._start, len(buffer) - WINDOW + 1)
        tail = buffer[low:]
        word = 0 if not tail or tail[-1].isspace() else len(tail.rsplit(None, 1)[-1])
        undecided = len(buffer) - word
        if self._holds_cards:
            card = _CARD_BEGUN.search(buffer, max(self._start, len(buffer) - _CARD_CHARACTERS))
            undecided = min(undecided, card.start()) if card else undecided
        return max(low, undecided)


class StreamRedactor:
    """Redacts streamed text (a `TextRedactor`): its output, joined, is what `redact_pii` makes of the whole.

    It holds back the last word, or what may be the beginning of a known value or a card number: never more
    than 256 characters.
    """

    def __init__(self, known_values: Iterable[str] = (), types: Collection[str] = DEFAULT_TYPES) -> None:
        self._known_values, self._types = tuple(known_values), tuple(types)

    # Most redactors see one clean text, and need neither of these.

    @functools.cached_property
    def _literals(self) -> LiteralRedactor:
        return LiteralRedactor(self._known_values)

    @functools.cached_property
    def _patterns(self) -> _PatternRedactor:
        return _PatternRedactor(self._types)

    def feed(self, text: str) -> str:
        """What may be shown now."""
        return self._patterns.feed(self._literals.feed(text))

    def flush(self) -> str:
        """The rest; the redactor may be used for another text then."""
        return self._patterns.feed(self._literals.flush()) + self._patterns.flush()

    def redact(self, text: str) -> str:
        """A whole text, apart from what is streamed; nearly every one is clean."""
        with_email, without_email, _ = _patterns(self._types)
        pattern = with_email if "@" in text else without_email
        if has_none(text, self._known_values) and pattern.search(text) is None:
            return text
        return self.feed(text) + self.flush()

    @property
    def found(self) -> list[str]:
        """The types that were redacted so far, `known_value` among them."""
        known = ["known_value"] if self._literals.found_any else []
        return known + [one for one in OUTPUT_TYPES if one in self._patterns.found]


def redact_pii(
    text: str, types: Collection[str] = DEFAULT_TYPES, known_values: Iterable[str] = ()
) -> tuple[str, list[str]]:
    """The text with `[REDACTED:<TYPE>]` in the place of secrets and personal data, and the types found."""
    redactor = StreamRedactor(known_values, types)
    return redactor.redact(text), redactor.found


def is_card(text: str) -> bool:
    """Whether digits, with spaces or hyphens between, are the number of a card: known issuer, Luhn sum."""
    digits = text.replace(" ", "").replace("-", "")
    if not _CARD_PREFIX.fullmatch(digits):
        return False
    doubled = [int(digit) * 2 for digit in digits[-2::-2]]
    return (
        sum(map(int, digits[-1::-2])) + sum(value - 9 if value > 9 else value for value in doubled)
    ) % 10 == 0
