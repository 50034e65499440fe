"""The workspace as a member of its organisation: registered, beating, hearing events, taking messages."""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import molecule_runtime
from molecule_runtime.kit.state.status import Status
from molecule_runtime.kit.turns.runner import TurnRunner
from molecule_runtime.links.delegation_results import DelegationResults
from molecule_runtime.links.events import MISSED, EventLink
from molecule_runtime.links.heartbeat import HeartbeatLoop
from molecule_runtime.links.inbox import InboxLink
from molecule_runtime.links.registration import RegistrationFailure, RegistrationRequest, register
from molecule_runtime.links.task_store import TaskStore
from molecule_runtime.main.boot import BootContext
from molecule_runtime.main.reload import ConfigReload
from molecule_wire import JSON, JSONObject, times
from molecule_wire.calls import CallFailed, HeartbeatAnswer

DELEGATION_EVENTS = frozenset({"DELEGATION_COMPLETE", "DELEGATION_FAILED"})
REFRESHING_EVENTS = frozenset(
    {
        "WORKSPACE_ONLINE",
        "WORKSPACE_OFFLINE",
        "WORKSPACE_EXPANDED",
        "WORKSPACE_COLLAPSED",
        "WORKSPACE_REMOVED",
        "AGENT_CARD_UPDATED",
        "INSTRUCTIONS_CHANGED",
        MISSED,
    }
)

POLL_SECONDS = 1.0

log = logging.getLogger("molecule_runtime")


@dataclass
class WorkspaceEndpoint:
    """Where others reach the workspace, and the secret that the platform shows there."""

    url: str
    card: JSONObject
    dispatch_secret: str


class PlatformMembership:
    """The links of one workspace. `stop` ends the process when the platform wants it gone."""

    def __init__(
        self,
        prepared: BootContext,
        status: Status,
        heartbeat: HeartbeatLoop,
        runner: TurnRunner,
        store: TaskStore,
        reload: ConfigReload,
        stop: Callable[[], None],
    ) -> None:
        self._environment = prepared.environment
        self._config = prepared.config
        self._client = prepared.client
        self._adapter = prepared.adapter
        self._status = status
        self._heartbeat = heartbeat
        self._runner = runner
        self._store = store
        self._reload = reload
        self._stop = stop
        self._tasks: set[asyncio.Task[Any]] = set()
        self._results = DelegationResults(
            self._client,
            self._environment.delegation_results_file,
            parent_id=self._environment.parent_id,
            noted=unread.look if (unread := runner.services.unread) else lambda: None,
        )
        self._results_due = asyncio.Event()
        self.link: InboxLink | None = None

    @property
    def _polls(self) -> bool:
        return self._environment.link == "poll"

    async def register(self, place: WorkspaceEndpoint) -> RegistrationFailure | None:
        """Join; the failure when the platform will not have this workspace."""
        answer = await register(
            self._client,
            RegistrationRequest(
                "" if self._polls else place.url,
                place.card,
                delivery_mode="poll" if self._polls else "push",
                dispatch_secret="" if self._polls else place.dispatch_secret,
                # What a process before this one had leased is offered again at once.
                replaces_worker=self._worker if self._polls else "",
            ),
        )
        return answer if isinstance(answer, RegistrationFailure) else None

    def start(self) -> None:
        """Beat, listen, and take messages."""
        heartbeat, environment = self._heartbeat, self._environment
        heartbeat.on_answer = self._answered
        heartbeat.on_removed = self._stop
        heartbeat.extras = self._details
        heartbeat.after_beat = self._results.check
        heartbeat.start()
        types = sorted(DELEGATION_EVENTS | REFRESHING_EVENTS)
        events = EventLink(environment.platform_url, types, self._handle_event, org_id=environment.org_id)
        self._begin(events.run())
        self._begin(self._look_for_results())
        if self._polls:
            self.link = InboxLink(self._client, self._runner, self._store, self._worker, self._may_take)
            self._begin(self.link.run())

    async def end(self) -> None:
        """Take no more messages and hear no more events; what was taken is finished by `link.finish`."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def _worker(self) -> str:
        return f"{socket.gethostname()}-{self._environment.workspace_id}"

    def _begin(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _answered(self, answer: HeartbeatAnswer) -> None:
        self._status.paused = answer.paused
        if self.link is not None and answer.pending:
            self.link.wake.set()

    def _may_take(self) -> bool:
        return self._status.takes_turns

    def _handle_event(self, name: str, event: JSONObject) -> None:
        if name in DELEGATION_EVENTS or name == MISSED:
            self._results_due.set()
        if name in REFRESHING_EVENTS and event.get("workspace_id") != self._client.workspace_id:
            self._reload.ask("refresh")

    async def _look_for_results(self) -> None:
        """Look when an event says that there is something; a hundred of them are one look."""
        while True:
            await self._results_due.wait()
            self._results_due.clear()
            try:
                await self._results.check()
            except (CallFailed, OSError) as problem:
                log.info("results of delegations are looked for again with the next heartbeat: %s", problem)
            await asyncio.sleep(POLL_SECONDS)

    def _details(self) -> JSONObject:
        """What the heartbeat says beside the capabilities."""
        return {
            "runtime": self._adapter.name(),
            "runtime_version": molecule_runtime.__version__,
            "adapter_source": type(self._adapter).__module__,
            "model": self._config.model,
            "role": self._config.role or self._environment.agent_role,
            "max_concurrent_turns": self._config.runtime_config.max_concurrent_turns,
            "queued_turns": self._runner.queue.waiting,
            "restart_required": self._reload.restart_required,
            "active_turns": self._active_turns(),
        }

    def _active_turns(self) -> list[JSON]:
        return [
            {
                "message_id": turn.request.message_id,
                "started_at": _time_of(turn.started_at),
                "last_activity_at": _time_of(turn.last_activity()),
            }
            for turn in self._runner.queue.running
        ]


def _time_of(monotonic: float) -> str:
    ago = time.monotonic() - monotonic
    return times.format_time(datetime.fromtimestamp(time.time() - ago, UTC))
