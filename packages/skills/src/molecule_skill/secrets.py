"""Secrets of a run: values by declared name, and their redaction from everything that leaves the process."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from molecule_wire import JSON

MIN_REDACTED = 6
"""Shorter values are not replaced: they would blot out ordinary words."""


def unknown(name: str) -> KeyError:
    """The refusal of a name that is not known or not declared; the two look the same."""
    return KeyError(f"unknown secret: {name!r}")


class Redactor:
    """Replaces whole values of secrets by `[secret:NAME]`; no part of a value is ever shown."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._names = {
            form: name
            for name, value in values.items()
            if len(value) >= MIN_REDACTED
            for form in _forms(value)
        }
        # The longest first: a value that contains another is replaced as a whole.
        found = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, found))) if found else None

    def text(self, text: str) -> str:
        """The text without values."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: f"[secret:{self._names[found[0]]}]", text)

    def json(self, value: JSON) -> JSON:
        """The value without values of secrets, in names and at any depth."""
        return value if self._pattern is None else self._redacted(value)

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._redacted(one) for one in cast("list[Any]", value)]
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            return {self.text(name): self._redacted(one) for name, one in members.items()}
        return value


def _forms(value: str) -> Iterable[str]:
    """A value as it is, and as it stands in a repr and in JSON."""
    return {value, repr(value)[1:-1], json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
