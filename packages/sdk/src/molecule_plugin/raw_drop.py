"""The adaptor of last resort: the files are there, nothing is wired in."""

from pathlib import Path

from molecule_plugin.digest import compute_plugin_sha256, manifest_sha256
from molecule_plugin.file_writer import InstallWriter, copy_tree
from molecule_plugin.protocol import PLUGINS_SUBDIR, AdaptorSource, InstallContext, InstallResult
from molecule_plugin.safe_paths import files_below, is_plain_folder


class RawDropAdaptor:
    """Copies a plugin to `<configs>/plugins/<name>` for a runtime that has no adaptor for it."""

    def __init__(self, plugin_name: str, runtime: str) -> None:
        self.plugin_name = plugin_name
        self.runtime = runtime

    async def install(self, ctx: InstallContext) -> InstallResult:
        """Copy the directory; a copy of other content is replaced."""
        result = InstallResult(self.plugin_name, self.runtime, AdaptorSource.RAW_DROP)
        writer = InstallWriter(ctx, result)
        target = writer.root.path(f"{PLUGINS_SUBDIR}/{self.plugin_name}")
        if not _is_copy(ctx.plugin_root, target):
            staging = writer.work.change.staging(self.plugin_name)
            copy_tree(ctx.plugin_root, staging)
            writer.work.change.replace_tree(staging, target)
        result.files_written += [writer.root.relative(path) for path in files_below(target)]
        writer.warn(
            f"plugin '{self.plugin_name}' has no adaptor for runtime '{self.runtime}' — files dropped at"
            f" /configs/plugins/{self.plugin_name} but no tools/sub-agents were wired in"
        )
        writer.finish()
        return result

    async def uninstall(self, ctx: InstallContext) -> None:
        """Remove the copy; within `uninstall_plugin` that does it, file by file."""
        writer = InstallWriter(ctx, InstallResult(self.plugin_name, self.runtime, AdaptorSource.RAW_DROP))
        target = writer.root.path(f"{PLUGINS_SUBDIR}/{self.plugin_name}")
        managed = ctx.ledger is not None and ctx.ledger.work is not None
        if is_plain_folder(target) and not managed:
            writer.work.change.remove_tree(target)
        writer.finish()


def _is_copy(plugin_root: Path, target: Path) -> bool:
    if not is_plain_folder(target):
        return False
    return target.resolve() == plugin_root.resolve() or _digests(target) == _digests(plugin_root)


def _digests(directory: Path) -> tuple[str, str]:
    return compute_plugin_sha256(directory), manifest_sha256(directory)
