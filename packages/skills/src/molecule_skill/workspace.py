"""Workspace files: the interface behind `ctx.workspace`, and what an agent declares that it needs of it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from molecule_skill.errors import OverlayConflict, WorkspaceDenied

__all__ = ["OverlayConflict", "WorkspaceAccess", "WorkspaceClient", "WorkspaceDenied", "WorkspaceMode"]


class WorkspaceMode(StrEnum):
    """What a view of files allows."""

    READ_ONLY = "read_only"
    READ_WRITE_OVERLAY = "read_write_overlay"
    READ_WRITE_DIRECT = "read_write_direct"


class WorkspaceAccess(BaseModel):
    """Access policy that an agent declares for workspace files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = False
    max_files: int = Field(default=0, ge=0)
    allowed_modes: tuple[WorkspaceMode, ...] = ()
    require_reason: bool = True
    deny_patterns: tuple[str, ...] = ()
    require_human_approval: bool = False
    max_total_size_bytes: int = Field(default=104_857_600, ge=0)

    @classmethod
    def none(cls) -> "WorkspaceAccess":
        """No access to files."""
        return cls()

    @classmethod
    def dynamic(
        cls,
        *,
        max_files: int = 25,
        allowed_modes: Sequence[WorkspaceMode | str] = ("read_only",),
        **overrides: Any,
    ) -> "WorkspaceAccess":
        """Access to files that a run asks for; keywords are named like the fields."""
        fields: dict[str, Any] = {
            "enabled": True,
            "max_files": max_files,
            "allowed_modes": tuple(allowed_modes),
        }
        return cls(**(fields | overrides))


class WorkspaceClient(ABC):
    """Client for workspace files: negotiate a view, never a path."""

    @abstractmethod
    async def search(self, query: str, *, types: Sequence[Any] = (), limit: int = 20) -> Any:
        """Readable files that match; denied ones never appear."""

    @abstractmethod
    async def request_access(self, files: Sequence[str], *, mode: Any, reason: str, purpose: str) -> Any:
        """A view of the files named. Raises `WorkspaceDenied`."""

    @abstractmethod
    async def open_view(
        self,
        *,
        purpose: str,
        hints: Sequence[str] = (),
        file_types: Sequence[Any] = (),
        max_files: int = 10,
        mode: Any = "read_only",
        reason: str | None = None,
    ) -> Any:
        """Search, then a view of what was found; `reason` defaults to `purpose`."""

    @abstractmethod
    async def list_views(self) -> Any:
        """The tickets of the views that are open."""

    @abstractmethod
    async def install_grant(self, token: str) -> None:
        """Verify a file grant and use it from now on."""

    @abstractmethod
    async def delegate(
        self,
        audience: str,
        *,
        read: Sequence[str] = (),
        write: Sequence[str] = (),
        deny: Sequence[str] = (),
        mode: Any = "read_only",
        scopes: Sequence[str] = (),
        ttl_seconds: int = 300,
        **aliases: Sequence[str] | str,
    ) -> str:
        """A child of the installed grant for another agent. Raises `WorkspaceDenied` without one."""
