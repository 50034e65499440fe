"""A workspace: one agent's place in the tree. Its fields, its field rules, its row on the wire."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from molecule_platform.domain.access import TreeMember
from molecule_platform.domain.errors import ApiError
from molecule_wire import JSON, registry, times

STATUSES = (
    "provisioning",
    "online",
    "degraded",
    "offline",
    "paused",
    "hibernating",
    "hibernated",
    "awaiting_agent",
    "failed",
    "removed",
)
DELIVERY_MODES = ("push", "poll")
VISIBILITIES = ("private", "public")
CARD_SIGNATURES = ("unsigned", "verified", "unverified")
WORKSPACE_ACCESS = ("none", "read_only", "read_write")
SYSTEM_FOLDERS = ("/etc", "/var", "/proc", "/sys", "/dev", "/boot", "/sbin", "/bin", "/lib", "/usr")

_LABELS = {"name": 255, "role": 1000}
RUNTIMES = tuple(registry.hyphenated(runtime) for runtime in registry.RUNTIMES)

_TEXTS = {"model": 100, "url": 2048}
_CHOICES = {
    "visibility": VISIBILITIES,
    "workspace_access": WORKSPACE_ACCESS,
    "delivery_mode": DELIVERY_MODES,
}
_NUMBERS = {
    "tier": (1, 4),
    "max_concurrent_tasks": (1, 1000),
    "budget_limit": (0, 10**12),
    "hibernation_idle_minutes": (0, 525_600),
}
EXTERNAL_CONCURRENT_TASKS = 16
"""What an external agent with a URL takes at once: one stuck message must not keep all others from it."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_FORBIDDEN_IN_NAMES = frozenset("{}[]|>*&!")

_PRIVATE_TO_PEERS = (
    "budget_limit",
    "monthly_spend",
    "current_task",
    "last_sample_error",
    "workspace_dir",
    "url",
)
_NOT_ON_THE_WIRE = (
    "dispatch_secret_sealed",
    "awareness_namespace",
    "spend_period",
    "hibernation_idle_minutes",
    "idle_timeout_seconds",
    "runtime_metadata",
    "needs_restart",
    "liveness_expires_at",
    "claimed_at",
    "claim_until",
    "claim_reads_secrets",
    "removed_at",
    "provisioning_since",
    "provision_attempts",
    "restart_reason",
    "session_ended_at",
    "start_epoch",
    "started_by",
    "stop_through",
    "restart_owed",
    "version",
    "protocols",
)


@dataclass(frozen=True)
class Workspace:
    """One row of `workspaces`, field by field."""

    id: str
    org_id: str
    name: str
    created_at: datetime
    updated_at: datetime
    role: str = ""
    tier: int = 2
    status: str = "awaiting_agent"
    status_reason: str = ""
    runtime: str = "external"
    external: bool = True
    url: str = ""
    delivery_mode: str = "poll"
    protocols: list[str] | None = None
    dispatch_secret_sealed: str | None = None
    agent_card: dict[str, Any] | None = None
    card_signature: str = "unsigned"
    parent_id: str | None = None
    visibility: str = "private"
    isolated: bool = False
    awareness_namespace: str = ""
    workspace_dir: str | None = None
    workspace_access: str = "none"
    budget_limit: int | None = None
    monthly_spend: int = 0
    spend_period: str = ""
    # What its operators set; None leaves it to the agent.
    max_concurrent_tasks: int | None = None
    hibernation_idle_minutes: int | None = None
    capabilities: dict[str, Any] | None = None
    idle_timeout_seconds: int | None = None
    runtime_metadata: dict[str, Any] | None = None
    needs_restart: bool = False
    active_tasks: int = 0
    current_task: str = ""
    last_error_rate: float = 0.0
    last_sample_error: str = ""
    uptime_seconds: int = 0
    last_heartbeat_at: datetime | None = None
    liveness_expires_at: datetime | None = None
    last_activity_at: datetime | None = None
    last_outbound_at: datetime | None = None
    claimed_at: datetime | None = None
    claim_until: datetime | None = None
    # Whether its creator could hand out a token that reads secrets: a claim gives what its creation gave.
    claim_reads_secrets: bool = False
    removed_at: datetime | None = None
    x: float = 0.0
    y: float = 0.0
    collapsed: bool = False
    provisioning_since: datetime | None = None
    provision_attempts: int = 0
    restart_reason: str | None = None
    session_ended_at: datetime | None = None
    start_epoch: int = 0
    started_by: str | None = None
    stop_through: int | None = None
    restart_owed: str | None = None
    version: int = 1

    @property
    def removed(self) -> bool:
        """Whether the workspace is gone for good."""
        return self.status == "removed"

    def can_be_claimed(self, now: datetime) -> bool:
        """Whether the first who registers gets its token. Its id is the proof for that, and so a secret."""
        is_open = self.claimed_at is None and self.claim_until is not None and self.claim_until > now
        return is_open and not self.removed

    @property
    def is_restarting(self) -> bool:
        """Whether it is being started again after it ran."""
        return self.status == "provisioning" and self.restart_reason is not None

    @property
    def concurrent_tasks(self) -> int:
        """The concurrency limit: its operators' number, else the agent's own, else that of its kind."""
        if self.max_concurrent_tasks is not None:
            return self.max_concurrent_tasks
        said = (self.runtime_metadata or {}).get("max_concurrent_turns")
        if isinstance(said, int) and not isinstance(said, bool) and said > 0:
            return min(said, _NUMBERS["max_concurrent_tasks"][1])
        return EXTERNAL_CONCURRENT_TASKS if self.external and self.url else 1

    @cached_property
    def spoken(self) -> frozenset[str]:
        """The versions of A2A that the agent named, when it registered or in its card."""
        return frozenset(self.protocols or ()) | _card_versions(self.agent_card or {})

    def but(self, **changes: Any) -> "Workspace":
        """The same with some members changed, cheaply and unchecked."""
        other = object.__new__(Workspace)
        other.__dict__.update(self.__dict__)
        other.__dict__.update(changes)
        return other

    def as_member(self) -> TreeMember:
        """What the access rule needs of it."""
        return TreeMember(self.id, self.org_id, self.parent_id, self.isolated, self.removed)

    def changed(self, **changes: Any) -> "Workspace":
        """A copy with other values and the next version."""
        return replace(self, version=self.version + 1, **changes)


def _card_versions(card: dict[str, Any]) -> frozenset[str]:
    versions: list[JSON] = [card.get("protocolVersion")]
    for name in ("supportedInterfaces", "additionalInterfaces"):
        interfaces: JSON = card.get(name)
        for interface in interfaces if isinstance(interfaces, list) else ():
            if isinstance(interface, dict):
                versions.append(interface.get("protocolVersion"))
    return frozenset(version for version in versions if isinstance(version, str))


def full_row(workspace: Workspace, pending: int) -> dict[str, Any]:
    """The row that the workspace itself and its operators see."""
    row = {f.name: _on_the_wire(getattr(workspace, f.name)) for f in fields(workspace)}
    for name in _NOT_ON_THE_WIRE:
        del row[name]
    return row | {"max_concurrent_tasks": workspace.concurrent_tasks, "pending": pending}


def peer_row(workspace: Workspace, pending: int) -> dict[str, Any]:
    """The reduced row that peers see."""
    row = full_row(workspace, pending)
    for name in _PRIVATE_TO_PEERS:
        del row[name]
    return row


def _on_the_wire(value: Any) -> Any:
    return times.format_time(value) if isinstance(value, datetime) else value


def check_fields(given: Mapping[str, Any], roots: Collection[str]) -> None:
    """The rules of every field that has one; what is None is not given."""
    fields_with_values = {name: value for name, value in given.items() if value is not None}
    for name, value in fields_with_values.items():
        if name in _LABELS:
            check_label(name, value, _LABELS[name])
        elif name in _TEXTS:
            check_text(name, value, _TEXTS[name])
        elif name in _CHOICES:
            check_choice(name, value, _CHOICES[name])
        elif name in _NUMBERS:
            check_number(name, value, *_NUMBERS[name])
        elif name == "runtime":
            check_choice(name, registry.hyphenated(value), RUNTIMES)
        elif name == "workspace_dir":
            check_folder(name, value, roots)
    if not fields_with_values.get("name", "-").strip():
        raise invalid("name", "name may not be empty")


def check_label(field: str, value: str, longest: int) -> str:
    """A name or role: bounded, on one line, free of characters that templates give a meaning."""
    check_text(field, value, longest)
    bad = sorted(_FORBIDDEN_IN_NAMES.intersection(value))
    if bad:
        raise invalid(field, f"{field} may not contain {' '.join(bad)}")
    return value


def check_text(field: str, value: str, longest: int) -> str:
    """A text on one line, bounded."""
    if len(value) > longest:
        raise invalid(field, f"{field} is longer than {longest} characters")
    if _CONTROL.search(value):
        raise invalid(field, f"{field} may not contain line breaks or control characters")
    return value


def check_choice(field: str, value: str, allowed: tuple[str, ...]) -> str:
    """One of a closed list of values."""
    if value not in allowed:
        raise invalid(field, f"{field} is one of {', '.join(allowed)}")
    return value


def check_number(field: str, value: int, least: int, most: int) -> int:
    """A whole number within its bounds."""
    if not least <= value <= most:
        raise invalid(field, f"{field} is between {least} and {most}")
    return value


def check_folder(field: str, value: str, roots: Collection[str]) -> str:
    """A folder an agent may work in: absolute, no part of the system, and inside the operator's roots."""
    check_text(field, value, 4096)
    folder = PurePosixPath(value)
    if not folder.is_absolute() or ".." in folder.parts:
        raise invalid(field, f"{field} is an absolute path without ..")
    own = PurePosixPath("/", *folder.parts[1:])
    if len(own.parts) == 1 or any(own.is_relative_to(system) for system in SYSTEM_FOLDERS):
        raise invalid(field, f"{field} may not be a folder of the system: choose one of your own")
    if roots and not any(own.is_relative_to(root) for root in roots):
        raise invalid(field, f"{field} is not inside {', '.join(roots)}: choose a folder there")
    return value


def invalid(field: str, detail: str) -> ApiError:
    """A request whose field breaks a rule."""
    return ApiError("invalid-request", detail, field=field, detail=detail)
