"""A workspace that cannot start says why, on one line, to whoever started it and to the platform."""

import socket
import subprocess
from pathlib import Path

import pytest

from scripts.live_platform import LivePlatform
from tests.e2e.workspaces import COMMAND, CONFIG, Member, environment, with_modules

pytestmark = pytest.mark.timeout(60)

ADAPTER = """
from molecule_runtime.adapters.base import BaseAdapter


class Adapter(BaseAdapter):
    @staticmethod
    def name():
        return "echo"

    @staticmethod
    def display_name():
        return "Broken"

    @staticmethod
    def description():
        return "Broken in one place."

    async def setup(self, config):
        pass

    async def create_executor(self, config):
        return None
"""
SETUP = "    async def setup(self, config):\n        pass\n"
MODULES = {
    "raises": 'import os\n\nos.environ["NO_SUCH_KEY"]\n',
    "empty": "",
    "unfinished": ADAPTER.replace(SETUP, ""),
    "executorless": ADAPTER,
    "nameless": ADAPTER.replace('return "echo"', 'raise ValueError("I have no name")'),
}


def ended(variables: dict[str, str]) -> tuple[int, str]:
    """The exit code of a runtime with these variables, and what it wrote."""
    done = subprocess.run(COMMAND, env=variables, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("no_such_module", "'no_such_module' cannot be imported: No module named 'no_such_module'"),
        ("raises", "'raises' raised KeyError when it was imported: 'NO_SUCH_KEY'"),
        ("empty", "'empty' has no class `Adapter`"),
        ("unfinished", "Can't instantiate abstract class Adapter with"),
        ("executorless", "create_executor() of the adapter returned NoneType, no executor"),
        ("nameless", "name() raised ValueError: I have no name"),
    ],
)
def test_a_broken_adapter_is_told_to_the_log_and_to_the_platform(
    live: LivePlatform, tmp_path: Path, module: str, told: str
) -> None:
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    variables = {"ADAPTER_MODULE": module, "PYTHONPATH": with_modules(tmp_path)}
    broken = Member(live, tmp_path / "broken", **variables)
    code, said = ended(broken.variables)
    assert (code, "Traceback" in said) == (1, False), said
    [line] = [line for line in said.splitlines() if told in line]
    [activity] = broken.call("GET", f"/workspaces/{broken.id}/activity?type=error")
    assert told in activity["summary"], line


def test_a_port_that_is_taken_is_told_to_the_log_and_to_the_platform(
    live: LivePlatform, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        config = CONFIG.replace("port: 0", f"port: {port}")
        homeless = Member(live, tmp_path / "homeless", config, MOLECULE_BIND_HOST="127.0.0.1")
        code, said = ended(homeless.variables)
    told = f"cannot listen on 127.0.0.1:{port}: Address already in use"
    assert (code, "Traceback" in said) == (1, False), said
    assert [line for line in said.splitlines() if told in line] != []
    [activity] = homeless.call("GET", f"/workspaces/{homeless.id}/activity?type=error")
    assert told in activity["summary"]


WRONG = """name: 5
runtime: echo
a2a: {port: many, streaming: 7}
runtime_config:
  max_concurrent_turns: -3
"""


def test_every_problem_of_a_config_is_told_with_file_line_column_and_path(
    live: LivePlatform, tmp_path: Path
) -> None:
    wrong = Member(live, tmp_path / "wrong", WRONG)
    file = wrong.folder / "config.yaml"
    code, said = ended(wrong.variables)
    assert (code, said.splitlines()) == (
        1,
        [
            f"{file}:1:7: name: expected string, got integer",
            f"{file}:3:13: a2a.port: expected integer, got string",
            f"{file}:3:30: a2a.streaming: expected boolean, got integer",
            f"{file}:5:25: runtime_config.max_concurrent_turns: expected integer of at least 1, got -3",
        ],
    )
    [activity] = wrong.call("GET", f"/workspaces/{wrong.id}/activity?type=error")
    assert activity["summary"] == said[:500].rstrip()


def test_a_config_that_cannot_be_read_is_told_with_its_path(live: LivePlatform, tmp_path: Path) -> None:
    wrong = Member(live, tmp_path / "wrong")
    file = wrong.folder / "config.yaml"
    file.write_bytes(b"name: \xff\xfe\n")
    code, said = ended(wrong.variables)
    assert (code, len(said.splitlines()), f"{file}:1:7: " in said) == (1, 1, True), said
    file.unlink()
    file.mkdir()
    code, said = ended(wrong.variables)
    assert (code, len(said.splitlines()), str(file) in said) == (1, 1, True), said


@pytest.mark.parametrize(
    ("variables", "config", "told"),
    [
        ({}, CONFIG, "FATAL: WORKSPACE_ID env var is not set. Aborting."),
        ({"WORKSPACE_ID": "w"}, "name: x\n", "'llm' is the default when config.yaml names no runtime"),
    ],
)
def test_without_a_platform_the_reason_is_told_to_the_log(
    tmp_path: Path, variables: dict[str, str], config: str, told: str
) -> None:
    (tmp_path / "config.yaml").write_text(config)
    nowhere = {"PLATFORM_URL": "http://127.0.0.1:9"}
    code, said = ended(environment(tmp_path, **nowhere, **variables))
    assert (code, told in said, "Traceback" in said) == (1, True, False), said
