"""P7: an install is killed before each of its writes; the old or the new version is there, whole."""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from molecule_plugin.install import upgrade_plugin
from molecule_plugin.memory import file_appender
from molecule_plugin.protocol import InstallContext
from molecule_plugin.testing import build_plugin, fake_context, snapshot
from molecule_plugin.uninstall import uninstall_plugin, verify_installed

pytestmark = pytest.mark.slow  # about a hundred processes are forked and killed

# Runs in a process of its own that forks once per step, since starting Python each time would take minutes.
# Every event of the interpreter that announces a write below the configs directory is one step.
_KILLER = """
import asyncio, os, shutil, signal, sys
from pathlib import Path
from molecule_plugin.configs import Configs
from molecule_plugin.install import upgrade_plugin
from molecule_plugin.testing import fake_context

place, spare, killed = map(Path, sys.argv[1:4])
plugin = sys.argv[4:]
configs = str(place / "configs")
writes = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "shutil.rmtree"}

def die_at(number):
    seen = 0
    def watch(event, args):
        nonlocal seen
        writing = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
        if (event in writes or writing) and configs in str(args[0]):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(watch)

number = 0
while True:
    number += 1
    shutil.rmtree(configs, ignore_errors=True)
    shutil.copytree(spare, configs)
    child = os.fork()
    if child == 0:
        die_at(number)
        if plugin:
            asyncio.run(upgrade_plugin(Path(plugin[0]), fake_context(place)))
        else:
            Configs(place / "configs").repair()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    shutil.copytree(configs, killed / str(number))
    if os.WIFEXITED(status):
        sys.exit(os.WEXITSTATUS(status))
"""

OLD = {
    "plugin.yaml": "name: demo\nversion: 1.0.0\n",
    "rules/good.md": "- old rule\n",
    "skills/old/SKILL.md": "old skill\n",
    "hooks/check.sh": "echo old\n",
    "settings-fragment.json": '{"mcpServers": {"old": {"command": "old"}}}',
    "adapters/claude_code.py": "from molecule_plugin.builtins import MCPServerAdaptor as Adaptor\n",
}
NEW = OLD | {
    "plugin.yaml": "name: demo\nversion: 2.0.0\n",
    "rules/good.md": "- new rule\n",
    "skills/new/SKILL.md": "new skill\n",
    "hooks/check.sh": "echo new\n",
    "settings-fragment.json": '{"mcpServers": {"new": {"command": "new"}}}',
}
del NEW["skills/old/SKILL.md"]


def _content(configs: Path) -> dict[str, bytes]:
    """What is installed, without the records, which name the time, and the free lock of a killed process."""
    records = (".molecule", "plugins.lock", ".plugins-install.lock")
    return {path: data for path, (_, data) in snapshot(configs).items() if not path.startswith(records)}


class Killed:
    """What an upgrade that was killed before its n-th write left, for each n, and what should be there."""

    def __init__(self, place: Path) -> None:
        place.mkdir(parents=True)
        self.place = place
        self.old_plugin = build_plugin(place / "old", OLD)
        self.new_plugin = build_plugin(place / "new", NEW)
        ctx = fake_context(place)
        (ctx.configs_dir / "CLAUDE.md").write_text("the user's own")
        self.untouched = snapshot(ctx.configs_dir)
        asyncio.run(upgrade_plugin(self.old_plugin, ctx))
        self.old = _content(ctx.configs_dir)
        shutil.copytree(ctx.configs_dir, place / "spare")
        self.steps = self.kill_at_every_step(place / "spare", str(self.new_plugin))
        self.new = _content(self.steps[-1])

    def kill_at_every_step(self, configs: Path, *plugin: str) -> list[Path]:
        """Kill the upgrade to a plugin, or without one the repair of `configs`; what each kill left."""
        killed = self.place / f"killed-{configs.name}"
        command = [sys.executable, "-c", _KILLER, *map(str, (self.place, configs, killed)), *plugin]
        subprocess.run(command, check=True, timeout=50)
        return sorted(killed.iterdir(), key=lambda path: int(path.name))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    return Killed(tmp_path_factory.mktemp("crash") / "place")


def _context(configs: Path) -> InstallContext:
    return InstallContext(configs, "ws-test", "claude_code", configs, append_to_memory=file_appender(configs))


def test_a_kill_is_tried_before_every_write_of_an_upgrade(killed: Killed) -> None:
    assert len(killed.steps) > 50
    assert killed.old != killed.new


def test_after_a_kill_at_any_step_the_old_or_the_new_version_is_there_whole(
    killed: Killed, tmp_path: Path
) -> None:
    found: list[str] = []
    for step in killed.steps:
        configs = shutil.copytree(step, tmp_path / step.name)
        state = verify_installed("demo", configs)
        assert state.status == "intact", step.name
        content = _content(configs)
        assert content in (killed.old, killed.new), step.name
        found.append("old" if content == killed.old else "new")
    assert found == sorted(found, reverse=True), "the change becomes final in one step"
    assert set(found) == {"old", "new"}


def test_a_repair_that_is_killed_at_any_step_is_taken_up_again(killed: Killed, tmp_path: Path) -> None:
    nearly_done = next(step for step in reversed(killed.steps) if (step / "plugins/.undo/log").exists())
    steps = killed.kill_at_every_step(nearly_done)
    assert len(steps) > 20
    for step in steps:
        configs = shutil.copytree(step, tmp_path / step.name)
        assert verify_installed("demo", configs).status == "intact", step.name
        assert _content(configs) == killed.old, step.name


def test_the_next_install_repairs_what_a_kill_left_and_can_be_taken_back(
    killed: Killed, tmp_path: Path
) -> None:
    for step in killed.steps[::4]:
        configs = shutil.copytree(step, tmp_path / step.name)
        asyncio.run(upgrade_plugin(killed.new_plugin, _context(configs)))
        assert _content(configs) == killed.new, step.name
        asyncio.run(uninstall_plugin("demo", _context(configs)))
        assert snapshot(configs) == killed.untouched, step.name
