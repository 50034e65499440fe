"""The example adapter is what its page shows, and keeps the contract as its author would check it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import live_platform, repository, samples

EXAMPLE = repository.ROOT / "examples" / "command-adapter"
PAGE = "docs/adapters.md"
FILES = ("command_adapter.py", "test_command_adapter.py")


def test_the_page_shows_the_files_as_they_are() -> None:
    shown = [sample.text for sample in samples.find(PAGE, (repository.ROOT / PAGE).read_text())]
    differing = [name for name in FILES if (EXAMPLE / name).read_text() not in shown]
    assert differing == [], f"copy these files of {EXAMPLE.name} into {PAGE}"
    assert len((EXAMPLE / FILES[0]).read_text().splitlines()) <= 50


@pytest.mark.e2e
def test_plain_pytest_runs_the_contract_of_the_example(tmp_path: Path) -> None:
    """In a folder outside the repository, and without a plugin for asyncio."""
    for name in FILES:
        shutil.copy(EXAMPLE / name, tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    environment = live_platform.clean_environment()
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1].startswith("12 passed, 1 skipped"), done.stdout + done.stderr
    assert "the adapter declares no capability" in done.stdout
