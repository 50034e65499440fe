"""Adaptors of plugins under the name that published adaptors import; `molecule_plugin` defines them."""

from molecule_plugin import InstallContext, InstallResult, PluginAdaptor, resolve

__all__ = ["InstallContext", "InstallResult", "PluginAdaptor", "resolve"]
