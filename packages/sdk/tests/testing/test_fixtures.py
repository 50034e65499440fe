"""The fixtures that pytest finds in the SDK, in a test run of somebody else's project."""

import subprocess
import sys
from pathlib import Path

SUITE = """
import sys

def test_nothing_is_loaded_for_a_test_that_does_not_ask():
    assert "molecule_agent" not in sys.modules
    assert "requests" not in sys.modules

def test_an_agent_is_tested(molecule_platform, molecule_client):
    molecule_platform.set_secret(molecule_client.workspace_id, "KEY", "value")
    assert molecule_client.pull_secrets() == {"KEY": "value"}

def test_each_test_has_a_platform_of_its_own(molecule_platform):
    assert molecule_platform.requests == []
"""


def test_a_project_finds_the_fixtures_and_pays_nothing_until_it_uses_them(tmp_path: Path) -> None:
    (tmp_path / "test_agent.py").write_text(SUITE)
    only_ours = ["-p", "pytest_molecule", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "-q"]
    command = [sys.executable, "-m", "pytest", *only_ours, str(tmp_path)]
    ran = subprocess.run(
        command,
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "3 passed" in ran.stdout, ran.stdout + ran.stderr
