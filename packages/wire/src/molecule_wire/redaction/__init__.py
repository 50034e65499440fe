"""Redaction: one table of credential kinds, one entropy rule, known values; a policy for each place.

| policy | for | a secret leaves |
|---|---|---|
| `LOG` | logs, activity | `[REDACTED:<LABEL>]` |
| `SNAPSHOT` | snapshots, transcripts, logs of the runtime; ids are kept | `[REDACTED:<LABEL>]` |
| `MEMORY` | memories | `[REDACTED]` |
| `ANSWER` | answers, as a whole or streamed; personal data too | `[REDACTED:<TYPE>]` |
| `MANIFEST` | manifests of plugins, which are refused | a finding |
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, cast

from molecule_wire.redaction.known_values import KnownValues, KnownValueStream, known_values
from molecule_wire.redaction.members import discloses, is_identifier, label_of_name
from molecule_wire.redaction.personal import is_card
from molecule_wire.redaction.policies import (
    ANSWER,
    ANSWER_SECRETS,
    ANSWER_TYPES,
    DEFAULT_TYPES,
    DIGEST_MANIFEST,
    LOG,
    MANIFEST,
    MEMORY,
    SNAPSHOT,
    Policy,
    answer_policy,
    marker,
)
from molecule_wire.redaction.rules import MARKER, prepare
from molecule_wire.redaction.scanner import Scanner

__all__ = [
    "ANSWER",
    "ANSWER_SECRETS",
    "ANSWER_TYPES",
    "DEFAULT_TYPES",
    "DIGEST_MANIFEST",
    "LOG",
    "MANIFEST",
    "MARKER",
    "MEMORY",
    "SNAPSHOT",
    "TOO_DEEP",
    "KnownValues",
    "Policy",
    "StreamRedactor",
    "answer_policy",
    "find_kind",
    "is_card",
    "is_clean",
    "label_of_name",
    "marker",
    "redact",
    "redact_json",
    "redact_pii",
    "redact_start",
]

TOO_DEEP = "[nested too deeply]"
MAX_DEPTH = 64
MAX_SECRET = 600
_MAX_PASSES = 8


def redact(text: str, policy: Policy, known: Iterable[str] = ()) -> str:
    """Return the text without known values and without what the rules of the policy match."""
    if policy.streams:
        return StreamRedactor(known, policy).redact(text)
    values = known_values(tuple(known), policy.mark(None))
    for _ in range(_MAX_PASSES):
        before, subject = text, prepare(values.redact(text))
        active = policy.rules_for(subject)
        text = Scanner(policy).scan_last(subject, active) if active else subject.text
        if not active or text == before:
            break
    return text


def redact_start(text: str, length: int, policy: Policy) -> str:
    """Return the first characters, with no secret among them and no half of one; the rest costs nothing."""
    return redact(text[: length + MAX_SECRET], policy)[:length]


def is_clean(text: str, policy: Policy, known: Iterable[str] = ()) -> bool:
    """Return True if the text has no known value and nothing that any rule could match."""
    values = known_values(tuple(known), policy.mark(None))
    return values.has_none(text) and not policy.rules_for(prepare(text))


def find_kind(text: str, policy: Policy) -> str:
    """Return the title of the first kind, in the order of the policy, that a text has in it; "" if none."""
    subject = prepare(text)
    active = sorted(policy.rules_for(subject), key=policy.order.__getitem__)
    return next((rule.title for rule in active if rule.find(subject, 0)), "")


def redact_json(
    value: Any,
    policy: Policy,
    known: Iterable[str] = (),
    drops_item: Callable[[Any], bool] = lambda _item: False,
) -> Any:
    """Return a copy of a JSON value without secrets, at any depth, and without list items to be dropped."""
    return _JsonRedactor(policy, tuple(known), drops_item).redact(value, 0)


class _JsonRedactor:
    def __init__(self, policy: Policy, known: tuple[str, ...], drops_item: Callable[[Any], bool]) -> None:
        self._policy, self._known, self._drops_item = policy, known, drops_item
        self._id_policy = policy.without_entropy if policy.keeps_ids else policy

    def redact(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return redact(value, self._policy, self._known)
        if not isinstance(value, Mapping | list | tuple):
            return value
        if depth == MAX_DEPTH:
            return TOO_DEEP
        if isinstance(value, Mapping):
            members = cast("Mapping[Any, Any]", value)
            return {self._id(name): self._member(name, held, depth + 1) for name, held in members.items()}
        items = cast("list[Any]", value)
        return [self.redact(item, depth + 1) for item in items if not self._drops_item(item)]

    def _member(self, name: Any, held: Any, depth: int) -> Any:
        label = label_of_name(name) if isinstance(name, str) else None
        if label is not None and discloses(name, held):
            return self._secret(label, held)
        if isinstance(name, str) and isinstance(held, str) and is_identifier(name):
            return self._id(held)
        return self.redact(held, depth)

    def _secret(self, label: str, held: Any) -> str:
        # A known value, or a marker of an earlier pass, says more than the name.
        redacted = redact(held, self._policy, self._known) if isinstance(held, str) else ""
        return redacted if MARKER.fullmatch(redacted) else marker(label)

    def _id(self, value: Any) -> Any:
        return redact(value, self._id_policy, self._known) if isinstance(value, str) else value


class StreamRedactor:
    """Redact an answer that comes in pieces; the joined output equals `redact` of the whole text.

    It holds back the last word, or the beginning of a value that is not complete: at most 256 characters.
    """

    def __init__(self, known: Iterable[str] = (), policy: Policy = ANSWER) -> None:
        assert policy.streams
        self._policy = policy
        self._known = known_values(tuple(known), policy.mark(None))
        self._values = KnownValueStream(self._known)
        self._scanner = Scanner(policy)

    def feed(self, text: str) -> str:
        """Add a piece; return the text that may be shown."""
        return self._scanner.feed(self._values.feed(text))

    def flush(self) -> str:
        """Return the rest; the next piece begins another text."""
        return self._scanner.flush(self._values.flush())

    def redact(self, text: str) -> str:
        """Return a whole text redacted; not while another is streamed."""
        if not self._known.has_none(text):
            return self.feed(text) + self.flush()
        subject = prepare(text)
        active = self._policy.rules_for(subject)
        return self._scanner.scan_last(subject, active) if active else text

    @property
    def found(self) -> list[str]:
        """The types redacted so far, `known_value` among them."""
        known = ["known_value"] if self._values.found_any else []
        return known + [one for one in ANSWER_TYPES if one in self._scanner.found]

    @property
    def held(self) -> int:
        """Characters held back."""
        return self._values.held + self._scanner.held


def redact_pii(
    text: str, types: Collection[str] = DEFAULT_TYPES, known: Iterable[str] = ()
) -> tuple[str, list[str]]:
    """Return an answer without secrets and personal data, and the types found."""
    redactor = StreamRedactor(known, answer_policy(tuple(types)))
    return redactor.redact(text), redactor.found
