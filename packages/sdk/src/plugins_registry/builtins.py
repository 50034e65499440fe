"""This name is the module `molecule_plugin.builtins` itself; published adaptors import it."""

import sys

from molecule_plugin import builtins
from molecule_plugin.builtins import AgentskillsAdaptor, MCPServerAdaptor, RawDropAdaptor

__all__ = ["AgentskillsAdaptor", "MCPServerAdaptor", "RawDropAdaptor"]

sys.modules[__name__] = builtins
