"""Heartbeat loop of the workspace: a beat every 30 seconds, and at once when work begins or ends.

`molecule_runtime.heartbeat` is this module.
"""

import asyncio
import importlib
import logging
import math
import os
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol, TypeAlias

from molecule_runtime.domain import heartbeats
from molecule_runtime.domain.capabilities import RuntimeCapabilities
from molecule_runtime.domain.delegation_results import MAX_SEEN_DELEGATION_IDS, SELF_MESSAGE_COOLDOWN
from molecule_runtime.kit.state import engine_health
from molecule_runtime.links.platform_client import PlatformClient
from molecule_runtime.links.time_source import SYSTEM_TIME, TimeSource
from molecule_wire import JSONObject
from molecule_wire.calls import CallFailed, HeartbeatAnswer
from molecule_wire.calls.registry import RuntimeState

__all__ = [
    "HEARTBEAT_INTERVAL",
    "MAX_CONSECUTIVE_FAILURES",
    "MAX_SEEN_DELEGATION_IDS",
    "SELF_MESSAGE_COOLDOWN",
    "HeartbeatLoop",
]

HEARTBEAT_INTERVAL = 30
MAX_CONSECUTIVE_FAILURES = 10
CHANGE_SECONDS = 1.0
EDGE_SECONDS = 0.25
RESTART_SECONDS = 1.0
MAX_SKEW_SECONDS = 60.0
MAX_RETRY_AFTER_SECONDS = 60.0

BeatOutcome: TypeAlias = Literal["taken", "failed", "removed"]

log = logging.getLogger("molecule_runtime")


class HeartbeatSource(Protocol):
    """What the loop asks an adapter at each beat."""

    def capabilities(self) -> RuntimeCapabilities:
        """What the engine does by itself."""
        ...

    def idle_timeout_override(self) -> int | None:
        """Seconds that one dispatch may be silent."""
        ...


class HeartbeatLoop:
    """Tells the platform that the workspace lives and what it does.

    `adapter` is the live instance, asked at each beat. `runtime_state`, `monthly_spend` (cents) and `extras`
    (further members of `runtime_metadata`) are told as they are. `on_answer` gets each answer, `on_removed`
    is called once when the workspace was removed, and the loop ends then. `after_beat` runs beside the loop
    after a beat that was taken, never twice at a time and at most once a second.
    """

    def __init__(
        self,
        platform_url: str,
        workspace_id: str,
        *,
        client: PlatformClient | None = None,
        adapter: HeartbeatSource | None = None,
        time_source: TimeSource = SYSTEM_TIME,
    ) -> None:
        org_id = os.environ.get("MOLECULE_ORG_ID", "")
        self.client = client or PlatformClient(platform_url, workspace_id, org_id=org_id)
        self._owns_client = client is None
        self.adapter = adapter
        self.runtime_state: RuntimeState = ""
        self.monthly_spend = 0.0
        self.extras: Callable[[], JSONObject] | None = None
        self.on_answer: Callable[[HeartbeatAnswer], None] | None = None
        self.on_removed: Callable[[], None] | None = None
        self.after_beat: Callable[[], Awaitable[None]] | None = None
        self._time = time_source
        self._counters = heartbeats.RequestCounters()
        self._active_tasks = 0
        self._current_task = ""
        self._started_at = time_source.monotonic()
        self._metadata: JSONObject | None = None
        self._failures = 0
        self.failures = 0
        """How many heartbeats failed since the start."""
        self._is_skewed = False
        self._changed = asyncio.Event()
        self._due_at = self._last_beat_at = self._not_before = self._started_at
        self._next_follow_up_at = self._started_at
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._follow_up: asyncio.Task[None] | None = None

    # What the runtime tells

    @property
    def error_rate(self) -> float:
        """The share of failed requests since the last beat that was taken."""
        return self._counters.counts.error_rate

    def record_success(self) -> None:
        """A request succeeded."""
        self._counters.record_success()

    def record_error(self, text: str) -> None:
        """A request failed; the text is shown to the operators of the platform."""
        self._counters.record_error(text)

    @property
    def active_tasks(self) -> int:
        """How many turns run; never below 0. Leaving or reaching 0 sends a beat at once."""
        return self._active_tasks

    @active_tasks.setter
    def active_tasks(self, number: int) -> None:
        before, self._active_tasks = self._active_tasks, max(0, number)
        if before != self._active_tasks:
            self._push(at_once=0 in (before, self._active_tasks))

    @property
    def current_task(self) -> str:
        """What the agent works on, in a few words."""
        return self._current_task

    @current_task.setter
    def current_task(self, text: str) -> None:
        before, self._current_task = self._current_task, text
        if before != text:
            self._push(at_once=False)

    def _push(self, *, at_once: bool) -> None:
        """Send a beat earlier; changes that are no edge share one a second. Any thread may call this."""
        # A busy workspace reaches 0 after nearly every turn: one beat in a quarter of a second says it, too.
        due = self._last_beat_at + (EDGE_SECONDS if at_once else CHANGE_SECONDS)
        if due < self._due_at and (due := max(self._time.monotonic(), due)) < self._due_at:
            self._due_at = due
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._changed.set)

    # The loop

    def start(self) -> None:
        """Begin to beat, at once, on the running event loop; no effect when it beats already."""
        if self._task is None or self._task.done():
            self._loop = asyncio.get_running_loop()
            self._task = self._loop.create_task(self._supervise(), name="heartbeat")

    async def stop(self) -> None:
        """End the loop. For a last beat, set `runtime_state` to `stopping` and await `beat()` after this."""
        running = [task for task in (self._task, self._follow_up) if task is not None]
        self._task = self._follow_up = None
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        if self._owns_client:
            await self.client.close()

    async def _supervise(self) -> None:
        while True:
            try:
                return await self._run()
            except Exception:
                log.exception("the heartbeat loop failed; it starts again in %g s", RESTART_SECONDS)
            await self._time.sleep(RESTART_SECONDS)

    async def _run(self) -> None:
        while await self.beat() != "removed":
            while (left := max(self._due_at, self._not_before) - self._time.monotonic()) > 0:
                self._changed.clear()
                await self._time.wait(self._changed, left)

    async def beat(self) -> BeatOutcome:
        """Send one heartbeat now. A refusal or a lost connection is an outcome, not an exception."""
        # Set before the report is made: what changes from here on is in the next one, and moves it forward.
        self._last_beat_at, self._due_at = self._time.monotonic(), math.inf
        report = self.report()
        pace = heartbeats.interval_of(HEARTBEAT_INTERVAL, report.metadata, self._time.chance())
        self._due_at = min(self._due_at, self._last_beat_at + pace)
        try:
            answer = await self.client.heartbeat(report)
        except CallFailed as refusal:
            return await self._refused(refusal)
        except OSError as problem:
            return await self._failed(f"the platform cannot be reached: {problem}")
        self._failures = 0
        self._counters.settle(report.counts)
        self._take(answer)
        return "taken"

    def report(self) -> heartbeats.HeartbeatReport:
        """What a heartbeat says now."""
        return heartbeats.HeartbeatReport(
            counts=self._counters.counts,
            active_tasks=self._active_tasks,
            current_task=self._current_task,
            uptime_seconds=int(self._time.monotonic() - self._started_at),
            metadata=self._metadata_now(),
            state=self.runtime_state,
            wedge_reason=engine_health.wedge_reason(),
            monthly_spend=self.monthly_spend,
        )

    def _take(self, answer: HeartbeatAnswer) -> None:
        skew = self._time.time() - answer.server_time if answer.server_time else 0.0
        was_skewed, self._is_skewed = self._is_skewed, abs(skew) > MAX_SKEW_SECONDS
        if self._is_skewed and not was_skewed:
            log.warning("the clock of this machine differs from the platform's by %.0f s", skew)
        if self.on_answer is not None:
            try:
                self.on_answer(answer)
            except Exception:
                log.exception("what the platform answered to a heartbeat could not be handled")
        is_over = self._follow_up is None or self._follow_up.done()
        if self.after_beat is not None and is_over and self._last_beat_at >= self._next_follow_up_at:
            self._next_follow_up_at = self._last_beat_at + CHANGE_SECONDS
            self._follow_up = asyncio.get_running_loop().create_task(self._after(self.after_beat))

    async def _after(self, follow_up: Callable[[], Awaitable[None]]) -> None:
        try:
            await follow_up()
        except (CallFailed, OSError) as problem:
            log.warning("after the heartbeat: %s", problem)
        except Exception:
            log.exception("what follows a heartbeat failed")

    async def _refused(self, refusal: CallFailed) -> BeatOutcome:
        if refusal.status == 410:
            log.warning("the workspace was removed from the platform")
            removed, self.on_removed = self.on_removed, None
            if removed is not None:
                removed()
            return "removed"
        if refusal.retry_after is not None:
            wait = min(refusal.retry_after, MAX_RETRY_AFTER_SECONDS)
            self._not_before = self._time.monotonic() + wait
        return await self._failed(str(refusal))

    async def _failed(self, sentence: str) -> BeatOutcome:
        self._failures += 1
        self.failures += 1
        # About a token that is refused the client complains, once a minute.
        if not self.client.auth_lost:
            log.warning("heartbeat %d in a row failed: %s", self._failures, sentence)
        if self._failures % MAX_CONSECUTIVE_FAILURES == 0:
            log.warning("the connections to the platform are made anew")
            await self.client.close()
        return "failed"

    # Capabilities

    def _metadata_now(self) -> JSONObject | None:
        """The block for this beat: what the adapter says now, else what it said last."""
        if self.adapter is None:
            block: Any = _runtime_metadata_payload().get("runtime_metadata")
            self._metadata = block
        else:
            try:
                self._metadata = _block_of(self.adapter)
            except Exception as problem:  # noqa: BLE001 - an adapter's mistake must not cost the beat
                log.warning("the adapter did not say its capabilities: %s", type(problem).__name__)
        if self._metadata is None or self.extras is None:
            return self._metadata
        try:
            return {**self.extras(), **self._metadata}
        except Exception:
            log.exception("the details for the heartbeat could not be had")
            return self._metadata


def _block_of(adapter: HeartbeatSource) -> JSONObject:
    return heartbeats.metadata_block(adapter.capabilities().to_dict(), adapter.idle_timeout_override())


def _runtime_metadata_payload() -> JSONObject:
    """The block of a new adapter of this installation; empty when there is none or it fails."""
    try:
        # By name: the registry of adapters stands beside this room, and is patched in tests of adapters.
        registry = importlib.import_module("molecule_runtime.registry.adapters")
        return {"runtime_metadata": _block_of(registry.get_adapter("")())}
    except Exception as problem:  # noqa: BLE001 - whatever an adapter does, the beat is sent
        log.debug("no adapter says its capabilities: %s: %s", type(problem).__name__, problem)
        return {}
