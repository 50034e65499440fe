"""The life of a workspace: which status follows which trigger, and what a heartbeat means."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.workspaces import STATUSES, Workspace

ALIVE = frozenset({"online", "degraded"})
WAITING_FOR_AGENT = frozenset({"awaiting_agent", "provisioning", "offline", "failed"})
RUNNING = ALIVE | {"provisioning"}
LIVING = frozenset(STATUSES) - {"removed"}
STOPPED = frozenset({"paused", "removed"})
SICK_RUNTIME_STATES = frozenset({"wedged", "degraded", "auth_lost"})
PASSING_RUNTIME_STATES = frozenset({"starting", "stopping"})

SELF_PACED_LIVENESS_SECONDS = 300
PROVISIONED_LIVENESS_SECONDS = 180
SLOW_START_SECONDS = 1800
RESET = "reset"
"""The reason of a restart that forgets the session before it."""

MAX_CURRENT_TASK_LENGTH = 1000
MAX_SAMPLE_ERROR_LENGTH = 4000
MAX_SPEND = 10**12
MAX_IDLE_TIMEOUT_SECONDS = 86_400


@dataclass(frozen=True)
class LifecycleChange:
    """One row of the table of statuses: from where a trigger leads where, and the event that tells of it."""

    before: frozenset[str]
    after: str
    event: str = ""


STEPS: Mapping[str, LifecycleChange] = {
    "register": LifecycleChange(WAITING_FOR_AGENT | ALIVE, "online", "WORKSPACE_ONLINE"),
    "beat": LifecycleChange(WAITING_FOR_AGENT, "online", "WORKSPACE_ONLINE"),
    "sick": LifecycleChange(frozenset({"online"}), "degraded", "WORKSPACE_DEGRADED"),
    "well": LifecycleChange(frozenset({"degraded"}), "online", "WORKSPACE_ONLINE"),
    "silence": LifecycleChange(ALIVE, "offline", "WORKSPACE_OFFLINE"),
    "start-failed": LifecycleChange(frozenset({"provisioning"}), "failed", "WORKSPACE_PROVISION_FAILED"),
    "restart": LifecycleChange(RUNNING | {"offline", "failed"}, "provisioning", "WORKSPACE_PROVISIONING"),
    "pause": LifecycleChange(LIVING - {"paused"}, "paused", "WORKSPACE_PAUSED"),
    "resume-external": LifecycleChange(frozenset({"paused"}), "awaiting_agent", "WORKSPACE_RESUMED"),
    "resume-provisioned": LifecycleChange(frozenset({"paused"}), "provisioning", "WORKSPACE_RESUMED"),
    "hibernate": LifecycleChange(ALIVE, "hibernating"),
    "asleep": LifecycleChange(frozenset({"hibernating"}), "hibernated", "WORKSPACE_HIBERNATED"),
    "stop-failed": LifecycleChange(frozenset({"hibernating"}), "online", "WORKSPACE_ONLINE"),
    "wake": LifecycleChange(frozenset({"hibernated"}), "provisioning", "WORKSPACE_WAKING"),
    "delete": LifecycleChange(LIVING, "removed", "WORKSPACE_REMOVED"),
}


def may(workspace: Workspace, trigger: str) -> bool:
    """Whether the trigger leads anywhere from the status the workspace has."""
    return workspace.status in STEPS[trigger].before


def stepped(workspace: Workspace, trigger: str, now: datetime, **changes: Any) -> Workspace:
    """The workspace one step further. Raises when the trigger does not apply to its status."""
    if not may(workspace, trigger):
        sentence = f"{workspace.name} is {workspace.status}: look at it again before you go on"
        raise ApiError("state-conflict", sentence)
    after = STEPS[trigger].after
    entry = _ENTRIES.get(after, {})
    if after == "provisioning":
        entry = {**entry, "last_activity_at": now}
    elif after in STOPPED and not workspace.external:
        entry = {**entry, "stop_through": workspace.start_epoch}
    return workspace.changed(**{"status": after, "status_reason": "", "updated_at": now, **entry, **changes})


# What a status begins with. A start that nobody has taken on yet has no `provisioning_since`.
_ENTRIES: Mapping[str, Mapping[str, Any]] = {
    "awaiting_agent": {"liveness_expires_at": None},
    "provisioning": {
        "provisioning_since": None,
        "started_by": None,
        "restart_owed": None,
        "provision_attempts": 0,
        "restart_reason": None,
        "liveness_expires_at": None,
        "active_tasks": 0,
        "current_task": "",
    },
    "hibernated": {"url": "", "liveness_expires_at": None},
    "removed": {"url": "", "liveness_expires_at": None},
}


def is_to_be_started(workspace: Workspace) -> bool:
    """Whether it waits for somebody to take its start on."""
    return workspace.status == "provisioning" and workspace.provisioning_since is None


def is_at_work(workspace: Workspace, epoch: int) -> bool:
    """Whether exactly this start is under way: not taken back, and no newer one taken on."""
    taken_on = workspace.status == "provisioning" and workspace.provisioning_since is not None
    return taken_on and workspace.start_epoch == epoch


def is_wanted(workspace: Workspace, epoch: int) -> bool:
    """Whether the process of this start is the one that should run."""
    answered = workspace.status in ALIVE and workspace.start_epoch == epoch
    return answered or is_at_work(workspace, epoch)


def hears_its_agent(workspace: Workspace) -> bool:
    """Whether its agent's word may move it: not against an operator, nor before its new process is there."""
    to_be_started = not workspace.external and workspace.provisioning_since is None
    if workspace.status == "provisioning" and to_be_started:
        return False
    return may(workspace, "register")


def whole(number: int) -> int:
    """A count within what every store can keep."""
    return min(max(number, 0), 2**31 - 1)


@dataclass(frozen=True)
class HeartbeatReport:
    """What an agent reports of itself, clamped to sane bounds."""

    error_rate: float = 0.0
    sample_error: str = ""
    active_tasks: int = 0
    uptime_seconds: int = 0
    current_task: str = ""
    monthly_spend: int = 0
    runtime_state: str = ""
    runtime_metadata: Mapping[str, Any] | None = None

    def clamped(self) -> "HeartbeatReport":
        """The same report with every number and text inside its bounds."""
        return HeartbeatReport(
            error_rate=min(max(self.error_rate, 0.0), 1.0),
            sample_error=self.sample_error[:MAX_SAMPLE_ERROR_LENGTH],
            active_tasks=whole(self.active_tasks),
            uptime_seconds=whole(self.uptime_seconds),
            current_task=self.current_task[:MAX_CURRENT_TASK_LENGTH],
            monthly_spend=min(max(self.monthly_spend, 0), MAX_SPEND),
            runtime_state=self.runtime_state,
            runtime_metadata=self.runtime_metadata,
        )


def after_register(workspace: Workspace) -> str:
    """The status once an authenticated agent registered: register never undoes an operator's decision."""
    return STEPS["register"].after if hears_its_agent(workspace) else workspace.status


def after_beat(workspace: Workspace, beat: HeartbeatReport) -> str:
    """The status after a heartbeat; the first rule that applies decides."""
    status = workspace.status
    if not hears_its_agent(workspace) or beat.runtime_state in PASSING_RUNTIME_STATES:
        return status
    if status in ALIVE and beat.runtime_state in SICK_RUNTIME_STATES:
        return STEPS["sick"].after
    if may(workspace, "beat"):
        return STEPS["beat"].after
    if (capabilities_of(beat) or {}).get("status_mgmt") is True:
        return "online"
    return _judged_by_errors(status, beat)


def _judged_by_errors(status: str, beat: HeartbeatReport) -> str:
    if status == "online" and beat.error_rate >= 0.5:
        return STEPS["sick"].after
    if status == "degraded" and beat.error_rate < 0.1 and beat.runtime_state in ("", "ok"):
        return STEPS["well"].after
    return status


def capabilities_of(beat: HeartbeatReport) -> dict[str, Any] | None:
    """The capabilities a beat declares; none when it carries no metadata block."""
    declared = (beat.runtime_metadata or {}).get("capabilities")
    return dict(declared) if isinstance(declared, Mapping) else None  # pyright: ignore[reportUnknownArgumentType]


def idle_timeout_of(beat: HeartbeatReport) -> int | None:
    """The idle timeout a beat asks for; anything but a positive whole number clears it."""
    asked = (beat.runtime_metadata or {}).get("idle_timeout_seconds")
    if isinstance(asked, bool) or not isinstance(asked, int) or asked <= 0:
        return None
    return min(asked, MAX_IDLE_TIMEOUT_SECONDS)


def liveness_window(external: bool, capabilities: Mapping[str, Any] | None, remote_seconds: int) -> timedelta:
    """How long a workspace counts as alive after a beat."""
    if (capabilities or {}).get("heartbeat") is True:
        return timedelta(seconds=SELF_PACED_LIVENESS_SECONDS)
    return timedelta(seconds=remote_seconds if external else PROVISIONED_LIVENESS_SECONDS)


def provision_seconds(workspace: Workspace, seconds: int) -> int:
    """How long a start may take until its agent answers; some runtimes are slow to come up."""
    slow = workspace.runtime.replace("_", "-") == "hermes"
    return max(seconds, SLOW_START_SECONDS) if slow else seconds


def is_idle(workspace: Workspace, now: datetime, default_minutes: int) -> bool:
    """Whether nobody has wanted anything of it for long enough to let it sleep. Heartbeats do not count."""
    asked = workspace.hibernation_idle_minutes
    minutes = default_minutes if asked is None else asked
    if minutes <= 0 or workspace.external or workspace.active_tasks > 0:
        return False
    signs = (workspace.last_activity_at, workspace.last_outbound_at, workspace.created_at)
    return may(workspace, "hibernate") and max(sign for sign in signs if sign) <= now - timedelta(
        minutes=minutes
    )


def reason_of(status: str, beat: HeartbeatReport) -> str:
    """Why a heartbeat led to a status, for whoever looks at it."""
    if status != "degraded":
        return ""
    if beat.runtime_state in SICK_RUNTIME_STATES:
        return f"the runtime says that it is {beat.runtime_state}"
    return f"{beat.error_rate:.0%} of its calls fail"


def wants_restart(beat: HeartbeatReport, before: bool) -> bool:
    """Whether the agent needs a restart; a heartbeat without the block does not say."""
    if beat.runtime_metadata is None:
        return before
    return beat.runtime_metadata.get("restart_required") is True


def beaten(workspace: Workspace, beat: HeartbeatReport, now: datetime, remote_seconds: int) -> Workspace:
    """The workspace after a heartbeat: counters, capabilities, liveness and status."""
    beat = beat.clamped()
    capabilities = capabilities_of(beat)
    status = after_beat(workspace, beat)
    return workspace.but(
        version=workspace.version + 1,
        status=status,
        status_reason=workspace.status_reason if status == workspace.status else reason_of(status, beat),
        capabilities=capabilities,
        idle_timeout_seconds=idle_timeout_of(beat),
        runtime_metadata=None if beat.runtime_metadata is None else dict(beat.runtime_metadata),
        needs_restart=wants_restart(beat, workspace.needs_restart),
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
