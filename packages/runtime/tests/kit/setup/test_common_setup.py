"""The common setup brings plugins, skills, tools, team and prompt together, with or without a platform."""

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from molecule_runtime.kit.setup import platform_context
from molecule_runtime.kit.setup.adapter import AdapterConfig, BaseAdapter
from molecule_runtime.kit.tools.tool_set import ToolSpec
from molecule_runtime.testing.memory_platform import MemoryPlatform
from molecule_wire import JSONObject

CHILD: JSONObject = {
    "id": "c",
    "name": "Child",
    "status": "online",
    "parent_id": "ws-self",
    "agent_card": {"skills": [{"id": "write"}]},
}
PLATFORM_TOOLS = {
    "delegate_to_workspace", "check_delegation_status", "list_peers", "get_workspace_info",
    "send_message_to_user", "attach_file",
}  # fmt: skip


class Engine(BaseAdapter):
    """An adapter that uses the common setup."""

    @staticmethod
    def name() -> str:
        return "engine"

    @staticmethod
    def display_name() -> str:
        return "Engine"

    @staticmethod
    def description() -> str:
        return "An engine."

    async def setup(self, config: AdapterConfig) -> None:
        self.result = await self._common_setup(config)

    async def create_executor(self, config: AdapterConfig) -> Any:
        return object()


@pytest.fixture(autouse=True)
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUGINS_DIR", str(tmp_path / "shared"))
    monkeypatch.delenv("PARENT_ID", raising=False)
    (tmp_path / "configs").mkdir()


def config(tmp_path: Path, **fields: Any) -> AdapterConfig:
    return AdapterConfig("m", config_path=str(tmp_path / "configs"), workspace_id="ws-self", **fields)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def names(tools: list[ToolSpec]) -> list[str]:
    return [one.name for one in tools]


async def test_without_a_platform_there_is_a_prompt_and_no_platform_tool(tmp_path: Path) -> None:
    write(tmp_path / "configs/system-prompt.md", "You are a test.")
    settings = config(tmp_path)
    result = await Engine()._common_setup(settings)
    assert result.system_prompt.startswith("You are a test.")
    assert (result.tools, result.langchain_tools, result.is_coordinator) == ([], [], False)
    assert settings.system_prompt == result.system_prompt


async def test_a_prompt_that_was_given_stays(tmp_path: Path) -> None:
    settings = config(tmp_path, system_prompt="mine")
    await Engine()._common_setup(settings)
    assert settings.system_prompt == "mine"


async def test_a_platform_brings_tools_peers_and_instructions(tmp_path: Path) -> None:
    peer: JSONObject = {**CHILD, "id": "p", "name": "Peer", "parent_id": "x"}
    platform = MemoryPlatform(peer_rows=[peer], instruction_text="be careful")
    result = await Engine()._common_setup(config(tmp_path, platform=platform))
    assert set(names(result.tools)) == PLATFORM_TOOLS
    assert result.system_prompt.startswith("# Platform Instructions\n\nbe careful")
    assert "**Peer**" in result.system_prompt
    assert not result.is_coordinator


async def test_children_make_a_coordinator(tmp_path: Path) -> None:
    write(tmp_path / "shared/guide/guide.md", "a guideline")
    result = await Engine()._common_setup(config(tmp_path, platform=MemoryPlatform(peer_rows=[CHILD])))
    assert result.is_coordinator
    assert result.children == [CHILD]
    assert names(result.tools)[-1] == "route_task_to_team"
    guidelines = result.system_prompt.partition("## Platform Guidelines")[2]
    assert (
        guidelines.index("a guideline") < guidelines.index("## Your Team") < guidelines.index("## Your Peers")
    )


async def test_the_configuration_chooses_the_built_in_tools(tmp_path: Path) -> None:
    platform = MemoryPlatform(peer_rows=[CHILD])
    only = SimpleNamespace(tools=["list_peers", "attach_file"], plugins=[])
    without = SimpleNamespace(tools=["!attach_file"], plugins=[])
    chosen = await Engine()._common_setup(config(tmp_path, platform=platform, workspace_config=only))
    rest = await Engine()._common_setup(config(tmp_path, platform=platform, workspace_config=without))
    assert names(chosen.tools) == ["list_peers", "attach_file"]
    assert chosen.is_coordinator
    assert set(names(rest.tools)) == PLATFORM_TOOLS - {"attach_file"} | {"route_task_to_team"}


async def test_the_workspaces_skill_wins_over_one_of_a_plugin(tmp_path: Path) -> None:
    write(tmp_path / "configs/skills/s/SKILL.md", "---\nname: s\n---\nmine")
    write(tmp_path / "configs/skills/unnamed/SKILL.md", "---\nname: unnamed\n---\n")
    write(tmp_path / "shared/demo/skills/s/SKILL.md", "---\nname: s\n---\ntheirs")
    write(tmp_path / "shared/demo/skills/t/SKILL.md", "---\nname: t\n---\n")
    write(tmp_path / "shared/demo/skills/other/SKILL.md", "---\nname: other\nruntime: another\n---\n")
    result = await Engine()._common_setup(config(tmp_path, tools=["s"]))
    assert [(one.metadata.id, one.instructions) for one in result.loaded_skills] == [("s", "mine"), ("t", "")]


async def test_a_tool_of_a_plugin_is_offered_and_cannot_replace_a_built_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def look(where: str) -> str:
        """Look somewhere."""
        return where

    adapter = Engine()
    adapter.register_tool_hook("look", look)
    adapter.register_tool_hook("list_peers", look)
    result = await adapter._common_setup(config(tmp_path, platform=MemoryPlatform()))
    [tool] = [one for one in result.tools if one.name == "look"]
    assert await tool.ainvoke({"where": "here"}) == "here"
    assert names(result.tools).count("list_peers") == 1
    assert "a second tool named 'list_peers' is left out" in caplog.messages


async def test_each_install_is_written_to_the_activity_log(tmp_path: Path) -> None:
    write(tmp_path / "shared/demo/rules/r.md", "rule")
    platform = MemoryPlatform()
    await Engine()._common_setup(config(tmp_path, platform=platform))
    assert platform.activity == [("agent_log", "Plugin demo installed via raw_drop adaptor (warnings: 1)")]


async def test_a_platform_that_refuses_costs_one_warning_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PARENT_ID", "p")
    platform = MemoryPlatform(failure=ConnectionError("refused"))
    result = await Engine()._common_setup(config(tmp_path, platform=platform))
    assert result.children == []
    warned = [record.getMessage() for record in caplog.records if "did not answer" in record.getMessage()]
    assert sorted(message.partition(":")[0] for message in warned) == [
        "peers",
        "platform instructions",
        "the context of the parent",
    ]


async def test_a_platform_that_hangs_is_given_up_for_all_steps_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARENT_ID", "p")
    monkeypatch.setattr(platform_context, "NETWORK_TIMEOUT_SECONDS", 0.1)
    began = time.monotonic()
    await Engine()._common_setup(config(tmp_path, platform=MemoryPlatform(delay=60)))
    assert time.monotonic() - began < 2


async def test_the_last_good_instructions_are_used_when_the_platform_is_away(tmp_path: Path) -> None:
    await Engine()._common_setup(config(tmp_path, platform=MemoryPlatform(instruction_text="be careful")))
    away = MemoryPlatform(failure=ConnectionError())
    result = await Engine()._common_setup(config(tmp_path, platform=away))
    assert result.system_prompt.startswith("# Platform Instructions\n\nbe careful")
    [copy] = (tmp_path / "configs/.molecule").iterdir()
    assert copy.stat().st_mode & 0o777 == 0o600


async def test_instructions_that_were_withdrawn_are_gone(tmp_path: Path) -> None:
    for text in ("be careful", ""):
        await Engine()._common_setup(config(tmp_path, platform=MemoryPlatform(instruction_text=text)))
    away = MemoryPlatform(failure=ConnectionError())
    result = await Engine()._common_setup(config(tmp_path, platform=away))
    assert "be careful" not in result.system_prompt


async def test_smoke_mode_asks_nobody_and_runs_no_script(tmp_path: Path) -> None:
    write(tmp_path / "shared/demo/setup.sh", f"touch {tmp_path}/ran")
    adaptor = "from molecule_plugin import AgentskillsAdaptor as Adaptor"
    write(tmp_path / "shared/demo/adapters/engine.py", adaptor)
    platform = MemoryPlatform(failure=AssertionError("asked"))
    result = await Engine()._common_setup(config(tmp_path, platform=platform, smoke=True))
    assert result.tools == []
    assert "ran" not in os.listdir(tmp_path)


async def test_what_the_parent_shares_is_in_the_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARENT_ID", "p")
    platform = MemoryPlatform(shared={"p": [{"path": "plan.md", "content": "the plan"}]})
    result = await Engine()._common_setup(config(tmp_path, platform=platform))
    assert "### plan.md\n```data\nthe plan\n```" in result.system_prompt
