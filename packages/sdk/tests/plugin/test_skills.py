"""`SKILL.md`: how it is read and what must hold of it."""

from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molecule_plugin import parse_skill_md, skills, validate_skill
from molecule_plugin.skills import skill_findings
from tests.rows import each_row

GOOD = {"name": "greet", "description": "Greets."}


def skill(folder: Path, frontmatter: object, body: str = "# Greet\n") -> Path:
    place = folder / "greet"
    place.mkdir(exist_ok=True)
    (place / "SKILL.md").write_text(f"---\n{yaml.safe_dump(frontmatter)}---\n{body}", encoding="utf-8")
    return place


def parsed(folder: Path, text: str) -> tuple[dict[str, object], str, list[str]]:
    (folder / "SKILL.md").write_bytes(text.encode())
    return parse_skill_md(folder / "SKILL.md")


def test_a_good_skill_has_no_faults(tmp_path: Path) -> None:
    full = GOOD | {
        "license": "MIT",
        "compatibility": "any",
        "metadata": {"a": 1},
        "allowed-tools": "Read Write",
        "tags": ["a"],
        "examples": [],
        "runtime": ["llm"],
    }
    assert validate_skill(skill(tmp_path, full)) == []
    assert skill_findings(skill(tmp_path, full)) == []


def test_front_matter_and_body_are_told_apart(tmp_path: Path) -> None:
    front, body, faults = parsed(tmp_path, "---\nname: x\ndescription: y\n---\n# Body\n---\nmore\n")
    assert (front, body, faults) == ({"name": "x", "description": "y"}, "# Body\n---\nmore\n", [])


@pytest.mark.parametrize(
    ("text", "front"),
    [
        ("---\nname: x\n---", {"name": "x"}),
        ("---\r\nname: x\r\n---\r\nbody", {"name": "x"}),
        ("\ufeff---\nname: x\n---\n", {"name": "x"}),
        ("---\nname: a --- b\n---\n", {"name": "a --- b"}),
        ('---\nname: "a\n  ---\n  b"\n---\n', {"name": "a --- b"}),
    ],
)
def test_only_a_line_of_its_own_closes_the_front_matter(
    tmp_path: Path, text: str, front: dict[str, object]
) -> None:
    assert parsed(tmp_path, text)[0] == front


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("# no front matter", "SKILL.md must start with YAML frontmatter (---)"),
        ("---\nname: x\n", "malformed frontmatter — expected opening and closing '---'"),
        ("--- x\nname: x\n---\n", "malformed frontmatter — expected opening and closing '---'"),
        ("---\nname: [\n---\n", "frontmatter yaml parse error: "),
        ("---\n- a\n---\n", "frontmatter must be a YAML mapping"),
        ("---\n---\n", "frontmatter must be a YAML mapping"),
    ],
)
def test_what_cannot_be_read_is_said_not_raised(tmp_path: Path, text: str, fault: str) -> None:
    front, _, faults = parsed(tmp_path, text)
    assert front == {}
    assert faults[0].startswith(fault)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "SKILL.md"
    assert parse_skill_md(path) == ({}, "", [f"SKILL.md not found: {path}"])
    assert validate_skill(tmp_path / "nowhere") == [f"skill path is not a directory: {tmp_path / 'nowhere'}"]
    assert validate_skill(tmp_path) == [f"SKILL.md not found: {path}"]


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text() | st.text("-:[]{}&*! \n'\"ab").map(lambda text: f"---\n{text}\n---\n"))
def test_no_text_makes_the_reader_raise(tmp_path: Path, text: str) -> None:
    (tmp_path / "SKILL.md").write_bytes(text.encode("utf-8", "surrogatepass"))
    front, body, faults = parse_skill_md(tmp_path / "SKILL.md")
    assert isinstance(front, dict)
    assert isinstance(body, str)
    assert all(faults)
    validate_skill(tmp_path)


@each_row(
    ("changed", "fragment"),
    [
        ({"name": None}, "`name` is required in SKILL.md frontmatter"),
        ({"name": ""}, "`name` is required in SKILL.md frontmatter"),
        ({"name": 3}, "`name` must be a string, got int"),
        ({"name": "a" * 65}, "`name` length must be ≤64, got 65"),
        (
            {"name": "Greet"},
            "must be lowercase alphanumeric with single hyphens, no leading/trailing/consecutive hyphens",
        ),
        ({"name": "a--b"}, "must be lowercase alphanumeric with single hyphens"),
        ({"name": "greet\n"}, "must be lowercase alphanumeric with single hyphens"),
        ({"name": "other"}, "must match directory name 'greet'"),
        ({"description": None}, "`description` is required"),
        ({"description": " "}, "`description` is required"),
        ({"description": []}, "`description` must be a string"),
        ({"description": "x" * 1025}, "`description` length must be ≤1024, got 1025"),
        ({"compatibility": 1}, "`compatibility` must be a string"),
        ({"compatibility": "x" * 501}, "`compatibility` length must be ≤500"),
        ({"metadata": []}, "`metadata` must be a mapping"),
        ({"metadata": {1: "x"}}, "`metadata` keys must be strings"),
        ({"allowed-tools": ["a"]}, "`allowed-tools` must be a space-separated string"),
        ({"license": 1}, "`license` must be a string"),
    ],
)
def test_each_fault_has_its_words(tmp_path: Path, changed: dict[str, object], fragment: str) -> None:
    faults = validate_skill(skill(tmp_path, GOOD | changed))
    assert any(fragment in fault for fault in faults), faults


def test_a_fault_has_the_line_of_the_file(tmp_path: Path) -> None:
    place = skill(tmp_path, GOOD)
    (place / "SKILL.md").write_text("---\ndescription: x\nname: other\n---\n")
    assert [str(found) for found in skill_findings(place)] == [
        "SKILL.md:3: `name` 'other' must match directory name 'greet'"
    ]


@pytest.mark.parametrize("field", [{"runtime": 3}, {"runtime": [1]}, {"tags": "x"}, {"examples": [1]}])
def test_odd_optional_fields_are_a_warning(tmp_path: Path, field: dict[str, object]) -> None:
    place = skill(tmp_path, GOOD | field)
    assert validate_skill(place) == []
    assert [found.code for found in skill_findings(place)] == ["skill-field"]


def test_the_limits_are_those_of_the_format() -> None:
    assert (skills.SKILL_NAME_MAX, skills.SKILL_DESC_MAX, skills.SKILL_COMPAT_MAX) == (64, 1024, 500)
    assert skills.SKILL_NAME_RE.pattern == "^[a-z0-9]+(-[a-z0-9]+)*$"
