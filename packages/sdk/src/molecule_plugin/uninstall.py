"""Removing a plugin exactly, and looking whether one is still as it was installed."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from molecule_plugin import resolution
from molecule_plugin.adaptor_registry import is_builtin
from molecule_plugin.atomic_swap import Change
from molecule_plugin.configs import Configs
from molecule_plugin.digest import compute_plugin_sha256
from molecule_plugin.errors import PluginError
from molecule_plugin.file_writer import InstallWriter, sha256_of
from molecule_plugin.installed_tree import compare_tree, remove_tree
from molecule_plugin.ledger import InstallLedger, InstallSession
from molecule_plugin.memory import shipped_blocks
from molecule_plugin.names import check_name
from molecule_plugin.protocol import InstallContext, InstallResult
from molecule_plugin.rollback import effects, reverse_effects
from molecule_plugin.safe_paths import Root, is_plain_folder


@dataclass
class UninstallResult:
    """What was removed: `kept` are the files that stay because somebody changed or added them."""

    plugin: str
    status: Literal["uninstalled", "not-installed"] = "uninstalled"
    kept: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])


@dataclass
class InstalledState:
    """How a plugin's files differ from what was installed, by path below the configs directory.

    Added files are told but are no tampering: `setup.sh` may have made them.
    """

    plugin: str
    status: Literal["intact", "changed", "not-installed"] = "intact"
    modified: list[str] = field(default_factory=list[str])
    missing: list[str] = field(default_factory=list[str])
    added: list[str] = field(default_factory=list[str])


async def uninstall_plugin(
    name: str, ctx: InstallContext, *, registry_root: Path | None = None
) -> UninstallResult:
    """Remove exactly what installing `name` into `ctx.configs_dir` did; if it is not there, nothing.

    The plugin's own adaptor is asked first, if the plugin is still what was verified.
    """
    configs = Configs(ctx.configs_dir)
    check_name(name)
    if configs.ledger(name) is None and not configs.repair():
        return UninstallResult(name, "not-installed")
    with configs.changing() as change:
        ledger = configs.ledger(name)
        if ledger is None:
            return UninstallResult(name, "not-installed")
        ledger.work = InstallSession(change, None, configs.other_ledgers(name))
        result = await _uninstall(configs, ledger, ctx, registry_root)
    resolution.forget(name)
    return result


async def _uninstall(
    configs: Configs, ledger: InstallLedger, ctx: InstallContext, registry_root: Path | None
) -> UninstallResult:
    work, tree = ledger.work, configs.tree(ledger.name)
    assert work is not None
    result = InstallResult(ledger.name, ledger.runtime, ledger.adaptor)
    writer = InstallWriter(replace(ctx, ledger=ledger), result)
    ledger.warnings = []
    if _is_verified(configs, ledger, tree):
        await _ask_adaptor(writer, replace(ctx, ledger=ledger, plugin_root=tree), registry_root)
    blocks = shipped_blocks(tree, ledger.name, lambda _: None)
    reverse_effects(writer, ledger, ledger.settings, blocks)
    configs.restore_lock(writer, ledger)
    kept = _remove_own_tree(work.change, ledger, tree)
    work.change.remove(configs.ledger_file(ledger.name))
    for path in kept:
        writer.warn(f"'{path}' is yours — kept")
    warnings = list(dict.fromkeys((*ledger.warnings, *result.warnings)))
    return UninstallResult(ledger.name, "uninstalled", sorted({*writer.kept, *kept}), warnings)


async def _ask_adaptor(writer: InstallWriter, ctx: InstallContext, registry_root: Path | None) -> None:
    ledger = writer.ledger
    adaptor, _ = resolution.resolve(ledger.name, ledger.runtime, ctx.plugin_root, registry_root=registry_root)
    if is_builtin(adaptor):
        return
    try:
        await adaptor.uninstall(ctx)
    except Exception as problem:  # noqa: BLE001 - somebody else's code must not keep the plugin installed
        writer.warn(f"the plugin's adaptor failed to uninstall: {problem}")


def _is_verified(configs: Configs, ledger: InstallLedger, tree: Path) -> bool:
    """Whether the code in the plugin's directory is still what was verified when it was installed."""
    if not is_plain_folder(tree):
        return False
    if not _is_recorded(ledger, configs.root, tree):
        return _digest(tree) == ledger.content_sha256
    state = compare_tree(ledger, configs.root, tree)
    return not state.modified and not any(path.endswith(".py") for path in state.added)


def _digest(tree: Path) -> str:
    try:
        return compute_plugin_sha256(tree)
    except PluginError:
        return ""


def _is_recorded(ledger: InstallLedger, root: Root, tree: Path) -> bool:
    """Whether the install put the directory there, rather than finding it."""
    own = f"{root.relative(tree)}/"
    return any(path.startswith(own) for path in ledger.files)


def _remove_own_tree(change: Change, ledger: InstallLedger, tree: Path) -> list[str]:
    return remove_tree(change, ledger, tree) if _is_recorded(ledger, change.root, tree) else []


def verify_installed(name: str, configs_dir: Path) -> InstalledState:
    """Hold an installed plugin against its ledger: its own directory and every file it put elsewhere."""
    configs = Configs(configs_dir)
    configs.repair()
    ledger = configs.ledger(check_name(name))
    if ledger is None:
        return InstalledState(name, "not-installed")
    state = compare_tree(ledger, configs.root, configs.tree(name))
    for file in effects(ledger):
        digest = sha256_of(configs.root.path(file.path))
        if digest != file.sha256:
            (state.modified if digest else state.missing).append(file.path)
    changed = bool(state.modified or state.missing)
    return InstalledState(
        name, "changed" if changed else "intact", state.modified, state.missing, state.added
    )
