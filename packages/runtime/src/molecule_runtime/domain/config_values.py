"""A value of a configuration with its place, and the list of what is wrong with a configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

ConfigContent: TypeAlias = dict[str, "ConfigValue"] | list["ConfigValue"] | str | int | float | bool | None

ROOT = "(root)"
_SHOWN_CHARACTERS = 40


class ConfigError(ValueError):
    """A configuration that cannot be used. The text has one line for each problem."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True)
class ConfigValue:
    """One node of a configuration file, or the text of one environment variable.

    `written` is a scalar as the file has it. A value `from_environment` is always text; "8000" then stands
    for a number, and the text is never shown, because it may be a secret.
    """

    content: ConfigContent
    path: str = ""
    line: int = 0
    column: int = 0
    written: str = ""
    from_environment: bool = False

    @property
    def type_name(self) -> str:
        """What the value is, in the words of YAML."""
        return type_name(self.content)

    def display_text(self) -> str:
        """A short form of the value for an error text."""
        if self.from_environment or not isinstance(self.content, str | int | float):
            return self.type_name
        text = repr(self.content)
        return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.content, dict):
            return {name: child.plain() for name, child in self.content.items()}
        if isinstance(self.content, list):
            return [child.plain() for child in self.content]
        return self.content


@dataclass
class ConfigReading:
    """One reading of a configuration: the environment that it may use, and what was found on the way.

    Nothing stops at the first problem; `check` raises when there was one.
    """

    file: str
    env: Mapping[str, str]
    warnings: list[str] = field(default_factory=list[str])
    _problems: list[tuple[int, int, str]] = field(default_factory=list[tuple[int, int, str]])

    def wrong(self, value: ConfigValue, expected: str, got: str = "") -> None:
        """Record that a value is not what its key needs."""
        sentence = f"{value.path or ROOT}: expected {expected}, got {got or value.type_name}"
        self._problems.append((value.line, value.column, f"{self._place(value)}{sentence}"))

    def warn(self, value: ConfigValue, sentence: str) -> None:
        """Record what the author should know; the configuration can be used."""
        self.warnings.append(f"{self._place(value)}{value.path or ROOT}: {sentence}")

    def check(self) -> None:
        """Raise `ConfigError` with every problem, in the order of the file."""
        if self._problems:
            raise ConfigError(*(sentence for _, _, sentence in sorted(self._problems)))

    def _place(self, value: ConfigValue) -> str:
        return f"{self.file}:{value.line}:{value.column}: " if value.line else ""


def type_name(content: object) -> str:
    """The name of a plain value's type, in the words of YAML."""
    match content:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case dict():
            return "mapping"
        case _:
            return "list"
