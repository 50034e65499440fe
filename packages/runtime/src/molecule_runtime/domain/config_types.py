"""The types that keys of a configuration can have. A type reads a value, and records what is wrong with it.

After a recorded problem the value that is returned does not matter: the reading ends with `ConfigError`.
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from molecule_runtime.domain.config_values import ConfigReading, ConfigValue

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
_FALSE_WORDS = frozenset({"0", "false", "no", "off"})
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_HIGHEST_TIER, _DEFAULT_TIER = 4, 1

EnvRequirement: TypeAlias = str | dict[str, list[str]]
"""The name of a variable that must be set, or `{"any_of": [names]}`."""


class ConfigType(Protocol):
    """What a key may hold."""

    def read(self, value: ConfigValue, reading: ConfigReading) -> Any:
        """The value as the program uses it. Null never comes here: it means the default."""
        ...


@dataclass(frozen=True)
class TextType:
    """A string, or one of some strings. With `numbers` an unquoted number is taken as it is written."""

    choices: tuple[str, ...] = ()
    numbers: bool = False

    def read(self, value: ConfigValue, reading: ConfigReading) -> str:
        """The string."""
        text = value.content
        if self.numbers and isinstance(text, int | float) and not isinstance(text, bool):
            text = value.written
        if not isinstance(text, str):
            reading.wrong(value, "string")
            return ""
        if self.choices and text not in self.choices:
            choices = ", ".join(choice or '""' for choice in self.choices)
            reading.wrong(value, f"one of {choices}", value.display_text())
        return text


@dataclass(frozen=True)
class SwitchType:
    """One of some strings; the booleans of YAML, which unquoted `on` and `off` are, stand for two of them."""

    choices: tuple[str, ...]
    on: str
    off: str

    def read(self, value: ConfigValue, reading: ConfigReading) -> str:
        """The string that was chosen."""
        content = value.content
        if isinstance(content, str) and content not in self.choices:
            content = {**dict.fromkeys(TRUE_WORDS, True), **dict.fromkeys(_FALSE_WORDS, False)}.get(
                content.lower(), content
            )
        if isinstance(content, bool):
            return self.on if content else self.off
        return TextType(self.choices).read(value, reading)


@dataclass(frozen=True)
class IntegerType:
    """An integer within bounds. With `clamp` one outside becomes the bound; `or_zero` allows 0 as well."""

    lowest: int | None = None
    highest: int | None = None
    clamp: bool = False
    or_zero: bool = False

    def read(self, value: ConfigValue, reading: ConfigReading) -> int:
        """The integer."""
        number = value.content
        if value.from_environment and _INTEGER.fullmatch(value.written):
            number = int(value.written)
        if not isinstance(number, int) or isinstance(number, bool):
            reading.wrong(value, "integer")
            return 0
        bounded = number if self.lowest is None else max(number, self.lowest)
        bounded = bounded if self.highest is None else min(bounded, self.highest)
        if bounded == number or (self.or_zero and number == 0):
            return number
        if self.clamp:
            reading.warn(value, f"{bounded} is used instead of {value.display_text()}")
        else:
            limit = f"at least {bounded}" if bounded > number else f"at most {bounded}"
            zero = "0 or an " if self.or_zero else ""
            reading.wrong(value, f"{zero}integer of {limit}", value.display_text())
        return bounded


@dataclass(frozen=True)
class NumberType:
    """A finite number within bounds."""

    lowest: float = 0.0
    highest: float = math.inf

    def read(self, value: ConfigValue, reading: ConfigReading) -> float:
        """The number."""
        number = value.content
        if value.from_environment:
            try:
                number = float(value.written)
            except ValueError:
                number = None
        if not isinstance(number, int | float) or isinstance(number, bool):
            reading.wrong(value, "number")
            return self.lowest
        try:
            exact = float(number)
        except OverflowError:
            exact = math.inf
        if not (self.lowest <= exact <= self.highest and math.isfinite(exact)):
            bounds = f"{self.lowest:g} to {self.highest:g}"
            reading.wrong(value, f"number from {bounds}", value.display_text())
        return exact


@dataclass(frozen=True)
class BooleanType:
    """True or false. A text of the environment is true for `1`, `true`, `yes` and `on`, and else false."""

    def read(self, value: ConfigValue, reading: ConfigReading) -> bool:
        """The boolean."""
        if value.from_environment:
            return value.written.lower() in TRUE_WORDS
        if not isinstance(value.content, bool):
            reading.wrong(value, "boolean")
            return False
        return value.content


@dataclass(frozen=True)
class TierType:
    """A tier from 0 (root) to 4; an integer or a string of digits. All else is tier 1, never an error."""

    def read(self, value: ConfigValue, reading: ConfigReading) -> int:
        """The tier."""
        content = value.content
        if isinstance(content, str) and content.isascii() and content.isdigit() and len(content) < 3:
            content = int(content)
        if isinstance(content, bool) or not isinstance(content, int) or not 0 <= content <= _HIGHEST_TIER:
            reading.warn(
                value, f"{value.display_text()} is no tier from 0 to {_HIGHEST_TIER}; {_DEFAULT_TIER} is used"
            )
            return _DEFAULT_TIER
        return content


@dataclass(frozen=True)
class PathType:
    """The path of a file or a folder."""

    def read(self, value: ConfigValue, reading: ConfigReading) -> Path:
        """The path."""
        return Path(TextType().read(value, reading))


@dataclass(frozen=True)
class TextListType:
    """A list of strings. With `numbers` unquoted numbers are taken as they are written.

    `instead_of_empty` is what an empty list means.
    """

    numbers: bool = False
    instead_of_empty: tuple[str, ...] = ()

    def read(self, value: ConfigValue, reading: ConfigReading) -> list[str]:
        """The strings."""
        item_type = TextType(numbers=self.numbers)
        texts = [item_type.read(item, reading) for item in _items(value, reading)]
        return texts or list(self.instead_of_empty)


@dataclass(frozen=True)
class EnvRequirementListType:
    """A list of names of environment variables; an entry `{any_of: [names]}` asks for one of several."""

    def read(self, value: ConfigValue, reading: ConfigReading) -> list[EnvRequirement]:
        """The names and groups of names."""
        return [self._entry(item, reading) for item in _items(value, reading)]

    def _entry(self, item: ConfigValue, reading: ConfigReading) -> EnvRequirement:
        if not isinstance(item.content, dict):
            return TextType().read(item, reading)
        names = item.content.get("any_of")
        if names is None or len(item.content) > 1:
            reading.wrong(item, "string or {any_of: [names]}", "mapping")
            return ""
        return {"any_of": TextListType().read(names, reading)}


@dataclass(frozen=True)
class EntryListType:
    """A list of mappings, whose keys are up to the reader; with `texts` a string may stand for one."""

    texts: bool = False

    def read(self, value: ConfigValue, reading: ConfigReading) -> list[Any]:
        """The entries."""
        items = _items(value, reading)
        for item in items:
            if not (isinstance(item.content, dict) or (self.texts and isinstance(item.content, str))):
                reading.wrong(item, "string or mapping" if self.texts else "mapping")
        return [item.plain() for item in items]


@dataclass(frozen=True)
class TextListsType:
    """A mapping of names to lists of strings."""

    def read(self, value: ConfigValue, reading: ConfigReading) -> dict[str, list[str]]:
        """The lists by name."""
        if not isinstance(value.content, dict):
            reading.wrong(value, "mapping")
            return {}
        return {name: TextListType().read(items, reading) for name, items in value.content.items()}


def _items(value: ConfigValue, reading: ConfigReading) -> list[ConfigValue]:
    """The items of a list. A scalar is a list of one, null or nothing written is an empty one."""
    if isinstance(value.content, list):
        return value.content
    if isinstance(value.content, dict):
        reading.wrong(value, "list")
        return []
    return [] if value.content in (None, "") else [value]
