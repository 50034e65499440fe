"""Adapters of engines, at the import path of the first generation."""

from molecule_runtime.registry.adapters import discover_adapters, get_adapter, list_adapters

__all__ = ["discover_adapters", "get_adapter", "list_adapters"]
