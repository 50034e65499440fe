"""What belongs to this process and to the turn that runs: for code that nobody hands it to.

Compatibility paths import tools that take no platform; they find it here. `main` sets it once at start.
"""

from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from molecule_runtime.domain.permissions import NO_PERMISSIONS, RolePermissions
from molecule_runtime.ports.platform import Platform

if TYPE_CHECKING:
    from asyncio.subprocess import Process

_platform: Platform | None = None
_permissions: RolePermissions = NO_PERMISSIONS


class AttachmentSink(Protocol):
    """The part of a turn's sink that takes files."""

    def attach(self, path: str | Path) -> object:
        """A file that goes with the answer."""
        ...


class TurnScope(NamedTuple):
    """What code that runs in a turn finds: where files are attached, for whom it works, what it started."""

    sink: AttachmentSink | None = None
    message_id: str = ""
    children: "list[Process] | None" = None


_turn: ContextVar[TurnScope] = ContextVar("molecule_turn", default=TurnScope())  # noqa: B039 - never changed


def set_platform(platform: Platform | None) -> None:
    """Set the platform of this process."""
    global _platform
    _platform = platform


def get_platform() -> Platform | None:
    """The platform of this process; `None` without one."""
    return _platform


def set_permissions(permissions: RolePermissions) -> None:
    """Set what tools without a `ToolSet` of their own may do; again when the configuration changes."""
    global _permissions
    _permissions = permissions


def get_permissions() -> RolePermissions:
    """What such tools may do: nothing before it was set."""
    return _permissions


def set_turn(sink: AttachmentSink, message_id: str, children: "list[Process] | None" = None) -> None:
    """Let what runs in this context, also in tasks and threads begun there, know the turn.

    Tools attach files to it, what is sent meanwhile is sent for its message, and child processes that are
    started are added to `children`.
    """
    _turn.set(TurnScope(sink, message_id, children))


def get_message_id() -> str:
    """The platform's id of the message that is handled here; empty outside of a turn."""
    return _turn.get().message_id


def get_sink() -> AttachmentSink | None:
    """The sink of the turn that runs here; `None` outside of one."""
    return _turn.get().sink


def get_children() -> "list[Process] | None":
    """The child processes of the turn that runs here; `None` outside of one."""
    return _turn.get().children
