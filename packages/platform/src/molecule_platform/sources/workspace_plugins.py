"""The plugins of the agents that run on this machine, in the configuration folder of each."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from molecule_platform.domain import plugins
from molecule_platform.domain.errors import ApiError
from molecule_platform.ports.plugin_sources import StagedPlugin
from molecule_plugin import file_writer, safe_paths
from molecule_plugin.configs import Configs
from molecule_plugin.errors import PluginError


class WorkspacePluginFolders:
    """See `ports.plugin_homes.PluginHomes`.

    Only files are moved here. What a plugin's adaptor makes of them, and how that is undone, is its code: it
    runs in the agent's own process, when that looks into its folder again.
    """

    def __init__(self, config_dir: Callable[[str], str]) -> None:
        self._config_dir = config_dir

    async def place(self, workspace_id: str, staged: StagedPlugin) -> None:
        """Put a tree in its place."""
        await self._change(workspace_id, staged.name, staged.tree)

    async def remove(self, workspace_id: str, name: str) -> None:
        """Take a tree away."""
        await self._change(workspace_id, name, None)

    async def _change(self, workspace_id: str, name: str, tree: Path | None) -> None:
        configs = Path(self._config_dir(workspace_id))
        try:
            await asyncio.to_thread(_changed, configs, plugins.named(name), tree)
        except PluginError as problem:
            raise plugins.refusal_of(problem) from problem
        except OSError as problem:
            sentence = f"the configuration folder of the agent cannot be written: {problem.strerror}"
            raise ApiError("conflict", sentence) from problem


def _changed(folder: Path, name: str, tree: Path | None) -> None:
    """The old version or the new one is there, whatever happens meanwhile; without a tree, neither."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    configs = Configs(folder)
    with configs.changing() as change:
        if tree is not None:
            staging = change.staging(name)
            file_writer.copy_tree(tree, staging)
            change.replace_tree(staging, configs.tree(name))
        elif safe_paths.is_plain_folder(configs.tree(name)):
            change.remove_tree(configs.tree(name))
