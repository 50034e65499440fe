"""Adaptors of plugins, at the import path that published adaptors use; `molecule_plugin` defines them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from molecule_plugin.protocol import InstallContext, InstallResult, PluginAdaptor
    from molecule_plugin.resolution import resolve

__all__ = ["InstallContext", "InstallResult", "PluginAdaptor", "resolve"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("molecule_plugin"), name)
