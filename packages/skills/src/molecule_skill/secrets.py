"""Secrets of a run: values by declared name, and their redaction from everything that leaves the process."""

from collections.abc import Mapping
from typing import Any, cast

from molecule_wire import JSON
from molecule_wire.redaction import KnownValues


def unknown(name: str) -> KeyError:
    """The refusal of a name that is not known or not declared; the two look the same."""
    return KeyError(f"unknown secret: {name!r}")


class Redactor:
    """Replaces whole values of secrets by `[secret:NAME]`; no part of a value is ever shown."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._known = KnownValues({value: f"[secret:{name}]" for name, value in values.items()})

    def text(self, text: str) -> str:
        """Return the text without values."""
        return self._known.redact(text)

    def json(self, value: JSON) -> JSON:
        """Return the value without values of secrets, in names and at any depth."""
        return value if self._known.pattern is None else self._redacted(value)

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._redacted(one) for one in cast("list[Any]", value)]
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            return {self.text(name): self._redacted(one) for name, one in members.items()}
        return value
