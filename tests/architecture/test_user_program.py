"""A user's program against the SDK's types: strict, outside this repository's own settings."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import repository

PROGRAMS = ("run.py", "tour.py")
PROJECT = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}


@pytest.mark.timeout(120)
@pytest.mark.slow  # a type checker starts from nothing
def test_a_users_program_is_clean_under_a_strict_type_checker(tmp_path: Path) -> None:
    for name in PROGRAMS:
        shutil.copy(repository.ROOT / "examples" / "remote-agent" / name, tmp_path / name)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(PROJECT))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--project", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(120)
@pytest.mark.slow  # another one
def test_a_users_program_is_clean_under_mypy_too(tmp_path: Path) -> None:
    for name in PROGRAMS:
        shutil.copy(repository.ROOT / "examples" / "remote-agent" / name, tmp_path / name)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", sys.executable, *PROGRAMS]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("package", ["molecule_agent", "molecule_plugin", "molecule_wire", "molecule_a2a"])
def test_every_package_of_the_sdk_says_that_it_is_typed(package: str) -> None:
    assert [*repository.ROOT.glob(f"packages/*/src/{package}/py.typed")]
