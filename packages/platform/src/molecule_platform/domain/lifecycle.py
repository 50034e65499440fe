"""The life of a workspace: which status follows which trigger, and what a heartbeat means."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from molecule_platform.domain.workspaces import Workspace

UNTOUCHED_BY_AGENTS = frozenset({"paused", "hibernating", "hibernated", "removed"})
WAITING_FOR_AGENT = frozenset({"awaiting_agent", "provisioning", "offline", "failed"})
ALIVE = frozenset({"online", "degraded"})
SICK_RUNTIME_STATES = frozenset({"wedged", "degraded", "auth_lost"})
PASSING_RUNTIME_STATES = frozenset({"starting", "stopping"})

SELF_PACED_LIVENESS_SECONDS = 300
PROVISIONED_LIVENESS_SECONDS = 180

CURRENT_TASK_LONGEST = 1000
SAMPLE_ERROR_LONGEST = 4000
SPEND_MOST = 10**12
IDLE_TIMEOUT_MOST = 86_400


@dataclass(frozen=True)
class Beat:
    """What an agent reports of itself, clamped to sane bounds."""

    error_rate: float = 0.0
    sample_error: str = ""
    active_tasks: int = 0
    uptime_seconds: int = 0
    current_task: str = ""
    monthly_spend: int = 0
    runtime_state: str = ""
    runtime_metadata: Mapping[str, Any] | None = None

    def clamped(self) -> "Beat":
        """The same report with every number and text inside its bounds."""
        return Beat(
            error_rate=min(max(self.error_rate, 0.0), 1.0),
            sample_error=self.sample_error[:SAMPLE_ERROR_LONGEST],
            active_tasks=min(max(self.active_tasks, 0), 2**31 - 1),
            uptime_seconds=min(max(self.uptime_seconds, 0), 2**31 - 1),
            current_task=self.current_task[:CURRENT_TASK_LONGEST],
            monthly_spend=min(max(self.monthly_spend, 0), SPEND_MOST),
            runtime_state=self.runtime_state,
            runtime_metadata=self.runtime_metadata,
        )


def after_register(status: str) -> str:
    """The status once an authenticated agent registered: register never undoes an operator's decision."""
    return status if status in UNTOUCHED_BY_AGENTS else "online"


def after_beat(workspace: Workspace, beat: Beat) -> str:
    """The status after a heartbeat; the first rule that applies decides."""
    status = workspace.status
    if status in UNTOUCHED_BY_AGENTS or beat.runtime_state in PASSING_RUNTIME_STATES:
        return status
    if status in ALIVE and beat.runtime_state in SICK_RUNTIME_STATES:
        return "degraded"
    if status in WAITING_FOR_AGENT:
        return "online"
    if (capabilities_of(beat) or {}).get("status_mgmt") is True:
        return "online"
    return _judged_by_errors(status, beat)


def _judged_by_errors(status: str, beat: Beat) -> str:
    if status == "online" and beat.error_rate >= 0.5:
        return "degraded"
    if status == "degraded" and beat.error_rate < 0.1 and beat.runtime_state in ("", "ok"):
        return "online"
    return status


def capabilities_of(beat: Beat) -> dict[str, Any] | None:
    """The capabilities a beat declares; none when it carries no metadata block."""
    declared = (beat.runtime_metadata or {}).get("capabilities")
    return dict(declared) if isinstance(declared, Mapping) else None  # pyright: ignore[reportUnknownArgumentType]


def idle_timeout_of(beat: Beat) -> int | None:
    """The idle timeout a beat asks for; anything but a positive whole number clears it."""
    asked = (beat.runtime_metadata or {}).get("idle_timeout_seconds")
    if isinstance(asked, bool) or not isinstance(asked, int) or asked <= 0:
        return None
    return min(asked, IDLE_TIMEOUT_MOST)


def liveness_window(external: bool, capabilities: Mapping[str, Any] | None, remote_seconds: int) -> timedelta:
    """How long a workspace counts as alive after a beat."""
    if (capabilities or {}).get("heartbeat") is True:
        return timedelta(seconds=SELF_PACED_LIVENESS_SECONDS)
    return timedelta(seconds=remote_seconds if external else PROVISIONED_LIVENESS_SECONDS)


def beaten(workspace: Workspace, beat: Beat, now: datetime, remote_seconds: int) -> Workspace:
    """The workspace after a heartbeat: counters, capabilities, liveness and status."""
    beat = beat.clamped()
    capabilities = capabilities_of(beat)
    return workspace.changed(
        status=after_beat(workspace, beat),
        capabilities=capabilities,
        idle_timeout_seconds=idle_timeout_of(beat),
        runtime_metadata=None if beat.runtime_metadata is None else dict(beat.runtime_metadata),
        needs_restart=(beat.runtime_metadata or {}).get("restart_required") is True,
        last_error_rate=beat.error_rate,
        last_sample_error=beat.sample_error,
        active_tasks=beat.active_tasks,
        uptime_seconds=beat.uptime_seconds,
        current_task=beat.current_task,
        monthly_spend=beat.monthly_spend or workspace.monthly_spend,
        last_heartbeat_at=now,
        liveness_expires_at=now + liveness_window(workspace.external, capabilities, remote_seconds),
        claimed_at=workspace.claimed_at or now,
        updated_at=now,
    )
