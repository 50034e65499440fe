"""Push notifications: who is told of a task's events, and when a webhook that failed is tried again."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from molecule_platform.domain.tasks import TaskKey
from molecule_wire.a2a.operations import Dialect

KIND = "push"
MAX_CONFIGS = 50
MAX_FAILURES = 20
LEASE = timedelta(seconds=30)
# After this long an event that could not be told is told no more.
KEPT = timedelta(hours=24)

FIRST_DELAYS = (1.0, 5.0, 30.0, 120.0, 600.0)
_LATER_DELAY = 3600.0
_JITTER = 0.2


@dataclass(frozen=True)
class PushConfig:
    """One row of `push_configs`. `id` is ours; `config_id` is what the client calls it within its task."""

    id: str
    org_id: str
    workspace_id: str
    tenant: str
    task_id: str
    config_id: str
    owner: str
    dialect: Dialect
    url: str
    config: dict[str, Any]
    created_at: datetime
    secret_sealed: str | None = field(default=None, repr=False)
    failures: int = 0
    disabled_at: datetime | None = None

    @property
    def task_key(self) -> TaskKey:
        """The task it belongs to."""
        return TaskKey(self.workspace_id, self.tenant, self.task_id)


@dataclass(frozen=True)
class Notification:
    """One row of `outbox`: one event for one config. `id` names the delivery, the same on every try."""

    id: str
    push_config_id: str
    seq: int
    attempts: int
    created_at: datetime


def seal_context(config_id: str) -> str:
    """What the sealed token and credentials of a config are bound to; by the id that is ours."""
    return f"push|{config_id}"


def retry_delay(failed_attempts: int, chance: float) -> float:
    """Seconds until the next try, spread by a fifth. `chance` is in [0, 1)."""
    place = failed_attempts - 1
    base = FIRST_DELAYS[place] if place < len(FIRST_DELAYS) else _LATER_DELAY
    return base * (1 - _JITTER + 2 * _JITTER * chance)


def next_try(
    notification: Notification, now: datetime, chance: float, retry_after: float | None = None
) -> datetime | None:
    """When to try again after one more failure, never sooner than the webhook asks; None to give up."""
    wait = max(retry_delay(notification.attempts + 1, chance), retry_after or 0.0)
    left = (notification.created_at + KEPT - now).total_seconds()
    return None if wait > left else now + timedelta(seconds=wait)
