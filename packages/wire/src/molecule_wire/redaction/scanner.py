"""Scanner: one pass over a text, leftmost match first, as a whole or in pieces.

A stream decides about a position only when text to come cannot change the decision, so that the pieces in
which a text arrives do not matter.
"""

import re

from molecule_wire.redaction import personal
from molecule_wire.redaction.policies import Policy
from molecule_wire.redaction.rules import WINDOW, Rule, Subject, prepare

_CONTEXT = 24  # characters of text already shown that a lookbehind may see
_END_CHARACTERS = 80  # the end line of a private key

# A secret that has spaces before it follows a name, which is held back while the secret may come.
_NAMES = ("bearer", "authorization", "passw", "passphrase", "pwd", "token", "secret", "key", "-----begin")
_NAME = re.compile("|".join(_NAMES))
_OPEN_NAME = re.compile(
    r"(?:-----begin [a-z0-9 ]{0,60}(?:-{0,5}(?:\s|\\[nr]){0,8}\S{0,4})?"
    r"|authorization[^\w\s]{0,4}[ \t]{0,8}[:=]?[ \t]{0,8}[^\w\s]{0,4}\w{0,6}[ \t]{0,8}\S*"
    r"|\w+[^\w\s:=]{0,4}[ \t]{0,8}[:=]?[ \t]{0,8}\S*)\Z"
)

_Match = tuple[int, int, int, int, Rule]
"""Start of the match, place of the rule, start and end of the secret, rule: the smallest is the next."""


class Scanner:
    """Replaces what the rules of a policy match."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._holds_cards = personal.CREDIT_CARD in policy.order
        self._buffer, self._start = "", 0
        self._inside: Rule | None = None
        self.found = set[str]()

    def feed(self, text: str) -> str:
        """Add a piece; return the text that is decided."""
        self._buffer += text
        subject = prepare(self._buffer)
        return self._scan(subject, self._undecided(subject), final=False)

    def flush(self, text: str = "") -> str:
        """Add the last piece; return the rest. The next piece begins another text."""
        return self.scan_last(prepare(self._buffer + text))

    def scan_last(self, subject: Subject, active: list[Rule] | None = None) -> str:
        """Return the rest of a text; `active` are the rules that may match if the caller knows them."""
        self._buffer = subject.text
        shown = self._scan(subject, len(subject.text), active, final=True)
        self._buffer, self._start, self._inside = "", 0, None
        return shown

    @property
    def held(self) -> int:
        """Characters held back."""
        return len(self._buffer) - self._start

    def _scan(self, subject: Subject, limit: int, active: list[Rule] | None = None, *, final: bool) -> str:
        buffer, position, shown = subject.text, self._start, list[str]()
        if self._inside:
            position = self._skip_rest(self._inside, position, final=final)
        if self._inside:
            active = []
        elif active is None:
            active = self._policy.rules_for(subject)
        upcoming = [match for rule in active for match in self._next_match(rule, subject, position)]
        while upcoming and not self._inside:
            place, _, start, end, rule = match = min(upcoming)
            if place >= limit:
                break
            if place >= position:
                self.found.add(rule.type)
                shown += (buffer[position:start], self._policy.mark(rule))
                position = self._skip_rest(rule, end, final=final)
            # Each rule is searched again behind the secret, so a match that began inside it is dropped.
            upcoming.remove(match)
            upcoming += self._next_match(rule, subject, position)
        if not self._inside and limit > position:
            shown.append(buffer[position:limit])
            position = limit
        kept = max(0, position - _CONTEXT)
        self._buffer, self._start = buffer[kept:], position - kept
        return "".join(shown)

    def _next_match(self, rule: Rule, subject: Subject, position: int) -> list[_Match]:
        found = rule.find(subject, position)
        return [(found[0], self._policy.order[rule], found[1], found[2], rule)] if found else []

    def _skip_rest(self, rule: Rule, position: int, *, final: bool) -> int:
        """Skip the rest of a secret; what the buffer lacks is skipped in the next piece."""
        buffer, self._inside = self._buffer, None
        if rule.end is not None:
            if found := rule.end.search(buffer, position):
                return found.end()
            if not final:
                self._inside = rule
                return max(position, len(buffer) - _END_CHARACTERS)
            return len(buffer)
        if rule.rest is not None and (found := rule.rest.match(buffer, position)):
            position = found.end()
            # The pattern of a rest looks one character ahead.
            if not final and len(buffer) - position < 2:
                self._inside = rule
        return position

    def _undecided(self, subject: Subject) -> int:
        """Return the first position about which text to come may decide."""
        buffer = subject.text
        low = max(self._start, len(buffer) - WINDOW + 1)
        tail = buffer[low:]
        undecided = len(buffer) - _last_word(tail)
        if self._holds_cards:
            card = personal.CARD_BEGUN.search(
                buffer, max(self._start, len(buffer) - personal.CARD_CHARACTERS)
            )
            undecided = min(undecided, card.start()) if card else undecided
        lower = subject.lower[low:]
        if any(name in lower for name in _NAMES):
            for name in _NAME.finditer(lower):
                if _OPEN_NAME.match(lower, name.start()):
                    undecided = min(undecided, low + name.start())
                    break
        return max(low, undecided)


def _last_word(text: str) -> int:
    return 0 if not text or text[-1].isspace() else len(text.rsplit(None, 1)[-1])
