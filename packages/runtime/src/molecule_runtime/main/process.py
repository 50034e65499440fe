"""The life of a workspace process: restore, set up, listen, register, serve, stop."""

import asyncio
import contextlib
import inspect
import logging
import signal
import socket
from typing import Any, cast

import molecule_runtime
from molecule_runtime.domain.output_redaction import StreamRedactor
from molecule_runtime.domain.permissions import permissions_of
from molecule_runtime.kit import current, snapshot
from molecule_runtime.kit.adapter import AdapterConfig
from molecule_runtime.kit.attachments import attachments_of
from molecule_runtime.kit.executor import TurnExecutor
from molecule_runtime.kit.foreign import GuardedExecutor
from molecule_runtime.kit.history import Histories
from molecule_runtime.kit.known_secrets import known_secret_values
from molecule_runtime.kit.metrics import Metrics
from molecule_runtime.kit.outbound_files import collect_outbound_files
from molecule_runtime.kit.runner import TurnRunner, TurnServices
from molecule_runtime.kit.status import Status
from molecule_runtime.kit.transcripts import Transcripts
from molecule_runtime.links.a2a_server import AgentServer
from molecule_runtime.links.agent_card import agent_card
from molecule_runtime.links.callers import CallerVerifier, PlatformKeys, read_policy
from molecule_runtime.links.heartbeat import HeartbeatLoop
from molecule_runtime.links.inbox import InboxLink
from molecule_runtime.links.listener import Listener
from molecule_runtime.links.registration import (
    Announcement,
    RegistrationFailure,
    new_dispatch_secret,
    register,
)
from molecule_runtime.links.task_store import TaskStore
from molecule_runtime.main.boot import Prepared, report_failure
from molecule_wire import JSONObject
from molecule_wire.calls import HeartbeatAnswer

PRE_STOP_SECONDS = 5.0
LAST_ANSWERS_SECONDS = 5.0

log = logging.getLogger("molecule_runtime")


class WorkspaceProcess:
    """One workspace. `run` returns the exit code; SIGTERM and SIGINT stop it, a second one at once."""

    def __init__(self, prepared: Prepared) -> None:
        self._environment = prepared.environment
        self._config = prepared.config
        self._client = prepared.client
        self._adapter = prepared.adapter
        self._status = Status()
        self._metrics = Metrics()
        self._histories = Histories()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._exit_code = 0
        self._secrets = self._known_secrets()
        self._transcripts = Transcripts(
            self._environment.transcripts_dir, self._adapter.name(), lambda: self._secrets
        )
        self._heartbeat = HeartbeatLoop(
            self._environment.platform_url,
            self._environment.workspace_id,
            client=self._client,
            adapter=self._adapter,
        )
        self._tasks: list[asyncio.Task[Any]] = []
        self._link: InboxLink | None = None
        self._runner: TurnRunner
        self._executor: TurnExecutor
        self._listener: Listener
        self._store: TaskStore

    async def run(self) -> int:
        """Boot, serve, stop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        try:
            await self._start()
        except Exception as problem:
            log.error("the workspace cannot start", exc_info=problem)
            await report_failure(self._client, f"the workspace cannot start: {type(problem).__name__}")
            await self._close()
            return 1
        await self._stopping.wait()
        await self._stop()
        return self._exit_code

    def _known_secrets(self) -> tuple[str, ...]:
        return known_secret_values(self._environment.variables, config_dir=self._environment.config_dir)

    def stop(self) -> None:
        """Ask for a graceful stop; asked twice, what still runs is interrupted at once."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    # Start

    async def _start(self) -> None:
        current.set_platform(self._client)
        current.set_permissions(permissions_of(self._config))
        restored = self._restore()
        config = self._adapter_config()
        async with asyncio.timeout(self._environment.setup_timeout_seconds):
            await self._adapter.setup(config)
            made = await self._adapter.create_executor(config)
        if getattr(self._adapter, "_executor", None) is None:
            self._adapter._executor = made
        self._executor = made if isinstance(made, TurnExecutor) else GuardedExecutor(made, config)
        self._executor.adapter = self._executor.adapter or self._adapter
        await self._executor.start()
        self._store = TaskStore(self._environment.tasks_db)
        self._runner = TurnRunner(self._executor, self._services(config))
        opened = await self._listen()
        self._tasks.append(asyncio.create_task(self._join(opened, restored)))

    def _adapter_config(self) -> AdapterConfig:
        environment, config = self._environment, self._config
        return AdapterConfig(
            model=config.model,
            tools=list(config.skills),
            runtime_config=config.runtime_config.to_dict(),
            config_path=str(environment.config_dir),
            workspace_id=environment.workspace_id,
            prompt_files=list(config.prompt_files),
            a2a_port=config.a2a.port,
            heartbeat=self._heartbeat,
            platform=self._client,
            workspace_config=config,
            work_dir=str(environment.work_dir),
        )

    def _services(self, config: AdapterConfig) -> TurnServices:
        return TurnServices(
            redactor=lambda: StreamRedactor(known_values=self._secrets),
            heartbeat=self._heartbeat,
            histories=self._histories,
            receive_files=self._receive_files,
            send_files=self._send_files,
            record=self._transcripts.append,
            prompt=lambda: config.system_prompt or "",
            ended=self._metrics.turn,
        )

    async def _listen(self) -> str:
        """Accept connections; returns the URL at which the workspace is called."""
        environment, config = self._environment, self._config
        host, port = environment.listen_host(config.a2a), config.a2a.port
        listener = Listener(host, port)
        opened = listener.bind()
        url = environment.public_url(config.a2a, listener.port)
        self._dispatch_secret = new_dispatch_secret()
        verifier = CallerVerifier(
            environment.workspace_id,
            PlatformKeys(self._client.platform_url, self._client.jwks),
            self._client.platform_url,
            policy=read_policy(environment.require_caller),
            dispatch_secret=self._dispatch_secret,
        )
        self._card = agent_card(config, url, getattr(self._adapter, "loaded_skills", ()))
        server = AgentServer(
            self._runner,
            verifier,
            self._status,
            self._metrics,
            card=self._card,
            url=url,
            workspace_id=environment.workspace_id,
            store=self._store,
            transcript=self._transcript,
            capabilities=self._capabilities,
            stop=self.stop,
        )
        self._listener = listener
        await listener.start(opened, server.app)
        log.info("listening on %s:%d", host, listener.port)
        return url

    async def _join(self, url: str, restored: bool) -> None:
        """Register, and be ready."""
        polls = self._environment.link == "poll"
        worker = f"{socket.gethostname()}-{self._environment.workspace_id}"
        announcement = Announcement(
            "" if polls else url,
            self._card,
            delivery_mode="poll" if polls else "push",
            dispatch_secret="" if polls else self._dispatch_secret,
            # What a process before this one had leased is offered again at once.
            replaces_worker=worker if polls else "",
        )
        answer = await register(self._client, announcement)
        if isinstance(answer, RegistrationFailure):
            log.error("the platform does not take this workspace: %s", answer.sentence)
            self._exit_code = 0 if answer.is_removed else 1
            return self.stop()
        self._secrets = self._known_secrets()
        self._status.phase, self._status.reason = "ready", ""
        if restored:
            snapshot.delete_snapshot(str(self._environment.snapshot_path))
        self._heartbeat.on_answer = self._answered
        self._heartbeat.on_removed = self.stop
        self._heartbeat.extras = self._heartbeat_extras
        self._heartbeat.start()
        if polls:
            self._link = InboxLink(self._client, self._runner, self._store, worker, self._may_take)
            self._tasks.append(asyncio.create_task(self._link.run()))
        log.info("ready: workspace %s, runtime %s", self._environment.workspace_id, self._adapter.name())
        return None

    def _answered(self, answer: HeartbeatAnswer) -> None:
        self._status.paused = answer.paused
        self._status.auth_lost = self._client.auth_lost
        if self._link is not None and answer.pending:
            self._link.wake.set()

    def _may_take(self) -> bool:
        return self._status.state in ("ready", "wedged") and not self._status.paused

    def _heartbeat_extras(self) -> JSONObject:
        return {
            "runtime": self._adapter.name(),
            "runtime_version": molecule_runtime.__version__,
            "model": self._config.model,
            "queued_turns": self._runner.queue.waiting,
        }

    # What the server asks

    async def _transcript(self, since: int, limit: int) -> JSONObject:
        lines: Any = self._adapter.transcript_lines(since=since, limit=limit)
        told = await lines if inspect.isawaitable(lines) else lines
        if not told.get("supported"):
            told = await asyncio.to_thread(self._transcripts.read, since, limit)
        return cast("JSONObject", told)

    def _capabilities(self) -> JSONObject:
        adapter = self._adapter
        return {
            "runtime": adapter.name(),
            "version": molecule_runtime.__version__,
            "capabilities": cast("JSONObject", adapter.capabilities().to_dict()),
            "idle_timeout_seconds": adapter.idle_timeout_override(),
            "model": self._config.model,
            "tools": [],
            "skills": [],
        }

    async def _receive_files(self, parts: list[Any]) -> list[Any]:
        if all(isinstance(part, dict) and ("text" in part or "data" in part) for part in parts):
            return []
        return await asyncio.to_thread(attachments_of, parts, work=self._environment.work_dir)

    def _send_files(self, text: str, files: list[Any]) -> list[Any]:
        return collect_outbound_files(text, files, work=self._environment.work_dir)

    # Snapshot and stop

    def _restore(self) -> bool:
        """Give the adapter what it left at its last stop; whether there was something."""
        path = str(self._environment.snapshot_path)
        kept = snapshot.begin_restore(
            path, workspace_id=self._environment.workspace_id, runtime=self._adapter.name()
        )
        if kept is None:
            return False
        try:
            self._adapter.restore_state(kept)
            self._histories.load(cast("JSONObject", kept.get("sessions") or {}))
        except Exception:
            log.warning("the snapshot was not restored", exc_info=True)
            snapshot.reject_snapshot(self._environment.snapshot_path, "the adapter could not read it")
            return False
        return True

    async def _stop(self) -> None:
        self._status.phase, self._status.reason = "stopping", "the workspace is being stopped"
        try:
            await self._end_turns()
        except Exception:
            log.exception("the turns were not ended in order")
        finally:
            await self._write_snapshot()
        await self._close()

    async def _end_turns(self) -> None:
        for task in self._tasks:
            task.cancel()
        ending = asyncio.ensure_future(self._runner.stop(self._environment.stop_grace_seconds))
        hurried = asyncio.ensure_future(self._hurry.wait())
        await asyncio.wait({ending, hurried}, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not ending.done():
            ending.cancel()
            await self._runner.stop(0)
        if self._link is not None:
            await self._link.finish(LAST_ANSWERS_SECONDS)
        await self._listener.stop(LAST_ANSWERS_SECONDS)

    async def _write_snapshot(self) -> None:
        state: dict[str, Any] = {}
        try:
            async with asyncio.timeout(PRE_STOP_SECONDS):
                told: Any = self._adapter.pre_stop_state()
                state = dict(await told if inspect.isawaitable(told) else told)
                if "transcript_lines" not in state:
                    kept = await self._transcript(0, snapshot.MAX_TRANSCRIPT_LINES)
                    state["transcript_lines"] = kept["lines"]
        except Exception:
            log.warning("the adapter's state is not in the snapshot", exc_info=True)
        built = snapshot.build_snapshot(
            self._heartbeat,
            state,
            workspace_id=self._environment.workspace_id,
            runtime=self._adapter.name(),
            sessions=self._histories.dump(),
        )
        if not snapshot.write_snapshot(built, str(self._environment.snapshot_path)):
            log.error("the snapshot was not written")

    async def _close(self) -> None:
        """Let go of everything; nothing here keeps the process from ending."""
        for step in (self._stop_executor, self._adapter.close, self._last_beat, self._client.close):
            with contextlib.suppress(Exception):
                async with asyncio.timeout(LAST_ANSWERS_SECONDS):
                    await step()
        if hasattr(self, "_store"):
            self._store.close()

    async def _stop_executor(self) -> None:
        if hasattr(self, "_executor"):
            await self._executor.stop()

    async def _last_beat(self) -> None:
        await self._heartbeat.stop()
        if self._status.phase == "stopping":
            self._heartbeat.runtime_state = "stopping"
            await self._heartbeat.beat()
