"""The adaptor of last resort: the files are there, nothing is wired in."""

from pathlib import Path

from molecule_plugin.digest import compute_plugin_sha256, manifest_sha256
from molecule_plugin.placing import Desk, copy_tree
from molecule_plugin.protocol import PLUGINS_SUBDIR, AdaptorSource, InstallContext, InstallResult
from molecule_plugin.rooted import files_below, is_plain_folder


class RawDropAdaptor:
    """Copies a plugin to `<configs>/plugins/<name>` for a runtime that has no adaptor for it."""

    def __init__(self, plugin_name: str, runtime: str) -> None:
        self.plugin_name = plugin_name
        self.runtime = runtime

    async def install(self, ctx: InstallContext) -> InstallResult:
        """Copy the directory; a copy of other content is replaced."""
        result = InstallResult(self.plugin_name, self.runtime, AdaptorSource.RAW_DROP)
        desk = Desk(ctx, result)
        target = desk.root.path(f"{PLUGINS_SUBDIR}/{self.plugin_name}")
        if not _is_copy(ctx.plugin_root, target):
            staging = desk.work.change.staging(self.plugin_name)
            copy_tree(ctx.plugin_root, staging)
            desk.work.change.replace_tree(staging, target)
        result.files_written += [desk.root.relative(path) for path in files_below(target)]
        desk.warn(
            f"plugin '{self.plugin_name}' has no adaptor for runtime '{self.runtime}' — files dropped at"
            f" /configs/plugins/{self.plugin_name} but no tools/sub-agents were wired in"
        )
        desk.finish()
        return result

    async def uninstall(self, ctx: InstallContext) -> None:
        """Remove the copy; within `uninstall_plugin` that does it, file by file."""
        desk = Desk(ctx, InstallResult(self.plugin_name, self.runtime, AdaptorSource.RAW_DROP))
        target = desk.root.path(f"{PLUGINS_SUBDIR}/{self.plugin_name}")
        managed = ctx.ledger is not None and ctx.ledger.work is not None
        if is_plain_folder(target) and not managed:
            desk.work.change.remove_tree(target)
        desk.finish()


def _is_copy(plugin_root: Path, target: Path) -> bool:
    if not is_plain_folder(target):
        return False
    return target.resolve() == plugin_root.resolve() or _digests(target) == _digests(plugin_root)


def _digests(directory: Path) -> tuple[str, str]:
    return compute_plugin_sha256(directory), manifest_sha256(directory)
