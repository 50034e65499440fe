"""Tools of agents, at the import path for authors of skills and adapters."""

from molecule_runtime.kit.tools.tool_set import BeforeCall, Handler, ToolSet, ToolSpec, tool

__all__ = ["BeforeCall", "Handler", "ToolSet", "ToolSpec", "tool"]
