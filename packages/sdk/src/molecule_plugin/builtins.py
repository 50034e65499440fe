"""The adaptors that come with the SDK."""

import asyncio

from molecule_plugin import plugin_layout
from molecule_plugin.claude_layer import (
    CLAUDE_DIR,
    claude_files,
    install_claude_layer,
    read_fragment,
    remove_settings,
)
from molecule_plugin.errors import PluginManifestError
from molecule_plugin.file_writer import InstallWriter, mode_of, new_paths, plain_mode, same_files, sha256_of
from molecule_plugin.ledger import InstallLedger, SetupRecord
from molecule_plugin.memory import install_memory, remove_memory, shipped_blocks
from molecule_plugin.plugin_manifest import read_manifest
from molecule_plugin.protocol import AdaptorSource, InstallContext, InstallResult
from molecule_plugin.raw_drop import RawDropAdaptor
from molecule_plugin.rollback import reverse_effects
from molecule_plugin.safe_paths import files_below, is_plain_file, is_plain_folder, remove, remove_if_empty
from molecule_plugin.settings_merge import Entries, merge
from molecule_plugin.setup_script import Setup, run_setup

__all__ = ["AgentskillsAdaptor", "MCPServerAdaptor", "RawDropAdaptor"]


class AgentskillsAdaptor:
    """Installs rules, prompt fragments, skills, `setup.sh`, hooks, commands and settings.

    It fits every runtime: `from molecule_plugin import AgentskillsAdaptor as Adaptor` is a whole adaptor.
    """

    def __init__(self, plugin_name: str, runtime: str) -> None:
        self.plugin_name = plugin_name
        self.runtime = runtime

    async def install(self, ctx: InstallContext) -> InstallResult:
        """Install everything the plugin's directory has."""
        result = InstallResult(self.plugin_name, self.runtime, AdaptorSource.PLUGIN)
        writer = InstallWriter(ctx, result)
        install_memory(writer, ctx, self.plugin_name)
        for skill in plugin_layout.skill_dirs(ctx.plugin_root):
            _install_skill(writer, ctx, skill.name)
        await _run_setup(writer, ctx, self.plugin_name)
        install_claude_layer(writer, ctx.plugin_root, self.plugin_name)
        writer.finish()
        return result

    async def uninstall(self, ctx: InstallContext) -> None:
        """Remove what the ledger says; without one, what is still as the plugin ships it."""
        result = InstallResult(self.plugin_name, self.runtime, AdaptorSource.PLUGIN)
        writer = InstallWriter(ctx, result)
        if ctx.ledger is not None:
            blocks = shipped_blocks(ctx.plugin_root, self.plugin_name, writer.warn)
            reverse_effects(writer, ctx.ledger, self._settings_to_remove(ctx.ledger.settings), blocks)
        else:
            self._uninstall_by_content(writer, ctx)
        writer.finish()
        if ctx.ledger is not None:
            ctx.ledger.warnings += result.warnings
        for warning in result.warnings:
            ctx.logger.warning("uninstalling plugin %s: %s", self.plugin_name, warning)

    def _settings_to_remove(self, entries: Entries) -> Entries:
        return entries

    def _uninstall_by_content(self, writer: InstallWriter, ctx: InstallContext) -> None:
        blocks = shipped_blocks(ctx.plugin_root, self.plugin_name, writer.warn)
        remove_memory(writer, ctx.memory_filename, self.plugin_name, blocks, None)
        for skill in plugin_layout.skill_dirs(ctx.plugin_root):
            target = writer.root.path(f"{plugin_layout.SKILLS_SUBDIR}/{skill.name}")
            if is_plain_folder(target) and same_files(skill, target):
                remove(target)
                remove_if_empty(target.parent)
        for source, relative, _ in claude_files(ctx.plugin_root):
            target = writer.root.path(relative)
            if is_plain_file(target) and sha256_of(source) == sha256_of(target):
                target.unlink()
                remove_if_empty(target.parent)
        remove_settings(writer, InstallLedger(), self._settings_to_remove(_shipped_entries(writer, ctx)))


class MCPServerAdaptor(AgentskillsAdaptor):
    """The same for a plugin whose settings fragment brings MCP servers.

    Uninstalling by the adaptor alone leaves the servers, since users curate them; `uninstall_plugin` removes
    those that are unchanged.
    """

    def _settings_to_remove(self, entries: Entries) -> Entries:
        return Entries(entries.hooks, {}, entries.keys)


def _install_skill(writer: InstallWriter, ctx: InstallContext, name: str) -> None:
    source = ctx.plugin_root / plugin_layout.SKILLS_SUBDIR / name
    relative = f"{plugin_layout.SKILLS_SUBDIR}/{name}"
    target = writer.root.path(relative)
    files = [path.relative_to(source).as_posix() for path in files_below(source)]
    if target.exists() or target.is_symlink():
        mine = any(writer.owned(f"{relative}/{file}") for file in files)
        if not mine and not (is_plain_folder(target) and same_files(source, target)):
            writer.warn(f"skill '{name}' already exists — kept")
            return
    for file in files:
        writer.copy(source / file, f"{relative}/{file}", plain_mode(mode_of(source / file, 0o644)))


async def _run_setup(writer: InstallWriter, ctx: InstallContext, plugin: str) -> None:
    if not ctx.run_setup or not is_plain_file(ctx.plugin_root / plugin_layout.SETUP_SCRIPT):
        return
    shipped = set(ctx.plugin_root.rglob("*"))
    setup = Setup(
        plugin,
        ctx.plugin_root,
        writer.root.directory,
        ctx.workspace_id,
        declared=_declared_environment(ctx),
        approved=ctx.setup_env,
    )
    outcome = await asyncio.to_thread(run_setup, setup)
    if outcome.warning:
        writer.warn(outcome.warning)
    created = new_paths(ctx.plugin_root, shipped)
    writer.ledger.setup = SetupRecord(
        outcome.ran,
        outcome.exit_code,
        outcome.seconds,
        tuple(writer.root.relative(path) for path in created if writer.root.holds(path)),
    )


def _declared_environment(ctx: InstallContext) -> tuple[str, ...]:
    try:
        manifest = read_manifest(ctx.plugin_root)
    except PluginManifestError:
        return ()
    return manifest.permissions.env if manifest else ()


def _shipped_entries(writer: InstallWriter, ctx: InstallContext) -> Entries:
    """What the plugin's fragment would add to settings that have nothing."""
    path = ctx.plugin_root / plugin_layout.SETTINGS_FRAGMENT
    try:
        fragment = read_fragment(path) if is_plain_file(path) else {}
    except ValueError:
        fragment = {}
    claude_dir = str(writer.root.directory / CLAUDE_DIR)
    return merge({}, fragment, "", claude_dir, {})[0]
