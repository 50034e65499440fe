"""The state of the process, as `/readyz` and the heartbeat tell it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from molecule_runtime.kit.state import engine_health

Phase: TypeAlias = Literal["starting", "ready", "stopping"]


@dataclass
class Status:
    """What the process does, and what keeps it from taking turns."""

    phase: Phase = "starting"
    reason: str = "the workspace has not registered yet"
    paused: bool = False
    is_auth_lost: Callable[[], bool] = lambda: False

    @property
    def state(self) -> str:
        """One word: starting, ready, stopping, auth_lost or wedged."""
        if self.phase != "ready":
            return self.phase
        if self.is_auth_lost():
            return "auth_lost"
        return "wedged" if engine_health.is_wedged() else "ready"

    @property
    def takes_turns(self) -> bool:
        """Whether a message may begin a turn."""
        return self.state in ("ready", "wedged") and not self.paused

    @property
    def why(self) -> str:
        """The reason of a state that is not ready."""
        if self.state == "auth_lost":
            return "the platform refuses this workspace's token"
        return engine_health.wedge_reason() if self.state == "wedged" else self.reason
