"""Sandboxes for code: the interface behind `ctx.sandbox`."""

from abc import ABC, abstractmethod
from typing import Any

from molecule_skill.errors import SandboxRuntimeError, SandboxTimeout, SandboxUnavailable

__all__ = ["SandboxClient", "SandboxRuntimeError", "SandboxTimeout", "SandboxUnavailable"]


class SandboxClient(ABC):
    """Client for isolated environments in which code runs."""

    @abstractmethod
    async def create(self, spec: Any) -> Any:
        """Start a sandbox and return its handle."""

    @abstractmethod
    async def get(self, id: str) -> Any:
        """The handle of a sandbox of this run."""

    @abstractmethod
    async def list(self) -> Any:
        """The sandboxes of this run."""

    @abstractmethod
    async def remove(self, id: str) -> None:
        """End a sandbox and delete what it holds."""
