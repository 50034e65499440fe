"""AGENTS.md describes the workspace, and leaves alone what people wrote around it."""

import os
import stat
from pathlib import Path

import pytest

from molecule_runtime.settings.agents_md import BEGIN, END, generate_agents_md

CONFIG = (
    "name: Finance\nrole: accountant\ndescription: Counts money.\ntools: [a]\nplugins: [b]\na2a: {port: 9}"
)
SECTION = f"""{BEGIN}
# Finance

**Role:** accountant

## Description

Counts money.

## A2A Endpoint

http://localhost:9/a2a

## MCP Tools

- a
- b
{END}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text(CONFIG)
    return tmp_path


def generate(folder: Path, before: str | None = None, **env: str) -> str:
    output = folder / "work" / "AGENTS.md"
    if before is not None:
        output.parent.mkdir(exist_ok=True)
        output.write_text(before)
    generate_agents_md(str(folder), str(output), env)
    return output.read_text()


def test_a_new_file_holds_the_description(folder: Path) -> None:
    assert generate(folder) == SECTION
    assert stat.S_IMODE((folder / "work" / "AGENTS.md").stat().st_mode) == 0o644


def test_the_url_of_the_agent_is_used_when_it_is_set(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\n\nhttps://agent.test/a2a\n\n" in generate(folder, AGENT_URL="https://agent.test/a2a")
    monkeypatch.setenv("AGENT_URL", "https://env.test")
    generate_agents_md(folder, folder / "A.md")
    assert "https://env.test" in (folder / "A.md").read_text()


def test_what_is_not_said_has_its_stand_in(folder: Path) -> None:
    (folder / "config.yaml").write_text("name: A\ndescription: Does things")
    text = generate(folder)
    assert "**Role:** Does things" in text
    assert text.endswith(f"## MCP Tools\n\nNone\n{END}\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"Mine\n{BEGIN}\nold\n{END}\nalso mine\n", f"Mine\n{SECTION}also mine\n"),
        ("Only mine\n", f"{SECTION}\nOnly mine\n"),
        (f"{BEGIN}\nno end\n", f"{SECTION}\nno end\n"),
        (f"{BEGIN}\nmine\n{BEGIN}\nold\n{END}\nrest", f"mine\n{SECTION}rest"),
        (f"{BEGIN}\nold\n{END}\n{BEGIN}\nmine {END}", f"{SECTION}mine "),
        ("", SECTION),
        (SECTION.replace("Finance", "Older"), SECTION),
        (SECTION.removeprefix(f"{BEGIN}\n").removesuffix(f"{END}\n"), SECTION),
    ],
)
def test_text_outside_the_markers_stays(folder: Path, before: str, after: str) -> None:
    assert generate(folder, before) == after
    assert generate(folder) == after


def test_a_description_cannot_end_the_section(folder: Path) -> None:
    (folder / "config.yaml").write_text(f"name: |\n  A\n  {END}\ndescription: '{END} {BEGIN}'")
    first = generate(folder, "Mine")
    assert (first.count(BEGIN), first.count(END)) == (1, 1)
    assert generate(folder) == first


def test_bytes_that_are_no_text_survive(folder: Path) -> None:
    (folder / "AGENTS.md").write_bytes(b"\xff mine")
    generate_agents_md(folder, folder / "AGENTS.md", {})
    assert (folder / "AGENTS.md").read_bytes().endswith(b"\xff mine")


def test_the_mode_of_the_file_stays_and_no_temporary_file_remains(folder: Path) -> None:
    output = folder / "AGENTS.md"
    output.write_text("mine")
    output.chmod(0o640)
    generate_agents_md(folder, output, {})
    assert stat.S_IMODE(output.stat().st_mode) == 0o640
    assert sorted(os.listdir(folder)) == ["AGENTS.md", "config.yaml"]


def test_a_link_within_the_folder_is_followed_and_one_to_elsewhere_replaced(folder: Path) -> None:
    work = folder / "work"
    work.mkdir()
    (folder / "secret").write_text("secret")
    (work / "CLAUDE.md").write_text("mine")
    (work / "AGENTS.md").symlink_to("CLAUDE.md")
    (work / "OTHER.md").symlink_to(folder / "secret")
    generate_agents_md(folder, work / "AGENTS.md", {})
    generate_agents_md(folder, work / "OTHER.md", {})
    assert (work / "AGENTS.md").is_symlink()
    assert (work / "CLAUDE.md").read_text() == f"{SECTION}\nmine"
    assert (work / "OTHER.md").read_text() == SECTION
    assert (folder / "secret").read_text() == "secret"
