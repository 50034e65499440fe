"""What a heartbeat says: counters since the last one that arrived, capabilities, state."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from molecule_wire import JSON, JSONObject
from molecule_wire.calls import Request, registry
from molecule_wire.calls.registry import RuntimeState

MAX_JITTER = 0.1
# An adapter that beats by itself still has this loop as a safety net, at a slower pace.
NATIVE_PACE = 3


class RequestCounts(NamedTuple):
    """How many requests there were, how many of them failed, and the text of the last failure."""

    requests: int = 0
    errors: int = 0
    sample_error: str = ""

    @property
    def error_rate(self) -> float:
        """The share of failures; 0.0 without requests."""
        return self.errors / self.requests if self.requests else 0.0


class RequestCounters:
    """Counts since the last heartbeat that the platform took. Any thread may count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = RequestCounts()

    @property
    def counts(self) -> RequestCounts:
        """The counts so far."""
        return self._counts

    def record_success(self) -> None:
        """A request succeeded."""
        with self._lock:
            self._counts = self._counts._replace(requests=self._counts.requests + 1)

    def record_error(self, text: str) -> None:
        """A request failed."""
        with self._lock:
            self._counts = RequestCounts(self._counts.requests + 1, self._counts.errors + 1, text)

    def settle(self, reported: RequestCounts) -> None:
        """The platform took these counts; what was counted while they were on their way stays."""
        with self._lock:
            errors = self._counts.errors - reported.errors
            sample = self._counts.sample_error if errors else ""
            self._counts = RequestCounts(self._counts.requests - reported.requests, errors, sample)


@dataclass(frozen=True)
class HeartbeatReport:
    """One heartbeat. `metadata` is the block `runtime_metadata`, `None` where the runtime does not say."""

    counts: RequestCounts = RequestCounts()
    active_tasks: int = 0
    current_task: str = ""
    uptime_seconds: int = 0
    metadata: JSONObject | None = None
    state: RuntimeState = ""
    wedge_reason: str = ""
    monthly_spend: float = 0.0

    def request(self, workspace_id: str) -> Request:
        """The call that brings it to the platform."""
        state, sample = self.state, self.counts.sample_error
        # A runtime that ends is no more wedged; the platform must not wait for it to recover.
        if self.wedge_reason and state != "stopping":
            state, sample = "wedged", self.wedge_reason
        return registry.heartbeat(
            workspace_id,
            error_rate=self.counts.error_rate,
            sample_error=sample,
            active_tasks=self.active_tasks,
            current_task=self.current_task,
            uptime_seconds=self.uptime_seconds,
            runtime_metadata=self.metadata,
            runtime_state=state,
            monthly_spend=self.monthly_spend,
        )


def metadata_block(capabilities: Mapping[str, bool], idle_timeout: object) -> JSONObject:
    """The block `runtime_metadata`; an idle timeout is told only as a positive whole number."""
    flags: dict[str, JSON] = {name: bool(is_set) for name, is_set in capabilities.items()}
    block: JSONObject = {"capabilities": flags}
    if isinstance(idle_timeout, int) and not isinstance(idle_timeout, bool) and idle_timeout > 0:
        block["idle_timeout_seconds"] = idle_timeout
    return block


def beats_by_itself(metadata: JSONObject | None) -> bool:
    """Whether the block says that the adapter sends heartbeats of its own."""
    flags = (metadata or {}).get("capabilities")
    return isinstance(flags, dict) and flags.get("heartbeat") is True


def interval_of(base: float, metadata: JSONObject | None, chance: float) -> float:
    """Seconds until the next regular heartbeat, up to a tenth more or less; `chance` is in [0, 1)."""
    pace = base * NATIVE_PACE if beats_by_itself(metadata) else base
    return pace * (1 - MAX_JITTER + 2 * MAX_JITTER * chance)
