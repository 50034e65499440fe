"""What belongs to this process and to the turn that runs: for code that nobody hands it to.

Compatibility paths import tools that take no platform; they find it here. `main` sets it once at start.
"""

from contextvars import ContextVar
from pathlib import Path
from typing import Protocol

from molecule_runtime.domain.permissions import NO_PERMISSIONS, RolePermissions
from molecule_runtime.ports.platform import Platform

_platform: Platform | None = None
_permissions: RolePermissions = NO_PERMISSIONS


class AttachmentSink(Protocol):
    """The part of a turn's sink that takes files."""

    def attach(self, path: str | Path) -> object:
        """A file that goes with the answer."""
        ...


_sink: ContextVar[AttachmentSink | None] = ContextVar("molecule_turn_sink", default=None)


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


_message_id: ContextVar[str] = ContextVar("molecule_turn_message", default="")


def set_turn(sink: AttachmentSink, message_id: str) -> None:
    """Let what runs in this context, also in tasks and threads begun there, know the turn.

    Tools attach files to it, and what is sent meanwhile is sent for its message.
    """
    _sink.set(sink)
    _message_id.set(message_id)


def get_message_id() -> str:
    """The platform's id of the message that is handled here; empty outside of a turn."""
    return _message_id.get()


def get_sink() -> AttachmentSink | None:
    """The sink of the turn that runs here; `None` outside of one."""
    return _sink.get()
