"""Installing: verified before anything runs, all or nothing, and recorded."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from molecule_plugin.errors import (
    LockMismatchError,
    PluginError,
    PluginManifestError,
    PluginNameError,
    PluginRevokedError,
    PluginSignatureError,
    SHA256MismatchError,
    UnsafeArchiveError,
)
from molecule_plugin.install import InstallTerms, install_plugin_dir, upgrade_plugin
from molecule_plugin.revocations import Revocations, RevokedPlugin
from molecule_plugin.testing import FakeContext, assert_clean_uninstall, build_plugin, fake_context, snapshot
from molecule_plugin.uninstall import uninstall_plugin, verify_installed

MANIFEST = "name: demo\nversion: 1.0.0\n"
AGENTSKILLS = "from molecule_plugin.builtins import AgentskillsAdaptor as Adaptor\n"
TELLTALE = """
import pathlib
pathlib.Path({mark!r}).write_text("ran")
from molecule_plugin.builtins import AgentskillsAdaptor as Adaptor
"""
OWN = """
from molecule_plugin.builtins import AgentskillsAdaptor
class Adaptor(AgentskillsAdaptor):
    async def install(self, ctx):
        result = await super().install(ctx)
        {install}
        return result
"""


def _own(*lines: str) -> str:
    return OWN.format(install="\n        ".join(lines))


def _ledger(ctx: FakeContext, name: str = "demo") -> dict[str, object]:
    return json.loads((ctx.configs_dir / f".molecule/plugins/{name}.json").read_bytes())


async def test_an_install_puts_the_tree_runs_the_adaptor_and_writes_ledger_and_lock(tmp_path: Path) -> None:
    plugin = build_plugin(
        tmp_path, {"plugin.yaml": MANIFEST, "rules/a.md": "rule", "adapters/claude_code.py": AGENTSKILLS}
    )
    ctx = fake_context(tmp_path, "claude-code")
    result = await install_plugin_dir(plugin, ctx)
    assert (result.plugin_name, result.source, result.warnings) == ("demo", "plugin", [])
    assert (ctx.configs_dir / "plugins/demo/rules/a.md").read_text() == "rule"
    assert "# Plugin: demo / rule: a.md" in (ctx.configs_dir / "CLAUDE.md").read_text()
    ledger = _ledger(ctx)
    assert (ledger["runtime"], ledger["adaptor"], ledger["version"]) == ("claude_code", "plugin", "1.0.0")
    assert os.stat(ctx.configs_dir / ".molecule/plugins/demo.json").st_mode & 0o777 == 0o600
    lock = json.loads((ctx.configs_dir / "plugins.lock").read_text())
    assert lock["plugins"]["demo"]["source"] == "local://demo"
    assert sorted(path.name for path in ctx.configs_dir.iterdir()) == [
        *(".molecule", "CLAUDE.md", "plugins", "plugins.lock")
    ]


@pytest.mark.parametrize(
    ("change", "terms", "error"),
    [
        ({"plugin.yaml": "name: [\n"}, InstallTerms(), PluginManifestError),
        ({"plugin.yaml": f"{MANIFEST}sha256: '{'0' * 64}'\n"}, InstallTerms(), SHA256MismatchError),
        ({}, InstallTerms(sha256="0" * 64), SHA256MismatchError),
        ({}, InstallTerms(policy="require"), PluginSignatureError),
        ({"plugin.sig": "{}"}, InstallTerms(), PluginSignatureError),
        (
            {},
            InstallTerms(revocations=Revocations(1, "", (), (), (RevokedPlugin("demo", ("*",), "bad"),))),
            PluginRevokedError,
        ),
        ({}, InstallTerms(frozen=True), LockMismatchError),
    ],
)
async def test_what_is_not_verified_runs_no_code_and_changes_nothing(
    tmp_path: Path, change: dict[str, str], terms: InstallTerms, error: type[Exception]
) -> None:
    mark = tmp_path / "mark"
    plugin = build_plugin(
        tmp_path,
        {"plugin.yaml": MANIFEST, "setup.sh": f"touch {mark}\n"}
        | {"adapters/claude_code.py": TELLTALE.format(mark=str(mark))}
        | change,
    )
    ctx = fake_context(tmp_path)
    before = snapshot(ctx.configs_dir)
    with pytest.raises(error):
        await install_plugin_dir(plugin, ctx, name="demo", terms=terms)
    assert not mark.exists()
    assert snapshot(ctx.configs_dir) == before


@pytest.mark.parametrize("name", ["../x", "UPPER", "a..b", "", ".hidden", "a/b"])
async def test_a_bad_name_is_refused_before_anything_is_touched(tmp_path: Path, name: str) -> None:
    ctx = fake_context(tmp_path)
    with pytest.raises(PluginNameError):
        await install_plugin_dir(build_plugin(tmp_path, {"a": "b"}), ctx, name=name)
    with pytest.raises(PluginNameError):
        await uninstall_plugin(name, ctx)
    assert snapshot(ctx.configs_dir) == {}


async def test_a_link_in_the_plugin_is_refused_and_not_followed(tmp_path: Path) -> None:
    plugin = build_plugin(tmp_path, {"plugin.yaml": MANIFEST})
    (tmp_path / "secret").write_text("secret")
    (plugin / "leak").symlink_to(tmp_path / "secret")
    ctx = fake_context(tmp_path)
    with pytest.raises(UnsafeArchiveError):
        await install_plugin_dir(plugin, ctx)
    assert snapshot(ctx.configs_dir) == {}


async def test_an_adaptor_that_fails_leaves_the_old_version_and_its_ledger(tmp_path: Path) -> None:
    old = build_plugin(
        tmp_path / "old",
        {"plugin.yaml": MANIFEST, "rules/a.md": "old", "adapters/claude_code.py": AGENTSKILLS},
    )
    ctx = fake_context(tmp_path)
    await install_plugin_dir(old, ctx)
    before = snapshot(ctx.configs_dir)
    broken = _own("(ctx.configs_dir / 'skills').mkdir(exist_ok=True)", "raise RuntimeError('no luck')")
    new = build_plugin(
        tmp_path / "new",
        {"plugin.yaml": MANIFEST, "rules/a.md": "new", "hooks/h.sh": "x", "adapters/claude_code.py": broken},
    )
    with pytest.raises(PluginError, match="no luck"):
        await upgrade_plugin(new, ctx)
    after = snapshot(ctx.configs_dir)
    assert after.pop("skills") == (0o755, b""), "what an adaptor makes behind our back stays"
    assert after == before


async def test_the_lock_holds_the_version_until_an_upgrade(tmp_path: Path) -> None:
    plugin = build_plugin(tmp_path, {"plugin.yaml": MANIFEST, "a": "1"})
    ctx = fake_context(tmp_path)
    await install_plugin_dir(plugin, ctx)
    (plugin / "a").write_text("2")
    with pytest.raises(LockMismatchError):
        await install_plugin_dir(plugin, ctx)
    assert (ctx.configs_dir / "plugins/demo/a").read_text() == "1"
    await upgrade_plugin(plugin, ctx)
    assert (ctx.configs_dir / "plugins/demo/a").read_text() == "2"


async def test_an_edited_file_is_kept_where_the_new_version_has_a_file_for_its_folder(tmp_path: Path) -> None:
    ctx = fake_context(tmp_path)
    await install_plugin_dir(build_plugin(tmp_path / "1", {"plugin.yaml": MANIFEST, "a/b.txt": "one"}), ctx)
    tree = ctx.configs_dir / "plugins/demo"
    (tree / "a/b.txt").write_text("mine")
    await upgrade_plugin(build_plugin(tmp_path / "2", {"plugin.yaml": MANIFEST, "a": "two"}), ctx)
    assert ((tree / "a").read_text(), (tree / "a.user/b.txt.user").read_text()) == ("two", "mine")


async def test_the_same_content_again_only_refreshes_the_record(tmp_path: Path) -> None:
    plugin = build_plugin(
        tmp_path,
        {"plugin.yaml": MANIFEST, "rules/a.md": "rule", "setup.sh": "echo x >> $CONFIGS_DIR/count\n"}
        | {"adapters/claude_code.py": AGENTSKILLS},
    )
    ctx = fake_context(tmp_path)
    await install_plugin_dir(plugin, ctx)
    (ctx.configs_dir / "plugins/demo/rules/a.md").write_text("edited")
    before, first = snapshot(ctx.configs_dir), _ledger(ctx)
    await install_plugin_dir(plugin, ctx)
    after = snapshot(ctx.configs_dir)
    changed = {path for path in after if after[path] != before.get(path)}
    assert changed <= {".molecule/plugins/demo.json", "plugins.lock"}
    assert _ledger(ctx) | {"installed_at": first["installed_at"]} == first


async def test_tools_are_registered_again_when_the_process_starts_anew(tmp_path: Path) -> None:
    adaptor = _own("ctx.register_tool('search', print)", "ctx.register_subagent('helper', {})")
    plugin = build_plugin(tmp_path, {"plugin.yaml": MANIFEST, "adapters/claude_code.py": adaptor})
    first = fake_context(tmp_path)
    result = await install_plugin_dir(plugin, first)
    assert (result.tools_registered, result.subagents_registered) == (["search"], ["helper"])
    again = fake_context(tmp_path)
    await install_plugin_dir(plugin, again)
    assert list(again.tools) == ["search"]
    assert _ledger(again)["tools"] == ["search"]


async def test_a_plugin_that_stands_in_its_place_is_installed_there(tmp_path: Path) -> None:
    ctx = fake_context(tmp_path)
    made = build_plugin(
        tmp_path, {"plugin.yaml": MANIFEST, "rules/a.md": "rule", "adapters/claude_code.py": AGENTSKILLS}
    )
    place = ctx.configs_dir / "plugins/demo"
    place.parent.mkdir()
    made.rename(place)
    before = snapshot(ctx.configs_dir)
    await install_plugin_dir(place, ctx)
    assert "rule/a.md" in (ctx.configs_dir / "CLAUDE.md").read_text()
    await uninstall_plugin("demo", ctx)
    assert snapshot(ctx.configs_dir) == before


async def test_files_that_an_adaptor_wrote_by_itself_are_removed_but_not_those_it_found(
    tmp_path: Path,
) -> None:
    adaptor = _own(
        "(ctx.configs_dir / 'mine.txt').write_text('x')",
        "(ctx.configs_dir / 'users.txt').write_text('x')",
        "result.files_written += ['mine.txt', 'users.txt', '../outside.txt', 'CLAUDE.md']",
    )
    plugin = build_plugin(tmp_path, {"plugin.yaml": MANIFEST, "adapters/claude_code.py": adaptor})
    ctx = fake_context(tmp_path)
    (ctx.configs_dir / "users.txt").write_text("the user's")
    (ctx.configs_dir / "CLAUDE.md").write_text("the user's")
    (tmp_path / "outside.txt").write_text("precious")
    await install_plugin_dir(plugin, ctx)
    await uninstall_plugin("demo", ctx)
    assert sorted(path.name for path in ctx.configs_dir.iterdir()) == ["CLAUDE.md", "users.txt"]
    assert (tmp_path / "outside.txt").exists()


async def test_an_adaptor_that_was_tampered_with_does_not_run_at_the_uninstall(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    plugin = build_plugin(tmp_path, {"plugin.yaml": MANIFEST, "adapters/claude_code.py": AGENTSKILLS})
    ctx = fake_context(tmp_path)
    await install_plugin_dir(plugin, ctx)
    (ctx.configs_dir / "plugins/demo/adapters/claude_code.py").write_text(TELLTALE.format(mark=str(mark)))
    done = await uninstall_plugin("demo", ctx)
    assert not mark.exists()
    assert done.kept == ["plugins/demo/adapters/claude_code.py"]


async def test_setup_gets_what_the_manifest_declares_and_the_caller_approves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEEDED", "yes")
    monkeypatch.setenv("SECRET_TOKEN", "no")
    plugin = build_plugin(
        tmp_path,
        {
            "plugin.yaml": f"{MANIFEST}permissions:\n  env: [NEEDED, SECRET_TOKEN]\n",
            "setup.sh": "mkdir -p built; env > built/env; echo failed >&2; exit 4\n",
            "adapters/claude_code.py": AGENTSKILLS,
        },
    )
    ctx = replace(fake_context(tmp_path), setup_env=["NEEDED"])
    result = await install_plugin_dir(plugin, ctx)
    environment = (ctx.configs_dir / "plugins/demo/built/env").read_text()
    assert "NEEDED=yes" in environment
    assert "SECRET_TOKEN" not in environment
    assert result.warnings == ["setup.sh exited 4: failed\n"]
    state = verify_installed("demo", ctx.configs_dir)
    assert (state.status, state.added) == ("intact", ["plugins/demo/built/env"])
    await uninstall_plugin("demo", ctx)
    assert snapshot(ctx.configs_dir) == {}


async def test_a_file_of_any_name_in_the_plugins_directory_does_not_hinder_removing_it(
    tmp_path: Path,
) -> None:
    script = "touch $'a\\nb' 'c\\d' $'\\xff'\n"
    plugin = build_plugin(
        tmp_path, {"plugin.yaml": MANIFEST, "setup.sh": script, "adapters/claude_code.py": AGENTSKILLS}
    )
    ctx = fake_context(tmp_path)
    assert (await install_plugin_dir(plugin, ctx)).warnings == []
    (ctx.configs_dir / "plugins/demo/mine\n").write_text("mine")
    done = await uninstall_plugin("demo", ctx)
    assert "plugins/demo/mine\n" in done.kept
    assert (ctx.configs_dir / "plugins/demo/mine\n").read_text() == "mine"


async def test_missing_and_old_requirements_are_warnings(tmp_path: Path) -> None:
    ctx = fake_context(tmp_path)
    await install_plugin_dir(build_plugin(tmp_path / "a", {"plugin.yaml": "name: base\nversion: 1.9\n"}), ctx)
    wants = "name: demo\nrequires: [base, 'base@>=1.10', 'base@>=1.9', absent]\n"
    result = await install_plugin_dir(build_plugin(tmp_path / "b", {"plugin.yaml": wants}), ctx)
    assert [text for text in result.warnings if "requires" in text] == [
        "requires plugin 'base@>=1.10', but version 1.9 is installed",
        "requires plugin 'absent', which is not installed",
    ]


async def test_a_plugin_that_is_not_installed_is_told_so(tmp_path: Path) -> None:
    ctx = fake_context(tmp_path)
    assert (await uninstall_plugin("demo", ctx)).status == "not-installed"
    assert verify_installed("demo", ctx.configs_dir).status == "not-installed"
    assert snapshot(ctx.configs_dir) == {}


async def test_changed_missing_and_added_files_are_told_apart(tmp_path: Path) -> None:
    plugin = build_plugin(
        tmp_path,
        {"plugin.yaml": MANIFEST, "a": "1", "b": "1", "skills/s/SKILL.md": "s"}
        | {"adapters/claude_code.py": AGENTSKILLS},
    )
    ctx = fake_context(tmp_path)
    await install_plugin_dir(plugin, ctx)
    tree = ctx.configs_dir / "plugins/demo"
    (tree / "a").write_text("2")
    (tree / "b").unlink()
    (tree / "c").write_text("new")
    (ctx.configs_dir / "skills/s/SKILL.md").write_text("edited")
    state = verify_installed("demo", ctx.configs_dir)
    assert state.status == "changed"
    assert state.modified == ["plugins/demo/a", "skills/s/SKILL.md"]
    assert (state.missing, state.added) == (["plugins/demo/b"], ["plugins/demo/c"])


async def test_the_helper_for_authors_finds_an_adaptor_that_leaves_something(tmp_path: Path) -> None:
    clean = build_plugin(
        tmp_path / "clean",
        {"plugin.yaml": MANIFEST, "rules/a.md": "x", "adapters/claude_code.py": AGENTSKILLS},
    )
    assert_clean_uninstall(clean)
    untidy = build_plugin(
        tmp_path / "untidy",
        {
            "plugin.yaml": MANIFEST,
            "adapters/claude_code.py": _own("(ctx.configs_dir / 'left').write_text('x')"),
        },
    )
    with pytest.raises(AssertionError, match="left"):
        assert_clean_uninstall(untidy)
