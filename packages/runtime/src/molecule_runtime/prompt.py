"""The system prompt, at the import path of the first generation."""

from molecule_runtime.kit.setup.prompt import build_system_prompt

__all__ = ["build_system_prompt"]
