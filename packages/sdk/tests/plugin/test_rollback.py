"""P3 and P8: what was installed can be taken back exactly, whatever was there and whoever edited it."""

import asyncio
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molecule_plugin.install import install_plugin_dir, upgrade_plugin
from molecule_plugin.testing import FakeContext, build_plugin, fake_context, snapshot
from molecule_plugin.uninstall import uninstall_plugin

_fewer = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
AGENTSKILLS = "from molecule_plugin.builtins import AgentskillsAdaptor as Adaptor\n"

_text = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)
_names = st.sampled_from(["a", "b", "c"])


def _handler_of(matcher: str, command: str) -> dict[str, object]:
    return {"matcher": matcher, "hooks": [{"type": "command", "command": command}]}


_handler = st.builds(_handler_of, _names, st.sampled_from(["x", "${CLAUDE_DIR}/hooks/a.sh"]))
_fragments = st.fixed_dictionaries(
    {},
    optional={
        "hooks": st.dictionaries(_names, st.lists(_handler, max_size=2), max_size=2),
        "mcpServers": st.dictionaries(_names, st.fixed_dictionaries({"command": _names}), max_size=2),
        "env": st.dictionaries(_names, _names, max_size=2),
        "model": _names,
    },
)


@st.composite
def _plugins(draw: st.DrawFn, name: str = "demo") -> dict[str, str]:
    files = {"plugin.yaml": f"name: {name}\n"}
    if draw(st.booleans()):
        files["adapters/claude_code.py"] = AGENTSKILLS
    for folder, ending in (
        ("rules/", ".md"),
        ("", ".md"),
        ("hooks/", ".sh"),
        ("commands/", ".md"),
        ("data/", ""),
    ):
        for part in draw(st.sets(_names, max_size=2)):
            files[f"{folder}{part}{ending}"] = draw(_text).replace("<!-- molecule:", "")
    for part in draw(st.sets(_names, max_size=2)):
        files[f"skills/{part}/SKILL.md"] = draw(_text)
    if draw(st.booleans()):
        files["settings-fragment.json"] = json.dumps(draw(_fragments))
    return files


@st.composite
def _configs(draw: st.DrawFn) -> dict[str, str]:
    """What a user has already, sometimes where a plugin would like to write."""
    found: dict[str, str] = {}
    if draw(st.booleans()):
        found["CLAUDE.md"] = draw(_text)
    if draw(st.booleans()):
        found[".claude/settings.json"] = json.dumps(draw(_fragments), indent=draw(st.sampled_from([None, 3])))
    for path in draw(st.sets(st.sampled_from(["skills/a/SKILL.md", ".claude/hooks/b.sh", "notes/x"]))):
        found[path] = draw(_text)
    return found


@dataclass
class World:
    """One configs directory, and plugins to put into it."""

    place: Path
    ctx: FakeContext
    count: int = 0

    def plugin(self, files: dict[str, str]) -> Path:
        self.count += 1
        return build_plugin(self.place / str(self.count), files)

    def installed(self, files: dict[str, str]) -> list[str]:
        return asyncio.run(upgrade_plugin(self.plugin(files), self.ctx)).warnings

    def removed(self, name: str = "demo") -> list[str]:
        return asyncio.run(uninstall_plugin(name, self.ctx)).warnings


def _world(directory: str, found: dict[str, str]) -> World:
    place = Path(directory)
    ctx = fake_context(place)
    for name, content in found.items():
        path = ctx.configs_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return World(place, ctx)


@_fewer
@given(_configs(), _plugins(), _plugins())
def test_install_upgrade_and_uninstall_leave_the_directory_byte_for_byte(
    found: dict[str, str], first: dict[str, str], second: dict[str, str]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = _world(directory, found)
        before = snapshot(world.ctx.configs_dir)
        world.installed(first)
        world.removed()
        assert snapshot(world.ctx.configs_dir) == before
        world.installed(first)
        world.installed(second)
        world.removed()
        assert snapshot(world.ctx.configs_dir) == before


@_fewer
@given(_configs(), _plugins("one"), _plugins("two"), st.permutations(["one", "two"]))
def test_two_plugins_installed_twice_and_removed_in_any_order_leave_the_directory(
    found: dict[str, str], one: dict[str, str], two: dict[str, str], order: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = _world(directory, found)
        before = snapshot(world.ctx.configs_dir)
        for files in (one, two, one, two):
            world.installed(files)
        for name in order:
            world.removed(name)
        assert snapshot(world.ctx.configs_dir) == before


@_fewer
@given(_plugins(), _plugins(), st.data())
def test_what_a_user_edits_is_kept_through_upgrade_and_uninstall_with_a_warning(
    first: dict[str, str], second: dict[str, str], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = _world(directory, {})
        world.installed(first)
        configs = world.ctx.configs_dir
        owned = [
            path
            for path, (_, content) in snapshot(configs).items()
            if path.startswith(("skills/", ".claude/hooks", ".claude/commands", "plugins/demo/")) and content
        ]
        edited = data.draw(st.sets(st.sampled_from(owned), max_size=2)) if owned else set[str]()
        for path in edited:
            (configs / path).write_text(f"the user's {path}")
        warnings = world.installed(second) if first != second else []
        warnings += world.removed()
        left = {content for _, content in snapshot(configs).values()}
        for path in edited:
            assert f"the user's {path}".encode() in left
            assert any(path in warning for warning in warnings)


def _with_hooks(name: str) -> dict[str, str]:
    command = f"${{CLAUDE_DIR}}/hooks/{name}.sh"
    handler = _handler_of("Bash", command)
    return {
        "plugin.yaml": f"name: {name}\n",
        "adapters/claude_code.py": AGENTSKILLS.replace("Agentskills", "MCPServer"),
        f"hooks/{name}.sh": "echo\n",
        "settings-fragment.json": json.dumps(
            {"hooks": {"Stop": [handler]}, "mcpServers": {name: {"command": name}}}
        ),
    }


def test_two_plugins_with_hooks_and_servers_live_side_by_side(tmp_path: Path) -> None:
    world = _world(str(tmp_path), {})
    for _ in range(2):
        world.installed(_with_hooks("one"))
        world.installed(_with_hooks("two"))
    path = world.ctx.configs_dir / ".claude/settings.json"
    both = json.loads(path.read_text())
    assert len(both["hooks"]["Stop"]) == 2
    assert sorted(both["mcpServers"]) == ["one", "two"]
    world.removed("one")
    left = json.loads(path.read_text())
    assert [handler["hooks"][0]["command"][-6:] for handler in left["hooks"]["Stop"]] == ["two.sh"]
    assert left["mcpServers"] == {"two": {"command": "two"}}
    assert not (world.ctx.configs_dir / ".claude/hooks/one.sh").exists()
    assert (world.ctx.configs_dir / ".claude/hooks/two.sh").exists()


def test_an_upgrade_drops_what_the_new_version_lacks_and_keeps_an_edit_beside_it(tmp_path: Path) -> None:
    base = {"plugin.yaml": "name: demo\n", "adapters/claude_code.py": AGENTSKILLS}
    world = _world(str(tmp_path), {})
    world.installed(
        base | {"skills/old/SKILL.md": "1", "skills/both/SKILL.md": "1", "rules/a.md": "a", "rules/b.md": "b"}
    )
    configs = world.ctx.configs_dir
    (configs / "skills/both/SKILL.md").write_text("mine")
    warnings = world.installed(base | {"skills/both/SKILL.md": "2", "rules/a.md": "a2"})
    assert not (configs / "skills/old").exists()
    assert (configs / "skills/both/SKILL.md").read_text() == "2"
    assert (configs / "skills/both/SKILL.md.user").read_text() == "mine"
    assert warnings == ["'skills/both/SKILL.md' was edited — your version is kept as 'SKILL.md.user'"]
    memory = (configs / "CLAUDE.md").read_text()
    assert "a2" in memory
    assert "rule/b.md" not in memory


def test_edited_blocks_and_servers_stay_at_the_uninstall(tmp_path: Path) -> None:
    world = _world(str(tmp_path), {})
    world.installed(_with_hooks("demo") | {"rules/a.md": "be kind"})
    configs = world.ctx.configs_dir
    memory, server = configs / "CLAUDE.md", configs / ".claude/settings.json"
    memory.write_text(memory.read_text().replace("be kind", "be very kind"))
    server.write_text(server.read_text().replace('"command": "demo"', '"command": "mine"'))
    warnings = world.removed()
    assert memory.read_text() == "be very kind\n"
    assert json.loads(server.read_text()) == {"mcpServers": {"demo": {"command": "mine"}}}
    assert warnings == [
        "CLAUDE.md: block rule/a.md was edited — its text is kept without the markers",
        ".claude/settings.json: mcpServers.demo was changed — kept",
    ]


async def test_a_normal_install_of_a_fresh_plugin_needs_no_upgrade(tmp_path: Path) -> None:
    ctx = fake_context(tmp_path)
    result = await install_plugin_dir(build_plugin(tmp_path, _with_hooks("demo")), ctx)
    assert result.warnings == []
