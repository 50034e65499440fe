"""A running workspace takes over what changed in its files."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from molecule_runtime.domain.config import WorkspaceConfig
from molecule_runtime.kit.setup.adapter import AdapterConfig
from molecule_runtime.kit.turns import turn_context
from molecule_runtime.main import reload as reloading
from molecule_runtime.main.reload import ConfigReload, adapter_config
from molecule_runtime.runtimes.echo import EchoAdapter
from molecule_runtime.settings.config import load_config
from molecule_runtime.settings.config_files import ConfigFiles
from molecule_runtime.settings.environment import Environment
from molecule_runtime.testing.memory_platform import MemoryPlatform

CONFIG = "name: One\nruntime: echo\nmodel: openai:a\n"


class Prompted(EchoAdapter):
    """Echo with the setup that engines share."""

    async def setup(self, config: AdapterConfig) -> None:
        await self._common_setup(config)


class Workspace:
    """A config directory and what was made of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write(CONFIG)
        (folder / "system-prompt.md").write_text("be brief")
        environment = Environment.read({"WORKSPACE_ID": "w", "WORKSPACE_CONFIG_PATH": str(folder)})
        self.applied = adapter_config(environment, load_config(str(folder)))
        self.platform = MemoryPlatform()
        self.applied.platform = self.platform
        self.adapter = Prompted()
        self.changes: asyncio.Queue[WorkspaceConfig] = asyncio.Queue()
        self.reload = ConfigReload(environment, self.adapter, self.applied, self.changes.put)

    def write(self, text: str) -> None:
        (self.folder / "config.yaml").write_text(text)


@pytest.fixture
async def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path)
    await made.adapter.setup(made.applied)
    return made


async def test_model_rights_and_prompt_change_without_a_restart(workspace: Workspace) -> None:
    (workspace.folder / "system-prompt.md").write_text("be thorough")
    workspace.write(CONFIG.replace("openai:a", "openai:b") + "rbac: {roles: [read-only]}\n")
    await workspace.reload.reload()
    assert workspace.applied.model == "openai:b"
    assert "be thorough" in (workspace.applied.system_prompt or "")
    assert not turn_context.get_permissions().allows("delegate")
    assert not workspace.reload.restart_required
    assert (await workspace.changes.get()).model == "openai:b"


@pytest.mark.parametrize(
    "changed",
    ["a2a: {port: 9}\n", "tier: 3\n", "runtime_config: {timeout: 9}\n", "sub_workspaces: [{a: 1}]\n"],
)
async def test_what_is_read_once_asks_for_a_restart_until_it_is_changed_back(
    workspace: Workspace, changed: str
) -> None:
    workspace.write(CONFIG + changed)
    await workspace.reload.reload()
    assert workspace.reload.restart_required
    workspace.write(CONFIG)
    await workspace.reload.reload()
    assert not workspace.reload.restart_required


async def test_a_configuration_that_cannot_be_read_changes_nothing(
    workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    workspace.write("model: [1\n")
    await workspace.reload.reload()
    assert workspace.applied.model == "openai:a"
    assert "the changed configuration is not used" in caplog.text
    assert workspace.changes.empty()


async def test_a_new_peer_is_in_the_prompt_after_a_refresh_and_stays_when_the_platform_is_away(
    workspace: Workspace,
) -> None:
    workspace.platform.peer_rows = [
        {"id": "p", "name": "Writer", "status": "online", "agent_card": {"name": "Writer", "skills": []}}
    ]
    await workspace.reload.refresh()
    assert "Writer" in (workspace.applied.system_prompt or "")
    workspace.platform.failure = OSError("away")
    await workspace.reload.refresh()
    assert "Writer" in (workspace.applied.system_prompt or "")


async def test_a_child_brings_the_routing_tool_to_tools_that_exist_already(workspace: Workspace) -> None:
    result: Any = workspace.adapter._setup.result if workspace.adapter._setup else None
    tools = result.tools
    workspace.platform.peer_rows = [
        {"id": "c", "name": "Child", "parent_id": "ws-self", "agent_card": {"name": "Child", "skills": []}}
    ]
    await workspace.reload.refresh()
    assert "route_task_to_team" in [tool.name for tool in tools]


async def test_without_a_token_the_platform_is_not_asked(tmp_path: Path) -> None:
    made = Workspace(tmp_path)
    made.platform.has_token = False
    made.platform.failure = AssertionError("asked")
    await made.adapter.setup(made.applied)
    assert "be brief" in (made.applied.system_prompt or "")


async def test_a_changed_file_is_found_and_read_once(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("POLL_SECONDS", "DEBOUNCE_SECONDS", "REFRESH_PAUSE_SECONDS"):
        monkeypatch.setattr(reloading, name, 0.02)
    running = [asyncio.create_task(work) for work in (workspace.reload.watch(), workspace.reload.run())]
    try:
        await asyncio.sleep(0.1)
        (workspace.folder / ".hidden").write_text("not ours")
        work = workspace.folder / "workspace"
        work.mkdir()
        (work / "output.txt").write_text("an agent's own file")
        await asyncio.sleep(0.1)
        assert workspace.changes.empty()
        workspace.write(CONFIG.replace("One", "Two"))
        assert (await asyncio.wait_for(workspace.changes.get(), 5)).name == "Two"
    finally:
        for task in running:
            task.cancel()


def test_a_pipe_among_the_files_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "a.md").write_text("text")
    digests = ConfigFiles(tmp_path).digests()
    assert [Path(path).name for path, digest in digests.items() if digest] == ["a.md"]
