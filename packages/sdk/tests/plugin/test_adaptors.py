"""The built-in adaptors, called directly as runtimes and the tests of authors do."""

import json
import os
from pathlib import Path

import pytest

from molecule_plugin.builtins import AgentskillsAdaptor, MCPServerAdaptor, RawDropAdaptor
from molecule_plugin.protocol import InstallContext, InstallResult, PluginAdaptor
from molecule_plugin.testing import build_plugin, fake_context, snapshot

FRAGMENT = {
    "hooks": {
        "Stop": [{"matcher": "", "hooks": [{"type": "command", "command": "${CLAUDE_DIR}/hooks/done.sh"}]}]
    },
    "mcpServers": {"search": {"command": "search"}},
}
FILES = {
    "plugin.yaml": "name: demo\nversion: 1.0.0\n",
    "README.md": "for people",
    "prompt.md": "a fragment\n",
    "rules/b.md": "second rule\n",
    "rules/a.md": "first rule\n",
    "rules/blank.md": " \n",
    "skills/one/SKILL.md": "one\n",
    "skills/one/scripts/run.sh": "echo one\n",
    "hooks/done.sh": "echo done\n",
    "commands/go.md": "go\n",
    "settings-fragment.json": json.dumps(FRAGMENT),
}


def test_they_are_adaptors() -> None:
    for kind in (AgentskillsAdaptor, MCPServerAdaptor, RawDropAdaptor):
        assert isinstance(kind("demo", "claude_code"), PluginAdaptor)


def test_first_generation_arguments_suffice(tmp_path: Path) -> None:
    ctx = InstallContext(tmp_path, "ws", "claude_code", tmp_path)
    assert ctx.memory_filename == "CLAUDE.md"
    ctx.register_tool("t", print)
    ctx.register_subagent("s", {})
    ctx.append_to_memory("CLAUDE.md", "x")
    assert list(tmp_path.iterdir()) == []
    assert InstallResult("demo", "claude_code", "plugin").warnings == []


async def test_agentskills_installs_every_part(tmp_path: Path) -> None:
    build_plugin(tmp_path, FILES)
    ctx = fake_context(tmp_path)
    result = await AgentskillsAdaptor("demo", "claude_code").install(ctx)
    assert result.warnings == []
    assert result.files_written == [
        "skills/one/SKILL.md",
        "skills/one/scripts/run.sh",
        ".claude/hooks/done.sh",
        ".claude/commands/go.md",
        ".claude/settings.json",
    ]
    assert [content.split("\n")[1] for _, content in ctx.memory] == [
        "# Plugin: demo / rule: a.md",
        "# Plugin: demo / rule: b.md",
        "# Plugin: demo / fragment: prompt.md",
    ]
    settings = ctx.configs_dir / ".claude" / "settings.json"
    command = json.loads(settings.read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
    assert command == str(ctx.configs_dir / ".claude" / "hooks" / "done.sh")
    assert settings.read_text().startswith('{\n  "hooks"')
    assert settings.read_text().endswith("}\n")
    assert os.access(ctx.configs_dir / ".claude/hooks/done.sh", os.X_OK)


async def test_installing_again_changes_nothing(tmp_path: Path) -> None:
    build_plugin(tmp_path, FILES)
    ctx = fake_context(tmp_path)
    await AgentskillsAdaptor("demo", "claude_code").install(ctx)
    before = snapshot(ctx.configs_dir)
    result = await AgentskillsAdaptor("demo", "claude_code").install(ctx)
    assert snapshot(ctx.configs_dir) == before
    assert (result.files_written, result.warnings) == ([], [])


async def test_agentskills_removes_what_is_still_as_shipped(tmp_path: Path) -> None:
    build_plugin(tmp_path, FILES)
    ctx = fake_context(tmp_path)
    (ctx.configs_dir / "CLAUDE.md").write_text("mine\n")
    adaptor = AgentskillsAdaptor("demo", "claude_code")
    await adaptor.install(ctx)
    await adaptor.uninstall(ctx)
    left = {path: data for path, (_, data) in snapshot(ctx.configs_dir).items() if data}
    assert left == {"CLAUDE.md": b"mine\n", ".claude/settings.json": b"{}\n"}


async def test_a_changed_skill_survives_the_uninstall(tmp_path: Path) -> None:
    build_plugin(tmp_path, FILES)
    ctx = fake_context(tmp_path)
    adaptor = AgentskillsAdaptor("demo", "claude_code")
    await adaptor.install(ctx)
    (ctx.configs_dir / "skills/one/SKILL.md").write_text("mine\n")
    await adaptor.uninstall(ctx)
    assert (ctx.configs_dir / "skills/one/SKILL.md").read_text() == "mine\n"


async def test_the_mcp_adaptor_alone_leaves_the_servers(tmp_path: Path) -> None:
    build_plugin(tmp_path, FILES)
    ctx = fake_context(tmp_path)
    adaptor = MCPServerAdaptor("demo", "claude_code")
    await adaptor.install(ctx)
    await adaptor.uninstall(ctx)
    settings = json.loads((ctx.configs_dir / ".claude/settings.json").read_text())
    assert settings == {"mcpServers": FRAGMENT["mcpServers"]}


async def test_a_plugin_without_claude_parts_makes_no_claude_directory(tmp_path: Path) -> None:
    build_plugin(tmp_path, {"rules/a.md": "rule"})
    ctx = fake_context(tmp_path)
    result = await MCPServerAdaptor("demo", "claude_code").install(ctx)
    assert result.warnings == []
    assert sorted(path.name for path in ctx.configs_dir.iterdir()) == ["CLAUDE.md"]


async def test_a_skill_of_somebody_else_is_never_overwritten(tmp_path: Path) -> None:
    build_plugin(tmp_path, FILES)
    ctx = fake_context(tmp_path)
    (ctx.configs_dir / "skills/one").mkdir(parents=True)
    (ctx.configs_dir / "skills/one/SKILL.md").write_text("mine")
    result = await AgentskillsAdaptor("demo", "claude_code").install(ctx)
    assert result.warnings == ["skill 'one' already exists — kept"]
    assert [path.name for path in (ctx.configs_dir / "skills/one").iterdir()] == ["SKILL.md"]


@pytest.mark.parametrize("content", ["{", "[]", "not json"])
async def test_existing_settings_that_are_not_valid_are_not_replaced(tmp_path: Path, content: str) -> None:
    build_plugin(tmp_path, FILES)
    ctx = fake_context(tmp_path)
    (ctx.configs_dir / ".claude").mkdir()
    (ctx.configs_dir / ".claude/settings.json").write_text(content)
    result = await AgentskillsAdaptor("demo", "claude_code").install(ctx)
    assert (ctx.configs_dir / ".claude/settings.json").read_text() == content
    assert "nothing was merged" in result.warnings[0]


async def test_an_invalid_fragment_is_a_warning(tmp_path: Path) -> None:
    build_plugin(tmp_path, {"settings-fragment.json": "{"})
    ctx = fake_context(tmp_path)
    result = await AgentskillsAdaptor("demo", "claude_code").install(ctx)
    assert result.warnings[0].startswith("settings-fragment.json invalid: ")
    assert list(ctx.configs_dir.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"<!-- molecule:end -->", "<!-- molecule:"), (b"x" * 262145, "longer than"), (b"\xff", "UTF-8")],
)
async def test_a_rule_that_cannot_be_a_block_is_left_out(tmp_path: Path, content: bytes, reason: str) -> None:
    build_plugin(tmp_path, {"rules/a.md": content})
    ctx = fake_context(tmp_path)
    result = await AgentskillsAdaptor("demo", "claude_code").install(ctx)
    assert reason in result.warnings[0]
    assert ctx.memory == []


async def test_a_memory_file_that_leads_out_is_left_alone(tmp_path: Path) -> None:
    build_plugin(tmp_path, {"rules/a.md": "rule"})
    ctx = fake_context(tmp_path)
    (tmp_path / "outside.md").write_text("precious")
    (ctx.configs_dir / "CLAUDE.md").symlink_to(tmp_path / "outside.md")
    result = await AgentskillsAdaptor("demo", "claude_code").install(ctx)
    assert result.warnings[0].startswith("the memory file is left alone")
    assert (tmp_path / "outside.md").read_text() == "precious"


async def test_a_raw_drop_copies_warns_replaces_and_goes(tmp_path: Path) -> None:
    plugin = build_plugin(tmp_path, {"a/b.txt": "1"})
    ctx = fake_context(tmp_path)
    adaptor = RawDropAdaptor("demo", "hermes")
    result = await adaptor.install(ctx)
    assert result.source == "raw_drop"
    assert result.files_written == ["plugins/demo/a/b.txt"]
    assert result.warnings == [
        "plugin 'demo' has no adaptor for runtime 'hermes' — files dropped at /configs/plugins/demo"
        " but no tools/sub-agents were wired in"
    ]
    (plugin / "a/b.txt").write_text("2")
    await adaptor.install(ctx)
    assert (ctx.configs_dir / "plugins/demo/a/b.txt").read_text() == "2"
    await adaptor.uninstall(ctx)
    assert list((ctx.configs_dir / "plugins").iterdir()) == []
