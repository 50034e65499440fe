"""Credentials in a manifest: what a value looks like that must never be published."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from molecule_plugin.values import items, mapping
from molecule_plugin.yaml_reading import Step, Steps

_MOST = 100
_HEX_RULE = "64+ hex string"
_KINDS = (
    ("private key block", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY")),
    ("AWS key", re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    ("GitHub token", re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{22,}")),
    ("Slack token", re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}")),
    ("sk- key", re.compile(r"\bsk-[A-Za-z0-9_-]{16,}")),
    ("URL with credentials", re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]{0,30}://[^\s/:@]{1,256}:[^\s/@]{1,256}@")),
    ("bearer token", re.compile(r"(?i)['\"]bearer\s+[^\s'\"]{8,}['\"]|\bbearer\s+[A-Za-z0-9._~+/=-]{16,}")),
    (
        "password/api_key/secret assignment",
        re.compile(r"(?i)\b(?:password|passwd|api[_-]?key|secret)\b['\"]?\s*[:=]\s*['\"]?[^\s'\"$<{]{6,}"),
    ),
    (_HEX_RULE, re.compile(r"(?<![0-9a-fA-F])[0-9a-fA-F]{64,}")),
)
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
        if kind and len(found) < _MOST:
            found.append(Secret(steps, kind))
    return found


def kind_of(text: str, key: str = "") -> str:
    """What kind of credential a text has in it; empty when none. `key` is the name it stands under."""
    if _HOLDS_A_SECRET.fullmatch(key) and _SECRET_VALUE.fullmatch(text):
        return "password/api_key/secret assignment"
    for kind, pattern in _KINDS:
        exempt = kind == _HEX_RULE and _HOLDS_A_DIGEST.search(key)
        if not exempt and pattern.search(text):
            return kind
    return ""


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
