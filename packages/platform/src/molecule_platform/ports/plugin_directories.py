"""Where the plugins of the agents that we run ourselves lie."""

from typing import Protocol

from molecule_platform.ports.plugin_sources import StagedPlugin


class PluginDirectories(Protocol):
    """The `plugins` folder in the configuration of each agent."""

    async def place(self, workspace_id: str, staged: StagedPlugin) -> None:
        """Put a verified tree in its place, over an older version: the old one or the new one is there."""
        ...

    async def remove(self, workspace_id: str, name: str) -> None:
        """Take its files away; the agent undoes what it made of them."""
        ...
