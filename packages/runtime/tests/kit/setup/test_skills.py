"""Skills are loaded when they fit, and their code runs only when the owner trusts it."""

import sys
from pathlib import Path

import pytest

from molecule_runtime.kit.setup.skills import (
    LoadedSkill,
    SkillMetadata,
    load_skills,
    parse_skill_frontmatter,
    read_skill_tool,
)

TOOL = '''
from molecule_runtime.tools import tool

@tool
async def greet(name: str) -> str:
    """Greet."""
    return f"hello {name} from {__name__}"

@tool
async def leave() -> str:
    return "bye"
'''


def write_skill(root: Path, id: str, front: str = "description: d", body: str = "Do it.") -> Path:
    folder = root / id
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\n{front}\n---\n{body}\n")
    return folder


def compiled_files(folder: Path) -> list[Path]:
    return list(folder.rglob("__pycache__"))


def ids(skills: list[LoadedSkill]) -> list[str]:
    return [skill.metadata.id for skill in skills]


class TestFrontmatter:
    def test_front_matter_and_body_are_apart(self, tmp_path: Path) -> None:
        folder = write_skill(tmp_path, "s", "name: s\ntags: [a]", "Body\n---\nmore")
        assert parse_skill_frontmatter(folder / "SKILL.md") == (
            {"name": "s", "tags": ["a"]},
            "Body\n---\nmore\n",
        )

    @pytest.mark.parametrize("front", ["a: [", "- a list", "just text"])
    def test_what_is_malformed_is_a_warning(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, front: str
    ) -> None:
        folder = write_skill(tmp_path, "s", front)
        assert parse_skill_frontmatter(folder / "SKILL.md") == ({}, "Do it.\n")
        assert len(caplog.messages) == 1

    def test_text_without_front_matter_is_all_body(self, tmp_path: Path) -> None:
        (tmp_path / "SKILL.md").write_text("Just do it.")
        assert parse_skill_frontmatter(tmp_path / "SKILL.md") == ({}, "Just do it.")

    def test_a_missing_file_never_raises(self, tmp_path: Path) -> None:
        assert parse_skill_frontmatter(tmp_path / "SKILL.md") == ({}, "")


class TestLoading:
    def test_a_skill_has_its_metadata_and_instructions(self, tmp_path: Path) -> None:
        front = "name: Nice\ndescription: d\ntags: [a, b]\nexamples: [e]\nruntime: claude-code"
        write_skill(tmp_path / "skills", "s", front)
        [skill] = load_skills(tmp_path, ["s"])
        assert skill.metadata == SkillMetadata("s", "Nice", "d", ["a", "b"], ["e"], ["claude-code"])
        assert skill.instructions == "Do it."

    def test_the_name_is_the_id_unless_said(self, tmp_path: Path) -> None:
        write_skill(tmp_path, "s")
        [skill] = load_skills(tmp_path, ["s"])
        assert (skill.metadata.name, skill.metadata.runtime) == ("s", ["*"])

    def test_a_star_loads_every_folder_but_hidden_ones(self, tmp_path: Path) -> None:
        for id in ("b", "a", ".hidden"):
            write_skill(tmp_path, id)
        assert ids(load_skills(tmp_path, ["*"])) == ["a", "b"]

    def test_missing_skills_and_paths_are_skipped_with_a_warning(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        write_skill(tmp_path / "outside", "s")
        (tmp_path / "skills/empty").mkdir(parents=True)
        assert load_skills(tmp_path, ["none", "empty", "../outside/s"]) == []
        assert len(caplog.messages) == 3

    @pytest.mark.parametrize(
        ("runtime", "current", "fits"),
        [
            ("claude-code", "claude_code", True),
            ("[claude_code, echo]", "claude-code", True),
            ("echo", "claude-code", False),
            ("echo", None, True),
            ("'*'", "echo", True),
            ("3", "echo", True),
            ("[1, 2]", "echo", True),
        ],
    )
    def test_a_skill_is_for_its_runtimes(
        self, tmp_path: Path, runtime: str, current: str | None, fits: bool
    ) -> None:
        write_skill(tmp_path, "s", f"runtime: {runtime}")
        assert bool(load_skills(tmp_path, ["s"], current)) is fits

    @pytest.mark.parametrize(
        ("requires", "reason"),
        [
            ("env: [NO_SUCH_VARIABLE]", "NO_SUCH_VARIABLE"),
            ("bins: [no-such-program]", "no-such-program"),
            ("anyBins: [no-such-program, nor-this]", "one of the programs"),
            ("config: [browser.enabled]", "browser.enabled"),
        ],
    )
    def test_a_skill_whose_needs_are_not_met_is_skipped_with_the_reason(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, requires: str, reason: str
    ) -> None:
        write_skill(tmp_path, "s", f"metadata: {{openclaw: {{requires: {{{requires}}}}}}}")
        assert load_skills(tmp_path, ["s"]) == []
        assert reason in caplog.text

    def test_a_skill_whose_needs_are_met_is_loaded(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MY_KEY", "x")
        needs = "env: [MY_KEY], bins: [sh], anyBins: [no-such-program, sh]"
        write_skill(tmp_path, "s", f"metadata: {{openclaw: {{requires: {{{needs}}}}}}}")
        assert ids(load_skills(tmp_path, ["s"])) == ["s"]


class TestTools:
    def test_code_of_an_untrusted_skill_does_not_run(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        folder = write_skill(tmp_path, "s")
        (folder / "scripts").mkdir()
        (folder / "scripts/bad.py").write_text("raise SystemExit(3)")
        [skill] = load_skills(tmp_path, ["s"])
        assert skill.tools == []
        assert "not marked as trusted: bad.py" in caplog.text

    async def test_tools_of_two_trusted_skills_do_not_collide(self, tmp_path: Path) -> None:
        for id, place in (("one", "scripts"), ("two", "tools")):
            (write_skill(tmp_path, id) / place).mkdir()
            (tmp_path / id / place / "main.py").write_text(TOOL)
            (tmp_path / id / place / "_private.py").write_text("raise RuntimeError")
        one, two = load_skills(tmp_path, ["one", "two"], trusted=True)
        results = [await skill.tools[0].ainvoke({"name": "x"}) for skill in (one, two)]
        assert results == ["hello x from molecule_skill_one_main", "hello x from molecule_skill_two_main"]
        assert not compiled_files(tmp_path)
        for id in ("one", "two"):
            del sys.modules[f"molecule_skill_{id}_main"]

    def test_a_skill_has_only_the_tools_it_allows_itself(self, tmp_path: Path) -> None:
        (write_skill(tmp_path, "narrow", "allowed-tools: greet Bash") / "scripts").mkdir()
        (tmp_path / "narrow/scripts/main.py").write_text(TOOL)
        [skill] = load_skills(tmp_path, ["narrow"], trusted=True)
        assert [one.name for one in skill.tools] == ["greet"]
        assert skill.allowed_tools == ["greet", "Bash"]
        del sys.modules["molecule_skill_narrow_main"]

    def test_a_file_that_fails_leaves_the_others(self, tmp_path: Path) -> None:
        (write_skill(tmp_path, "half") / "scripts").mkdir()
        (tmp_path / "half/scripts/a.py").write_text("raise SystemExit(3)")
        (tmp_path / "half/scripts/b.py").write_text(TOOL)
        [skill] = load_skills(tmp_path, ["half"], trusted=True)
        assert [one.name for one in skill.tools] == ["greet", "leave"]
        assert "molecule_skill_half_a" not in sys.modules
        del sys.modules["molecule_skill_half_b"]

    def test_a_link_out_of_the_skill_is_not_run(self, tmp_path: Path) -> None:
        (tmp_path / "evil.py").write_text("raise RuntimeError")
        (write_skill(tmp_path / "skills", "s") / "scripts").mkdir()
        (tmp_path / "skills/s/scripts/evil.py").symlink_to(tmp_path / "evil.py")
        [skill] = load_skills(tmp_path, ["s"], trusted=True)
        assert skill.tools == []


async def test_a_skill_is_read_by_its_id() -> None:
    read = read_skill_tool([LoadedSkill(SkillMetadata("s", "S"), "Do it.")])
    assert await read.ainvoke({"id": "s"}) == "Do it."
    assert await read.ainvoke({"id": "x"}) == "Error: no skill 'x'; known: s"
