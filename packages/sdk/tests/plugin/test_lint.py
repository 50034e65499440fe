"""Lint: what an author probably did not mean, and what has gone stale."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from molecule_plugin import Finding, compute_plugin_sha256, lint_plugin, sign_plugin
from molecule_plugin.keys import SigningKey

SKILL = "---\nname: s\ndescription: Does it.\n---\n"
GOOD = {
    "plugin.yaml": 'name: demo\nversion: "1.0"\nruntimes: [claude-code]\nskills: [s]\nrules: [r]\n',
    "skills/s/SKILL.md": SKILL,
    "rules/r.md": "- be kind\n",
    "adapters/claude_code.py": "",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return written(tmp_path / "demo", GOOD)


def written(root: Path, files: dict[str, str]) -> Path:
    for path, content in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8")
    return root


def codes(root: Path) -> list[str]:
    return [found.code for found in lint_plugin(root)]


def test_a_good_plugin_has_no_findings(root: Path) -> None:
    assert lint_plugin(root) == []
    assert lint_plugin(str(root)) == []


@pytest.mark.parametrize(
    ("files", "code", "severity"),
    [
        ({"plugin.yaml": "name: other\nruntimes: [claude_code]"}, "name-mismatch", "warning"),
        ({"plugin.yaml": "name: Not A Name\nruntimes: [claude_code]"}, "name-format", "error"),
        ({"plugin.yaml": "name: demo\nversion: 1.10\nruntimes: [claude_code]"}, "version-format", "warning"),
        ({"plugin.yaml": "name: demo\nversion: new\nruntimes: [claude_code]"}, "version-format", "warning"),
        (
            {"plugin.yaml": "name: demo\nruntimes: [claude_code, llm]"},
            "runtime-without-adaptor",
            "warning",
        ),
        ({"adapters/crewai.py": ""}, "adaptor-without-runtime", "warning"),
        ({"plugin.yaml": "name: demo\n", "adapters/unheard.py": ""}, "adaptor-without-runtime", "warning"),
        ({"plugin.yaml": "name: demo\nskills: [absent]\n"}, "listed-missing", "warning"),
        ({"plugin.yaml": "name: demo\nrules: [../../x]\n"}, "listed-missing", "warning"),
        ({"plugin.yaml": "name: demo\nprompt_fragments: [x.md]\n"}, "listed-missing", "warning"),
        ({"plugin.yaml": "name: demo\nhooks: [x]\n"}, "listed-missing", "warning"),
        ({"plugin.yaml": "name: demo\nadapters: {llm: a/b.py}\n"}, "listed-missing", "warning"),
        ({"plugin.yaml": "name: demo\nadapters: {llm: ../b.py}\n"}, "adapter-path", "error"),
        ({".DS_Store": ""}, "stray-files", "warning"),
        ({".git/HEAD": "", ".git/config": ""}, "stray-files", "warning"),
        ({"adapters/__pycache__/x.pyc": ""}, "stray-files", "warning"),
        ({"rules/r.md~": ""}, "stray-files", "warning"),
        ({"setup.sh": "true\n"}, "setup-undeclared", "warning"),
        ({"settings-fragment.json": "{"}, "settings-invalid", "warning"),
        ({"settings-fragment.json": "[]"}, "settings-invalid", "warning"),
        ({"plugin.yaml": "name: demo\nrequires: ['a b']\n"}, "requires-format", "warning"),
        ({"plugin.yaml": "name: demo\npermissions: [x]\n"}, "permissions-format", "warning"),
        ({"plugin.yaml": f"name: demo\nsha256: '{'0' * 64}'\n"}, "digest-stale", "error"),
        ({"plugin.sig": "{}"}, "signature-stale", "error"),
    ],
)
def test_each_doubt_has_its_code(root: Path, files: dict[str, str], code: str, severity: str) -> None:
    found = lint_plugin(written(root, files))
    assert [(one.code, one.severity) for one in found] == [(code, severity)], found


def test_a_requirement_may_have_a_version(root: Path) -> None:
    written(root, {"plugin.yaml": "name: demo\nrequires: [other, other@>=1.2, 'other@2.0']\n"})
    assert lint_plugin(root) == []


def test_declared_setup_and_present_hooks_are_fine_and_absent_ones_are_named(root: Path) -> None:
    fragment = {
        "hooks": {
            "PreToolUse": [
                {"hooks": [{"type": "command", "command": "bash ${CLAUDE_DIR}/hooks/a.sh --x"}]},
                {"hooks": [{"type": "command", "command": '"$CLAUDE_DIR/hooks/gone.sh"'}]},
            ]
        }
    }
    written(
        root, {"hooks/a.sh": "true\n", "settings-fragment.json": json.dumps(fragment), "setup.sh": "true"}
    )
    (root / "plugin.yaml").write_text("name: demo\npermissions: {setup: true}\n")
    assert [(one.code, one.message) for one in lint_plugin(root)] == [
        ("hook-missing", "names hooks/gone.sh, which does not exist")
    ]


def test_a_right_digest_is_no_finding_and_a_changed_file_makes_it_stale(root: Path) -> None:
    (root / "plugin.yaml").write_text(f'name: demo\nsha256: "{compute_plugin_sha256(root)}"\n')
    assert codes(root) == []
    (root / "rules" / "r.md").write_text("- be kinder\n")
    assert codes(root) == ["digest-stale"]


@pytest.mark.parametrize("changed", ["rules/r.md", "plugin.yaml"])
def test_a_signature_is_stale_once_anything_changed(root: Path, changed: str) -> None:
    sign_plugin(root, [SigningKey(b"k" * 32)], datetime(2026, 1, 1, tzinfo=UTC))
    assert codes(root) == []
    with (root / changed).open("a") as file:
        file.write("# more\n")
    assert codes(root) == ["signature-stale"]


def test_errors_come_first_and_know_their_line(root: Path) -> None:
    written(root, {"plugin.yaml": "version: x\nname: 3\n", "stray.swp": ""})
    found = lint_plugin(root)
    assert [(one.severity, one.file, one.line) for one in found] == [
        ("error", "plugin.yaml", 2),
        ("warning", "plugin.yaml", 1),
        ("warning", "stray.swp", None),
    ]
    assert found[0] == Finding(
        "plugin.yaml", "`name` is required and must be a non-empty string", "error", "manifest-invalid"
    )


def test_what_is_no_directory_is_said_and_not_raised(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert [one.message for one in lint_plugin(tmp_path / "nowhere")] == ["does not exist"]
    assert [one.message for one in lint_plugin(tmp_path / "file")] == ["not a directory"]


def test_a_directory_reached_through_a_link_is_looked_at(root: Path) -> None:
    (root.parent / "link").symlink_to(root)
    assert lint_plugin(root.parent / "link") == []


def test_a_folder_or_a_pipe_in_the_place_of_a_file_is_no_crash(root: Path) -> None:
    (root / "plugin.yaml").unlink()
    (root / "plugin.yaml").mkdir()
    (root / "settings-fragment.json").mkdir()
    os.mkfifo(root / "rules" / "pipe.md")
    assert sorted(codes(root)) == ["link", "manifest-invalid", "settings-invalid"]


def test_nothing_of_the_plugin_is_run_or_imported(root: Path) -> None:
    written(root, {"adapters/claude_code.py": "raise SystemExit('ran')\n", "setup.sh": "exit 9\n"})
    program = f"from molecule_plugin import lint_plugin; print(len(lint_plugin({str(root)!r})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
