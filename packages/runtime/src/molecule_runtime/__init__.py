"""Hosts one agent engine as a Molecule workspace."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from molecule_runtime.domain.capabilities import RuntimeCapabilities
    from molecule_runtime.domain.turns import (
        Attachment,
        Caller,
        Delegation,
        HistoryItem,
        TurnError,
        TurnResult,
        Usage,
    )
    from molecule_runtime.kit.setup.adapter import AdapterConfig, BaseAdapter, SetupResult
    from molecule_runtime.kit.tools.tool_set import ToolSet, ToolSpec, tool
    from molecule_runtime.kit.turns.a2a_sdk_executor import GuardedExecutor
    from molecule_runtime.kit.turns.executor import Turn, TurnExecutor
    from molecule_runtime.kit.turns.processes import spawn
    from molecule_runtime.kit.turns.sink import Sink

__all__ = [
    "AdapterConfig",
    "Attachment",
    "BaseAdapter",
    "Caller",
    "Delegation",
    "GuardedExecutor",
    "HistoryItem",
    "RuntimeCapabilities",
    "SetupResult",
    "Sink",
    "ToolSet",
    "ToolSpec",
    "Turn",
    "TurnError",
    "TurnExecutor",
    "TurnResult",
    "Usage",
    "__version__",
    "spawn",
    "tool",
]

__version__ = "0.1.0"

# Loaded on first use: most imports of this package need only the version or one module.
_MODULES = {
    "domain.capabilities": "RuntimeCapabilities",
    "domain.turns": "Attachment Caller Delegation HistoryItem TurnError TurnResult Usage",
    "kit.setup.adapter": "AdapterConfig BaseAdapter SetupResult",
    "kit.tools.tool_set": "ToolSet ToolSpec tool",
    "kit.turns.a2a_sdk_executor": "GuardedExecutor",
    "kit.turns.executor": "Turn TurnExecutor",
    "kit.turns.processes": "spawn",
    "kit.turns.sink": "Sink",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
