"""The plugins of a workspace, at the import path of the first generation."""

from molecule_runtime.kit.setup.plugins import LoadedPlugin, LoadedPlugins, load_plugins

__all__ = ["LoadedPlugin", "LoadedPlugins", "load_plugins"]
