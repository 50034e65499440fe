"""Credentials in a manifest: what a value looks like that must never be published."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from molecule_plugin.values import items, mapping
from molecule_plugin.yaml_reader import Step, Steps
from molecule_wire import redaction

_MAX_FINDINGS = 100
_ASSIGNMENT = "password/api_key/secret assignment"
_HOLDS_A_DIGEST = re.compile(r"(?i)(?:sha256|digest|checksum|commit|ref)$")
_HOLDS_A_SECRET = re.compile(r"(?i)(?:password|api[_-]?key|secret)$")
_SECRET_VALUE = re.compile(r"[^\s$<{]{6,}")


class Secret(NamedTuple):
    """A value that looks like a credential: the way to it and what it looks like, never the value."""

    steps: Steps
    kind: str

    @property
    def key(self) -> str:
        """The way as authors write it: `a.b[0]`."""
        return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.steps)[1:]


def find_secrets(value: object) -> list[Secret]:
    """The first match of every text in a value, a hundred at most."""
    found: list[Secret] = []
    for steps, text in _texts(value):
        kind = kind_of(text, _nearest_key(steps))
        if kind and len(found) < _MAX_FINDINGS:
            found.append(Secret(steps, kind))
    return found


def kind_of(text: str, key: str = "") -> str:
    """What kind of credential a text has in it; empty when none. `key` is the name it stands under."""
    if _HOLDS_A_SECRET.fullmatch(key) and _SECRET_VALUE.fullmatch(text):
        return _ASSIGNMENT
    is_digest = _HOLDS_A_DIGEST.search(key) is not None
    return redaction.find_kind(text, redaction.DIGEST_MANIFEST if is_digest else redaction.MANIFEST)


def _nearest_key(steps: Steps) -> str:
    return next((step for step in reversed(steps) if isinstance(step, str)), "")


def _texts(value: object) -> Iterator[tuple[Steps, str]]:
    """Every text with the way to it, in order; what aliases lead to is entered once."""
    seen: set[int] = set()
    waiting: list[tuple[Steps, object]] = [((), value)]
    while waiting:
        steps, here = waiting.pop()
        if isinstance(here, str):
            yield steps, here
        elif id(here) not in seen:
            seen.add(id(here))
            waiting += [((*steps, step), member) for step, member in reversed(_members(here))]


def _members(value: object) -> list[tuple[Step, object]]:
    found = mapping(value)
    if found is not None:
        return [(str(key)[:100] if isinstance(key, str) else "?", member) for key, member in found.items()]
    return list(enumerate(items(value) or []))
