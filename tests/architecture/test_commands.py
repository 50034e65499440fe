"""The commands of the house are known to `make`, to its help and to the contributors' page."""

import re
import subprocess

from scripts import repository

COMMANDS = {
    "up", "test", "test-changed", "test-long", "soak", "check", "bench", "smoke", "docs", "lock", "format",
    "clean",
}  # fmt: skip


def words(pattern: str, text: str) -> set[str]:
    return set(re.findall(pattern, text, re.MULTILINE))


def test_make_alone_lists_every_command() -> None:
    said = subprocess.run(["make"], cwd=repository.ROOT, check=True, capture_output=True, text=True).stdout
    assert words(r"^  make ([a-z-]+) ", said) == COMMANDS | {"help"}


def test_the_contributors_page_lists_every_command() -> None:
    page = (repository.ROOT / "CONTRIBUTING.md").read_text()
    assert words(r"^\| `make ([a-z-]+)` \|", page) == COMMANDS


def test_continuous_integration_runs_check_test_and_smoke() -> None:
    script = repository.ROOT / ".ci" / "run"
    assert "for goal in check test smoke; do" in script.read_text()
    assert script.stat().st_mode & 0o111
