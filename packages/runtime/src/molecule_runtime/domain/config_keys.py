"""The keys of a configuration, declared as fields of dataclasses, and the reader that walks them."""

import copy
import dataclasses
import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from molecule_runtime.domain.config_types import ConfigType
from molecule_runtime.domain.config_values import ConfigReading, ConfigValue

_METADATA = "molecule_key"
_UNKNOWN_KEYS = "extra"
_VARIABLE = re.compile(r"\$\{([^{}]*)\}")

T = TypeVar("T")


@dataclass(frozen=True)
class ConfigKey:
    """One key: what it may hold, and the variables that win over the file, in their order."""

    type: ConfigType
    env: tuple[str, ...] = ()


def key(type_: ConfigType, default: T, *env: str, secret: bool = False) -> T:
    """Declare a key as a field of a dataclass. A secret does not show in the dataclass's text form."""
    metadata = {_METADATA: ConfigKey(type_, env)}
    return field(default_factory=lambda: copy.deepcopy(default), metadata=metadata, repr=not secret)


def block(type_: type[T], *, scalar: str = "", expands: bool = False, is_open: bool = False) -> T:
    """Declare a key that holds a mapping, which a dataclass describes; see `BlockType`."""
    declared = ConfigKey(BlockType(type_, scalar, expands, is_open))
    return field(default_factory=type_, metadata={_METADATA: declared})


@dataclass(frozen=True)
class BlockType:
    """A mapping with known keys.

    `scalar` names the key that a scalar in place of the mapping stands for. In a block that `expands`,
    `${VAR}` in strings is replaced from the environment. An `is_open` block has keys that nobody knows here:
    they are kept without a warning.
    """

    dataclass: type[Any]
    scalar: str = ""
    expands: bool = False
    is_open: bool = False

    def read(self, value: ConfigValue, reading: ConfigReading) -> Any:
        """The block as its dataclass."""
        if self.scalar and not isinstance(value.content, dict | list):
            value = dataclasses.replace(value, content={self.scalar: value})
        if self.expands:
            value = expand_variables(value, reading)
        return read_block(self.dataclass, value, reading, is_open=self.is_open)


def read_block(type_: type[T], value: ConfigValue, reading: ConfigReading, *, is_open: bool = False) -> T:
    """Read a mapping into a dataclass whose fields are declared with `key` and `block`."""
    return type_(**read_keys(type_, value, reading, is_open=is_open))


def read_keys(
    type_: type[Any], value: ConfigValue, reading: ConfigReading, *, is_open: bool = False
) -> dict[str, Any]:
    """What a mapping and the environment say about the fields of a dataclass; the others are left out."""
    if not isinstance(value.content, dict):
        reading.wrong(value, "mapping")
        return {}
    found: dict[str, Any] = {}
    known = declared_keys(type_)
    for name, declared in known.items():
        entry = value.content.get(name)
        if isinstance(declared.type, BlockType) and (entry is None or entry.content is None):
            entry = ConfigValue({}, path=name)  # the environment may still say something about its keys
        # The value in the file is checked even where the environment wins: it is wrong either way.
        for source in (entry, variable(declared.env, reading)):
            if source is not None and source.content is not None:
                found[name] = declared.type.read(source, reading)
    unknown = {name: item for name, item in value.content.items() if name not in known}
    keeps = any(each.name == _UNKNOWN_KEYS for each in dataclasses.fields(type_))
    if keeps:
        found[_UNKNOWN_KEYS] = {name: item.plain() for name, item in unknown.items()}
    if not is_open:
        for name, entry in unknown.items():
            effect = "is kept but has no effect" if keeps else "has no effect"
            reading.warn(entry, f"unknown key {effect}; the nearest known key is '{nearest(name, known)}'")
    return found


def declared_keys(type_: type[Any]) -> dict[str, ConfigKey]:
    """The keys of a dataclass by name, in the order of the class."""
    return {
        each.name: each.metadata[_METADATA]
        for each in dataclasses.fields(type_)
        if _METADATA in each.metadata
    }


def variable(names: Iterable[str], reading: ConfigReading) -> ConfigValue | None:
    """The first of some environment variables that is set to more than blanks."""
    for name in names:
        text = reading.env.get(name, "").strip()
        if text:
            return ConfigValue(text, path=name, written=text, from_environment=True)
    return None


def nearest(name: str, known: Iterable[str]) -> str:
    """The known key that is most like a name."""
    return difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)[0]


def expand_variables(value: ConfigValue, reading: ConfigReading) -> ConfigValue:
    """Replace `${VAR}` in every string below a value. What is not set stays as written, with a warning."""
    if isinstance(value.content, dict):
        expanded = {name: expand_variables(child, reading) for name, child in value.content.items()}
        return dataclasses.replace(value, content=expanded)
    if isinstance(value.content, list):
        return dataclasses.replace(
            value, content=[expand_variables(child, reading) for child in value.content]
        )
    if not isinstance(value.content, str):
        return value

    def replacement(found: re.Match[str]) -> str:
        name = found[1]
        if name not in reading.env:
            reading.warn(value, f"the environment variable {name or '(empty)'} is not set")
            return found[0]
        return reading.env[name]

    text = _VARIABLE.sub(replacement, value.content)
    if text == value.content:
        return value
    return dataclasses.replace(value, content=text, written=text.strip(), from_environment=True)
