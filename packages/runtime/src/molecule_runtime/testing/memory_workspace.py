"""A workspace in memory: an adapter is hosted as in its process, without a platform and without a socket."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from molecule_runtime.domain.config import WorkspaceConfig
from molecule_runtime.domain.permissions import permissions_of
from molecule_runtime.domain.turns import TurnResult
from molecule_runtime.kit.setup.adapter import AdapterConfig, BaseAdapter
from molecule_runtime.kit.setup.engine import make_executor
from molecule_runtime.kit.state import engine_health, snapshot
from molecule_runtime.kit.state.transcripts import TranscriptLog
from molecule_runtime.kit.turns import turn_context
from molecule_runtime.kit.turns.executor import Turn, TurnExecutor
from molecule_runtime.kit.turns.history import HistoryStore
from molecule_runtime.kit.turns.messages import NoHeartbeat
from molecule_runtime.kit.turns.runner import TurnRunner, TurnServices
from molecule_runtime.testing.memory_platform import MemoryPlatform
from molecule_runtime.testing.recording_output import RecordingOutput, request
from molecule_wire import JSONObject, redaction

STEP_SECONDS = 60.0


class StepFailed(AssertionError):
    """A method of the adapter raised where the workspace could not have gone on."""


class MemoryWorkspace:
    """One start of a workspace, with the steps of the real process: restore, set up, turns, snapshot, close.

    A second one on the same folder, with a new adapter, is its restart.
    """

    def __init__(self, adapter: BaseAdapter, folder: Path) -> None:
        self.adapter = adapter
        self.platform = MemoryPlatform()
        self.heartbeat = NoHeartbeat()
        configs, work = folder / "configs", folder / "workspace"
        for place in (configs, work):
            place.mkdir(parents=True, exist_ok=True)
        self.workspace_config = WorkspaceConfig(runtime=adapter.name())
        self.config = AdapterConfig(
            model=self.workspace_config.model,
            runtime_config=self.workspace_config.runtime_config.to_dict(),
            config_path=str(configs),
            workspace_id=self.platform.workspace_id,
            heartbeat=self.heartbeat,
            platform=self.platform,
            workspace_config=self.workspace_config,
            work_dir=str(work),
        )
        self.restored: dict[str, Any] | None = None
        """What `restore_state` was given; None when there was no snapshot."""
        self.state_before_stop: dict[str, Any] = {}
        """What `pre_stop_state` told."""
        self.turns_at_work = 0
        """How many turns the engine works on, whatever their callers were told."""
        self.engine_began = asyncio.Event()
        """Set when the engine was given its first turn."""
        self.executor: TurnExecutor
        self.runner: TurnRunner
        self._snapshot_path = configs / ".agent_snapshot.json"
        self._histories = HistoryStore()
        self._transcripts = TranscriptLog(configs / "transcripts", adapter.name())

    async def start(self) -> None:
        """Restore what the last stop left, set the adapter up and make its executor."""
        turn_context.set_platform(self.platform)
        turn_context.set_permissions(permissions_of(self.workspace_config))
        engine_health.clear_wedge()
        self._restore()
        await _bounded("setup", self.adapter.setup(self.config))
        self.executor = await _bounded("create_executor", make_executor(self.adapter, self.config))
        self._count_turns()
        await _bounded("start", self.executor.start())
        services = TurnServices(
            redactor=redaction.StreamRedactor,
            heartbeat=self.heartbeat,
            histories=self._histories,
            record=self._transcripts.append_turn,
            prompt=lambda: self.config.system_prompt or "",
        )
        self.runner = TurnRunner(self.executor, services)

    async def send(self, text: str, context_id: str = "", *, seconds: float | None = None) -> RecordingOutput:
        """Send a message and wait for its outcome; `seconds` is its deadline."""
        deadline = None if seconds is None else time.monotonic() + seconds
        output = RecordingOutput()
        await self.runner.run(request(text, context_id, deadline=deadline), output)
        return output

    async def stop(self) -> None:
        """End the turns, write the snapshot, close. What cannot be written is not restored."""
        try:
            await self.runner.stop(0)
            with step("pre_stop_state"):
                adapter_state: Any = self.adapter.pre_stop_state()
                self.state_before_stop = dict(
                    await adapter_state if inspect.isawaitable(adapter_state) else adapter_state
                )
            state = dict(self.state_before_stop)
            if "transcript_lines" not in state:
                state["transcript_lines"] = await self._transcript_lines()
            built = snapshot.build_snapshot(
                self.heartbeat,
                state,
                workspace_id=self.platform.workspace_id,
                runtime=self.adapter.name(),
                sessions=self._histories.dump(),
            )
            snapshot.write_snapshot(built, self._snapshot_path, known_values=())
        finally:
            await self.close()

    async def close(self) -> None:
        """Let go of everything without a snapshot, as a process that cannot start does."""
        turn_context.set_platform(None)
        engine_health.clear_wedge()
        if hasattr(self, "executor"):
            await _bounded("stop", self.executor.stop())
        await _bounded("close", self.adapter.close())

    def _restore(self) -> None:
        place, workspace_id = self._snapshot_path, self.platform.workspace_id
        kept = snapshot.begin_restore(place, workspace_id=workspace_id, runtime=self.adapter.name())
        if kept is None:
            return
        with step("restore_state"):
            self.adapter.restore_state(kept)
        self._histories.load(cast("JSONObject", kept.get("sessions") or {}))
        self.restored = kept
        snapshot.delete_snapshot(place)

    async def _transcript_lines(self) -> list[Any]:
        with step("transcript_lines"):
            lines: Any = self.adapter.transcript_lines(since=0, limit=snapshot.MAX_TRANSCRIPT_LINES)
            rows = await lines if inspect.isawaitable(lines) else lines
        if not rows.get("supported"):
            rows = self._transcripts.read(0, snapshot.MAX_TRANSCRIPT_LINES)
        return list(rows["lines"])

    def _count_turns(self) -> None:
        run_turn = self.executor.run_turn

        async def counted(turn: Turn) -> TurnResult | str | None:
            self.turns_at_work += 1
            self.engine_began.set()
            try:
                return await run_turn(turn)
            finally:
                self.turns_at_work -= 1

        self.executor.run_turn = counted


@contextmanager
def step(name: str) -> Generator[None]:
    """Name the method of the adapter in whatever it raises."""
    try:
        yield
    except Exception as problem:
        raise StepFailed(f"{name}() raised {type(problem).__name__}: {problem}") from problem


async def _bounded(name: str, work: Awaitable[Any]) -> Any:
    with step(name):
        async with asyncio.timeout(STEP_SECONDS):
            return await work
