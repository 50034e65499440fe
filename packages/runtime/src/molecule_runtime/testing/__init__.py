"""For authors of adapters: a contract suite to subclass, and checks of a running workspace from outside."""

from molecule_runtime.testing.adapter_contract import AdapterContract
from molecule_runtime.testing.memory_workspace import MemoryWorkspace

__all__ = ["AdapterContract", "MemoryWorkspace"]
