"""`skills/<id>/SKILL.md`: YAML between two fences, then prose; the format of agentskills.io."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from molecule_plugin import findings as found
from molecule_plugin import yaml_reader
from molecule_plugin.findings import Finding, warning
from molecule_plugin.text_reader import UnreadableFile, read_text
from molecule_plugin.values import items, mapping, named, type_name
from molecule_plugin.yaml_reader import Document

SKILL_FILE = "SKILL.md"
SKILL_NAME_MAX = 64
SKILL_DESC_MAX = 1024
SKILL_COMPAT_MAX = 500
SKILL_NAME_RE = re.compile(r"^[a-z0-9]+(-[a-z0-9]+)*$")
_MAX_BYTES = 1024 * 1024
_FENCE = "---"


class _Skill(NamedTuple):
    document: Document
    body: str
    problem: str


def parse_skill_md(path: Path | str) -> tuple[dict[str, object], str, list[str]]:
    """Read a `SKILL.md`: its front matter, its body, and what is wrong with it. It never raises."""
    skill = _read(Path(path))
    if skill.problem:
        return {}, skill.body, [skill.problem]
    return named(skill.document.value), skill.body, []


def validate_skill(path: Path | str) -> list[str]:
    """What is wrong with a skill's directory; empty when nothing is."""
    return [finding.message for finding in found.errors(skill_findings(Path(path)))]


def skill_findings(skill_dir: Path) -> list[Finding]:
    """The same, each with its line, and what is only worth a warning."""
    if not skill_dir.is_dir():
        return [Finding(SKILL_FILE, f"skill path is not a directory: {skill_dir}", code="skill-invalid")]
    skill = _read(skill_dir / SKILL_FILE)
    if skill.problem:
        line = skill.document.line()
        return [Finding(SKILL_FILE, skill.problem, code="skill-invalid", line=_in_file(line))]
    fields = named(skill.document.value)
    faults = [
        *_name(fields, Path(os.path.abspath(skill_dir)).name),
        *_described(fields),
        *_texts(fields),
        *_metadata(skill.document.value),
    ]
    return [_fault(skill.document, key, message) for key, message in faults] + _warnings(skill.document)


def _read(path: Path) -> _Skill:
    if not os.path.lexists(path):
        return _Skill(Document(None), "", f"SKILL.md not found: {path}")
    try:
        text = read_text(path, _MAX_BYTES)
    except UnreadableFile as unreadable:
        return _Skill(Document(None), "", f"SKILL.md cannot be read: {unreadable}")
    if not text.startswith(_FENCE):
        return _Skill(Document(None), "", "SKILL.md must start with YAML frontmatter (---)")
    return _parsed(text)


def _parsed(text: str) -> _Skill:
    lines = re.split(r"\r\n|\n|\r", text)
    closing = next((number for number, line in enumerate(lines) if number and line == _FENCE), 0)
    if lines[0].rstrip() != _FENCE or not closing:
        problem = "malformed frontmatter — expected opening and closing '---'"
        return _Skill(Document(None), "", problem)
    document = yaml_reader.parse_yaml("\n".join(lines[1:closing]))
    body = "\n".join(lines[closing + 1 :])
    if document.problem:
        return _Skill(document, body, f"frontmatter yaml parse error: {document.problem}")
    if mapping(document.value) is None:
        return _Skill(document, body, "frontmatter must be a YAML mapping")
    return _Skill(document, body, "")


def _in_file(line: int | None) -> int | None:
    """A line of the front matter as a line of the file."""
    return None if line is None else line + 1


def _fault(document: Document, key: str, message: str) -> Finding:
    return Finding(SKILL_FILE, message, code="skill-invalid", line=_in_file(document.line(key)))


def _name(fields: dict[str, object], folder: str) -> Iterator[tuple[str, str]]:
    name = fields.get("name")
    if name is None or name == "":
        yield "name", "`name` is required in SKILL.md frontmatter"
        return
    if not isinstance(name, str):
        yield "name", f"`name` must be a string, got {type_name(name)}"
        return
    if len(name) > SKILL_NAME_MAX:
        yield "name", f"`name` length must be ≤{SKILL_NAME_MAX}, got {len(name)}"
    if not SKILL_NAME_RE.fullmatch(name):
        rule = "lowercase alphanumeric with single hyphens, no leading/trailing/consecutive hyphens"
        yield "name", f"`name` '{name[:80]}' must be {rule}"
    if name != folder:
        yield "name", f"`name` '{name[:80]}' must match directory name '{folder}'"


def _described(fields: dict[str, object]) -> Iterator[tuple[str, str]]:
    description = fields.get("description")
    if description is None or (isinstance(description, str) and not description.strip()):
        yield "description", "`description` is required in SKILL.md frontmatter"
    elif not isinstance(description, str):
        yield "description", f"`description` must be a string, got {type_name(description)}"
    elif len(description) > SKILL_DESC_MAX:
        yield "description", f"`description` length must be ≤{SKILL_DESC_MAX}, got {len(description)}"


def _texts(fields: dict[str, object]) -> Iterator[tuple[str, str]]:
    compatibility = fields.get("compatibility", "")
    if not isinstance(compatibility, str):
        yield "compatibility", f"`compatibility` must be a string, got {type_name(compatibility)}"
    elif len(compatibility) > SKILL_COMPAT_MAX:
        yield "compatibility", f"`compatibility` length must be ≤{SKILL_COMPAT_MAX}, got {len(compatibility)}"
    if not isinstance(fields.get("allowed-tools", ""), str):
        yield "allowed-tools", "`allowed-tools` must be a space-separated string"
    if not isinstance(fields.get("license", ""), str):
        yield "license", "`license` must be a string"


def _metadata(frontmatter: object) -> Iterator[tuple[str, str]]:
    fields = named(frontmatter)
    if "metadata" not in fields:
        return
    metadata = mapping(fields["metadata"])
    if metadata is None:
        yield "metadata", f"`metadata` must be a mapping, got {type_name(fields['metadata'])}"
    elif not all(isinstance(key, str) for key in metadata):
        yield "metadata", "`metadata` keys must be strings"


def _warnings(document: Document) -> list[Finding]:
    fields = named(document.value)
    doubts = [
        (key, f"`{key}` must be a list of strings")
        for key in ("tags", "examples")
        if key in fields and not _is_texts(fields[key])
    ]
    if not isinstance(fields.get("runtime", ""), str) and not _is_texts(fields["runtime"]):
        doubts.append(("runtime", "`runtime` must be a string or a list of strings; it is taken as any"))
    return [
        warning(SKILL_FILE, message, "skill-field", _in_file(document.line(key))) for key, message in doubts
    ]


def _is_texts(value: object) -> bool:
    listed = items(value)
    return listed is not None and all(isinstance(item, str) for item in listed)
