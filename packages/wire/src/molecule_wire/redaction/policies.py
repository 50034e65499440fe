"""Policies: the rules and the marks of each place that text goes to."""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

from molecule_wire.redaction import contexts, personal, rules
from molecule_wire.redaction.rules import Rule, Subject

KNOWN_LABEL = "VALUE"
ANSWER_TYPES = ("github_token", "aws_key", "api_key", "email", "ssn", "credit_card")
DEFAULT_TYPES = tuple(one for one in ANSWER_TYPES if one != "email")
"""Without `email`: an agent that is asked for an address could not answer."""


def marker(label: str) -> str:
    """Return the text that replaces a secret."""
    return f"[REDACTED:{label}]"


def _mark_label(rule: Rule | None) -> str:
    return marker(KNOWN_LABEL if rule is None else rule.label)


def _mark_plainly(_rule: Rule | None) -> str:
    return "[REDACTED]"


def _mark_answer(rule: Rule | None) -> str:
    return _mark_label(rule) if rule is None else marker(rule.answer_label or rule.label)


@dataclass(frozen=True, eq=False)
class Policy:
    """The rules for one place; the first of two rules that match at one position wins.

    `keeps_ids`: identifiers and names of members are not judged by entropy. `streams`: the text may come
    in pieces and is read once; otherwise it is redacted until nothing changes.
    """

    rules: tuple[Rule, ...]
    mark: Callable[[Rule | None], str] = _mark_label
    keeps_ids: bool = False
    streams: bool = False

    @functools.cached_property
    def without_entropy(self) -> "Policy":
        """The same policy for identifiers, which are random like secrets."""
        return Policy(tuple(rule for rule in self.rules if rule is not rules.BLOB), self.mark)

    @functools.cached_property
    def order(self) -> dict[Rule, int]:
        """The place of each rule."""
        return {rule: place for place, rule in enumerate(self.rules)}

    @functools.cached_property
    def words(self) -> list[tuple[str, Rule]]:
        """Words and their rules."""
        return [(word, rule) for rule in self.rules if not rule.is_long for word in rule.words]

    @functools.cached_property
    def long_words(self) -> list[tuple[str, Rule]]:
        """Parts of long words, and their rules."""
        return [(word, rule) for rule in self.rules if rule.is_long for word in rule.words]

    @functools.cached_property
    def lower_words(self) -> list[tuple[str, list[Rule]]]:
        """Words in lower case and their rules."""
        groups: dict[str, list[Rule]] = {}
        for rule in self.rules:
            for word in rule.lower_words:
                groups.setdefault(word, []).append(rule)
        return list(groups.items())

    @functools.cached_property
    def runs(self) -> list[Rule]:
        """Rules for long runs."""
        return [rule for rule in self.rules if rule.is_run]

    @functools.cached_property
    def gates(self) -> list[tuple[re.Pattern[str], Rule]]:
        """Rules that need a match of another pattern."""
        return [(rule.gate, rule) for rule in self.rules if rule.gate is not None]

    def rules_for(self, subject: Subject) -> list[Rule]:
        """Return the rules that may match; most texts have none, and this is all that they cost."""
        text, lower, long_words = subject.text, subject.lower, subject.long_words
        found = [rule for word, rule in self.words if word in text]
        if long_words:
            found += [rule for word, rule in self.long_words if word in long_words]
        for word, group in self.lower_words:
            if word in lower:
                found += group
        for gate, rule in self.gates:
            if gate.search(text):
                found.append(rule)
        if subject.run_starts:
            found += self.runs
        return list(dict.fromkeys(found)) if found else found


_TOKENS = rules.token_rules(lambda kind: kind.minimum)
_STORED = (
    # Before all others: `X_TOKEN=-----BEGIN …` would lose only its first word.
    contexts.PRIVATE_KEY,
    contexts.AUTHORIZATION,
    contexts.BEARER,
    contexts.COOKIE,
    contexts.SAS_SIGNATURE,
    *contexts.ASSIGNMENTS,
    rules.JWT,
    *rules.token_rules(lambda kind: kind.log_minimum),
    rules.DISCORD_TOKEN,
    rules.BLOB,
)
_CAREFUL = (
    contexts.STREAMED_BASIC,
    contexts.STREAMED_BEARER,
    contexts.SAS_SIGNATURE,
    rules.JWT,
)

LOG = Policy((contexts.USER_INFO, *_STORED))
SNAPSHOT = Policy((contexts.URL_PASSWORD, *_STORED), keeps_ids=True)
MEMORY = Policy(
    (
        contexts.PRIVATE_KEY,
        contexts.URL_PASSWORD,
        *_CAREFUL,
        *rules.token_rules(lambda kind: kind.memory_minimum),
        rules.DISCORD_TOKEN,
        *contexts.MEMORY_ASSIGNMENTS,
        *contexts.STREAMED_ASSIGNMENTS,
        *contexts.PASSWORDS,
        rules.BLOB,
    ),
    _mark_plainly,
)
MANIFEST = Policy(
    (
        contexts.PRIVATE_KEY_BEGIN,
        *_TOKENS,
        rules.JWT,
        rules.DISCORD_TOKEN,
        contexts.SCANNED_URL,
        contexts.SCANNED_BEARER,
        *contexts.SCANNED_ASSIGNMENTS,
        rules.HEX_64,
    )
)
DIGEST_MANIFEST = Policy(tuple(rule for rule in MANIFEST.rules if rule is not rules.HEX_64))
"""For values of a manifest that stand under the name of a digest."""
_ANSWER_RULES = (
    contexts.STREAMED_PRIVATE_KEY,
    contexts.STREAMED_URL_PASSWORD,
    *_CAREFUL,
    *_TOKENS,
    rules.DISCORD_TOKEN,
    *contexts.STREAMED_ASSIGNMENTS,
    *contexts.STREAMED_PASSWORDS,
    rules.OUR_TOKEN,
    personal.EMAIL,
    personal.SSN,
    # Last: a number that fails the check digit is none.
    personal.CREDIT_CARD,
)


@functools.lru_cache(maxsize=64)
def answer_policy(types: tuple[str, ...] = DEFAULT_TYPES) -> Policy:
    """Return the policy of answers for some of `ANSWER_TYPES`; `api_key` covers all other credentials."""
    return Policy(tuple(rule for rule in _ANSWER_RULES if rule.type in types), _mark_answer, streams=True)


ANSWER = answer_policy()
ANSWER_SECRETS = answer_policy(("github_token", "aws_key", "api_key"))
"""Without personal data, for an agent whose configuration turns the checks of compliance off."""
