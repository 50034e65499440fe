"""Reading YAML files of a workspace: the one module outside the engines that knows the YAML library.

Only plain values are made, every value keeps its line and column, and nothing grows: a file has a largest
size, and what its aliases expand to has a largest number of values.
"""

from pathlib import Path

import yaml

from molecule_runtime.domain.config_values import ConfigContent, ConfigReading, ConfigValue

MAX_BYTES = 256 * 1024
"""PyYAML reads about 100 KiB a second; a longer file is no configuration."""

MAX_VALUES = 50_000
MAX_DEPTH = 100

_TAG = "tag:yaml.org,2002:"
_SCALARS = frozenset(_TAG + name for name in ("str", "int", "float", "bool", "null"))
_MERGE = f"{_TAG}merge"


class PlainLoader(yaml.SafeLoader):
    """A safe loader that leaves dates as they are written, because JSON has none."""


PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != f"{_TAG}timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(path: Path, reading: ConfigReading) -> ConfigValue:
    """The value of a file; an empty file is null. What is wrong with it is recorded.

    Raises OSError when the file cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    start = ConfigValue(None, line=1, column=1)
    if len(data) > MAX_BYTES:
        reading.wrong(start, f"at most {MAX_BYTES} bytes", "more")
        return start
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        before = data[: problem.start].decode("utf-8-sig", "replace")
        reading.wrong(_place(before), "UTF-8 text", f"byte 0x{data[problem.start]:02x}")
        return start
    return parse_yaml(text, reading)


def parse_yaml(text: str, reading: ConfigReading) -> ConfigValue:
    """The value of a text, as `read_yaml`."""
    start = ConfigValue(None, line=1, column=1)
    try:
        loader = PlainLoader(text)
        root = loader.get_single_node()
        return start if root is None else _Tree(loader, reading).value(root, "", 0)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        place = start if mark is None else ConfigValue(None, line=mark.line + 1, column=mark.column + 1)
        reading.wrong(place, "YAML", _one_line(problem.problem or problem.context or "something else"))
    except yaml.reader.ReaderError as problem:
        reading.wrong(_place(text[: problem.position]), "YAML", "a character that YAML does not allow")
    except RecursionError:
        reading.wrong(start, f"at most {MAX_DEPTH} levels", "more")
    except _TooLarge as refusal:
        reading.wrong(refusal.place, refusal.expected, "more")
    except Exception as problem:  # noqa: BLE001 - for odd escapes and directives PyYAML raises nearly anything
        reading.wrong(start, "YAML", _one_line(str(problem) or type(problem).__name__))
    return start


class _TooLarge(Exception):
    def __init__(self, place: ConfigValue, expected: str) -> None:
        self.place = place
        self.expected = expected
        super().__init__(expected)


class _Tree:
    """Makes values of the nodes of one file, and counts them. What an alias stands for counts each time."""

    def __init__(self, loader: PlainLoader, reading: ConfigReading) -> None:
        self._loader = loader
        self._reading = reading
        self._count = 0

    def value(self, node: yaml.Node, path: str, depth: int) -> ConfigValue:
        place = ConfigValue(None, path, node.start_mark.line + 1, node.start_mark.column + 1)
        self._count += 1
        if self._count > MAX_VALUES:
            raise _TooLarge(place, f"at most {MAX_VALUES} values with aliases expanded")
        if depth > MAX_DEPTH:  # also an alias that contains itself
            raise _TooLarge(place, f"at most {MAX_DEPTH} levels")
        written = node.value if isinstance(node, yaml.ScalarNode) else ""
        content = self._content(node, place, depth)
        return ConfigValue(content, path, place.line, place.column, str(written))

    def _content(self, node: yaml.Node, place: ConfigValue, depth: int) -> ConfigContent:
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, place.path, depth)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [
                self.value(child, f"{place.path}.{number}".lstrip("."), depth + 1)
                for number, child in enumerate(node.value)
            ]
        if not isinstance(node, yaml.ScalarNode) or node.tag not in _SCALARS:
            self._reading.wrong(place, "plain value", f"tag {node.tag.replace(_TAG, '!!')[:40]}")
            return None
        if not _is_storable(str(node.value)):
            self._reading.wrong(place, "text that can be stored", "NUL or half a character")
            return None
        try:
            return self._loader.construct_object(node)  # pyright: ignore[reportUnknownMemberType]
        except Exception:  # noqa: BLE001 - `!!int abc` raises whatever `int` does, other tags other things
            self._reading.wrong(place, node.tag.replace(_TAG, "!!"), "string")
            return None

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, ConfigValue]:
        own: dict[str, ConfigValue] = {}
        merged: dict[str, ConfigValue] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                for name, value in self._merged(value_node, path, depth).items():
                    merged.setdefault(name, value)
                continue
            place = ConfigValue(None, path, key_node.start_mark.line + 1, key_node.start_mark.column + 1)
            if not isinstance(key_node, yaml.ScalarNode) or not _is_storable(str(key_node.value)):
                self._reading.wrong(place, "string as key", "something else")
                continue
            name = str(key_node.value)
            value = self.value(value_node, f"{path}.{name}".lstrip("."), depth + 1)
            if name in own:
                second = ConfigValue(None, value.path, place.line, place.column)
                self._reading.wrong(
                    second, "one value", f"a second one (the first is in line {own[name].line})"
                )
            own[name] = value
        return {**merged, **own}

    def _merged(self, node: yaml.Node, path: str, depth: int) -> dict[str, ConfigValue]:
        """What `<<` brings in: one mapping, or several of which the first wins."""
        sources = self.value(node, path, depth + 1)
        found: dict[str, ConfigValue] = {}
        for source in sources.content if isinstance(sources.content, list) else [sources]:
            if not isinstance(source.content, dict):
                self._reading.wrong(source, "mapping to merge")
                continue
            for name, value in source.content.items():
                found.setdefault(name, value)
        return found


def _is_storable(text: str) -> bool:
    """Whether a text can be written to a file; an escape can make one that cannot."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _place(before: str) -> ConfigValue:
    """The place right after a text."""
    return ConfigValue(None, line=before.count("\n") + 1, column=len(before) - before.rfind("\n"))


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
