"""Reading YAML that somebody else wrote: nothing raises, nothing grows, and every value knows its line."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import yaml

from molecule_plugin.text_reader import UnreadableFile, read_text
from molecule_plugin.yaml_includes import MAX_TEMPLATE_BYTES, Includes

Step: TypeAlias = str | int
Steps: TypeAlias = tuple[Step, ...]

MAX_MANIFEST_BYTES = 64 * 1024
"""More would only cost the reader time: PyYAML reads about 100 KiB a second."""


@dataclass(frozen=True)
class Document:
    """A value read from YAML, with the place of each part of it; `problem` says why there is none."""

    value: object
    problem: str = ""
    _lines: dict[Steps, int] = field(default_factory=dict[Steps, int], repr=False)
    _texts: dict[Steps, str] = field(default_factory=dict[Steps, str], repr=False)

    def line(self, *steps: Step) -> int | None:
        """The line of a value; of what stands around it when the value has none of its own."""
        known = (steps[:length] for length in range(len(steps), -1, -1) if steps[:length] in self._lines)
        return next((self._lines[found] for found in known), None)

    @property
    def texts(self) -> Mapping[Steps, str]:
        """Every plain value as it was written, by the way to it."""
        return self._texts

    def text(self, *steps: Step) -> str:
        """A plain value as it was written, before YAML made a number or a date of it."""
        return self._texts.get(steps, "")


def read_manifest_yaml(path: Path) -> Document:
    """Read a file of a plugin."""
    try:
        return _read(read_text(path, MAX_MANIFEST_BYTES), None)
    except UnreadableFile as unreadable:
        return _nothing(unreadable)


def read_template_yaml(path: Path) -> Document:
    """Read a file of a template, and the files beside and below it that it includes."""
    try:
        return _read(read_text(path, MAX_TEMPLATE_BYTES), Includes(path.parent))
    except UnreadableFile as unreadable:
        return _nothing(unreadable)


def parse_yaml(text: str) -> Document:
    """Read a text of at most the size of a manifest."""
    if len(text) > MAX_MANIFEST_BYTES:
        return Document(None, f"longer than {MAX_MANIFEST_BYTES} characters")
    try:
        return _read(text, None)
    except UnreadableFile as unreadable:
        return _nothing(unreadable)


def _nothing(unreadable: UnreadableFile) -> Document:
    return Document(None, str(unreadable), {} if unreadable.line is None else {(): unreadable.line})


def _read(text: str, includes: Includes | None) -> Document:
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            return Document(None)
        native = _places(root)
        tree = root if includes is None else includes.expand(root)
        value: object = loader.construct_document(tree)  # pyright: ignore[reportUnknownMemberType]
    except UnreadableFile:
        raise
    except yaml.MarkedYAMLError as problem:
        raise UnreadableFile(_one_line(problem), _line(problem.problem_mark)) from None
    except RecursionError:
        raise UnreadableFile("nested too deeply") from None
    except Exception as problem:  # noqa: BLE001 - for odd tags and scalars PyYAML raises nearly anything
        raise UnreadableFile(" ".join(str(problem).split())[:200] or type(problem).__name__) from None
    return Document(value, "", *native)


def _places(root: yaml.Node) -> tuple[dict[Steps, int], dict[Steps, str]]:
    lines: dict[Steps, int] = {}
    texts: dict[Steps, str] = {}
    for steps, line, node in _walk(root):
        lines[steps] = line
        if isinstance(node, yaml.ScalarNode):
            texts[steps] = str(node.value)
        if not is_storable("".join((texts.get(steps, ""), *(str(step) for step in steps[-1:])))):
            raise UnreadableFile("a text holds NUL or half a character, which nothing can store", line)
    return lines, texts


def is_storable(text: str) -> bool:
    """Whether a text can be written to files and databases; an escape can make one that cannot."""
    return "\0" not in text and not any("\ud800" <= sign <= "\udfff" for sign in text)


def _walk(root: yaml.Node) -> Iterator[tuple[Steps, int, yaml.Node]]:
    """Every node with the way to it; what aliases lead to is entered once."""
    seen: set[int] = set()
    waiting: list[tuple[Steps, int, yaml.Node]] = [((), root.start_mark.line + 1, root)]
    while waiting:
        steps, line, node = waiting.pop()
        yield steps, line, node
        if id(node) not in seen:
            seen.add(id(node))
            waiting += [((*steps, step), line, child) for step, line, child in _children(node)]


def _children(node: yaml.Node) -> list[tuple[Step, int, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        named = [(key, child) for key, child in node.value if isinstance(key, yaml.ScalarNode)]
        return [(str(key.value), key.start_mark.line + 1, child) for key, child in named]
    if isinstance(node, yaml.SequenceNode):
        return [(number, child.start_mark.line + 1, child) for number, child in enumerate(node.value)]
    return []


def _line(mark: "yaml.Mark | None") -> int | None:
    return None if mark is None else mark.line + 1


def _one_line(problem: yaml.MarkedYAMLError) -> str:
    text = " ".join(str(part) for part in (problem.context, problem.problem) if part)
    mark = problem.problem_mark
    return text if mark is None else f"{text} (line {mark.line + 1}, column {mark.column + 1})"
