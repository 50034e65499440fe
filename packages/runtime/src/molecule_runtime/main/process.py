"""The life of a workspace process: restore, set up, listen, register, serve, stop."""

import asyncio
import contextlib
import gc
import inspect
import logging
import signal
from typing import Any, cast

import molecule_runtime
from molecule_a2a import HttpServer, PortTaken, bind
from molecule_runtime.domain.config import WorkspaceConfig
from molecule_runtime.domain.permissions import permissions_of
from molecule_runtime.domain.turns import TurnEvent
from molecule_runtime.kit.files.attachments import attachments_of
from molecule_runtime.kit.files.outbound_files import collect_outbound_files
from molecule_runtime.kit.setup.adapter import AdapterConfig
from molecule_runtime.kit.setup.engine import start_executor
from molecule_runtime.kit.state import snapshot
from molecule_runtime.kit.state.delegation_results import UnreadResults
from molecule_runtime.kit.state.known_secrets import known_secret_values
from molecule_runtime.kit.state.metrics import Metrics
from molecule_runtime.kit.state.spend import MonthlySpend
from molecule_runtime.kit.state.status import Status
from molecule_runtime.kit.state.transcripts import TranscriptLog
from molecule_runtime.kit.state.watchdog import LoopWatchdog, watch_health
from molecule_runtime.kit.turns import turn_context
from molecule_runtime.kit.turns.executor import TurnExecutor
from molecule_runtime.kit.turns.history import HistoryStore
from molecule_runtime.kit.turns.messages import declares
from molecule_runtime.kit.turns.runner import TurnRunner, TurnServices
from molecule_runtime.links.a2a_server import AgentServer
from molecule_runtime.links.agent_card import agent_card
from molecule_runtime.links.callers import CallerVerifier, PlatformKeys, read_policy
from molecule_runtime.links.heartbeat import HeartbeatLoop
from molecule_runtime.links.platform_client import PlatformClient
from molecule_runtime.links.registration import new_dispatch_secret
from molecule_runtime.links.task_store import TaskStore
from molecule_runtime.main import snapshots
from molecule_runtime.main.boot import BootContext, report_failure
from molecule_runtime.main.platform_membership import PlatformMembership, WorkspaceEndpoint
from molecule_runtime.main.reload import ConfigReload, adapter_config
from molecule_runtime.settings.environment import Environment
from molecule_wire import JSONObject, redaction
from molecule_wire.calls import CallFailed

LAST_ANSWERS_SECONDS = 5.0

log = logging.getLogger("molecule_runtime")


class WorkspaceProcess:
    """One workspace. `run` returns the exit code; SIGTERM and SIGINT stop it, a second one at once."""

    def __init__(self, prepared: BootContext) -> None:
        self._prepared = prepared
        self._environment = prepared.environment
        self._config = prepared.config
        self._client = prepared.client
        self._adapter = prepared.adapter
        self._status = Status(is_auth_lost=lambda: self._client.auth_lost)
        self._metrics = Metrics(lambda: self._heartbeat.failures)
        self._spend = MonthlySpend(self._environment.spend_file)
        self._histories = HistoryStore()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._exit_code = 0
        self._interrupted: list[str] = []
        self._secrets = self._known_secrets()
        self._transcripts = TranscriptLog(
            self._environment.transcripts_dir,
            self._adapter.name(),
            lambda: self._secrets,
            defer=asyncio.get_running_loop().call_later,
        )
        self._heartbeat = HeartbeatLoop(
            self._environment.platform_url,
            self._environment.workspace_id,
            client=self._client,
            adapter=self._adapter,
        )
        self._watchdog = LoopWatchdog(self._tell_of_stall)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._applied: AdapterConfig
        self._membership: PlatformMembership
        self._runner: TurnRunner
        self._executor: TurnExecutor
        self._http_server: HttpServer
        self._server: AgentServer
        self._store: TaskStore
        self._place: WorkspaceEndpoint

    async def run(self) -> int:
        """Boot, serve, stop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        try:
            await self._start()
        except Exception as problem:
            # RuntimeError is how an adapter says what it lacks; what nobody foresaw is shown with its place.
            is_foreseen = isinstance(problem, RuntimeError | PortTaken | TimeoutError)
            sentence = f"the workspace cannot start: {_reason(problem, self._environment)}"
            log.error("%s", sentence, exc_info=None if is_foreseen else problem)
            await report_failure(self._client, redaction.redact(sentence, redaction.LOG))
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
        turn_context.set_platform(self._client)
        turn_context.set_permissions(permissions_of(self._config))
        restored = snapshots.restore(self._environment, self._adapter, self._histories)
        self._applied = adapter_config(self._environment, self._config)
        self._applied.heartbeat, self._applied.platform = self._heartbeat, self._client
        async with asyncio.timeout(self._environment.setup_timeout_seconds):
            self._executor = await start_executor(self._adapter, self._applied)
        self._store = TaskStore(self._environment.tasks_db)
        self._runner = TurnRunner(self._executor, self._services())
        self._reload = ConfigReload(self._environment, self._adapter, self._applied, self._apply)
        self._place = await self._listen()
        self._membership = PlatformMembership(
            self._prepared,
            self._status,
            self._heartbeat,
            self._runner,
            self._store,
            self._reload,
            self.stop,
        )
        self._begin(self._join(restored))

    def _services(self) -> TurnServices:
        return TurnServices(
            redactor=self._redactor,
            heartbeat=self._heartbeat,
            histories=self._histories,
            receive_files=self._receive_files,
            send_files=self._send_files,
            record=self._transcripts.append_turn,
            prompt=lambda: self._applied.system_prompt or "",
            unread=UnreadResults(self._environment.delegation_results_file),
            observe=self._observe,
        )

    def _redactor(self) -> redaction.StreamRedactor:
        checks_all = bool(self._applied.workspace_config.compliance.mode)
        policy = redaction.ANSWER if checks_all else redaction.ANSWER_SECRETS
        return redaction.StreamRedactor(self._secrets, policy)

    async def _listen(self) -> WorkspaceEndpoint:
        """Accept connections; nobody is told before."""
        environment, a2a = self._environment, self._config.a2a
        host = environment.listen_host(a2a)
        listener = bind(host, a2a.port)
        port: int = listener.getsockname()[1]
        url, secret = environment.public_url(a2a, port), new_dispatch_secret()
        verifier = CallerVerifier(
            environment.workspace_id,
            PlatformKeys(self._client.platform_url, self._client.jwks),
            self._client.platform_url,
            policy=read_policy(environment.require_caller),
            dispatch_secret=secret,
        )
        place = WorkspaceEndpoint(url, self._card(self._config, url), secret)
        self._server = AgentServer(
            self._runner,
            verifier,
            self._status,
            self._metrics,
            card=place.card,
            url=url,
            workspace_id=environment.workspace_id,
            store=self._store,
            transcript=self._transcript,
            capabilities=self._capabilities,
            stop=self.stop,
            reload=lambda: self._reload.ask("reload"),
        )
        self._http_server = HttpServer(self._server.app)
        await self._http_server.start(listener)
        log.info("listening on %s:%d", host, port)
        return place

    async def _join(self, restored: bool) -> None:
        """Register, and be ready."""
        had_token = self._client.has_token
        failure = await self._membership.register(self._place)
        if failure is not None:
            log.error("the platform does not take this workspace: %s", failure.sentence)
            self._exit_code = 0 if failure.is_removed else 1
            return self.stop()
        self._secrets = self._known_secrets()
        self._status.phase, self._status.reason = "ready", ""
        if restored:
            snapshot.delete_snapshot(str(self._environment.snapshot_path))
        self._heartbeat.monthly_spend = self._spend.cents
        self._membership.start()
        self._watchdog.start()
        for work in (watch_health(self._adapter), self._reload.run(), self._reload.watch()):
            self._begin(work)
        if not had_token:
            self._reload.ask("refresh")
        # What was made until now stays: a collection that looks at it again took a tenth of each turn.
        gc.collect()
        gc.freeze()
        log.info("ready: workspace %s, runtime %s", self._environment.workspace_id, self._adapter.name())
        return None

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # While it serves

    def _tell_of_stall(self) -> None:
        """Beat from the watchdog's thread, since the loop that does it otherwise is blocked."""

        async def beat() -> None:
            environment = self._environment
            client = PlatformClient(
                environment.platform_url, environment.workspace_id, org_id=environment.org_id
            )
            try:
                await client.heartbeat(self._heartbeat.report())
            finally:
                await client.close()

        try:
            asyncio.run(beat())
        except (CallFailed, OSError) as problem:
            log.warning("the platform was not told of the blocked event loop: %s", problem)

    def _observe(self, event: TurnEvent) -> None:
        self._metrics.count(event)
        usage = event.usage
        if usage is None:
            return
        if usage.cost_usd:
            self._heartbeat.monthly_spend = self._spend.add(usage.cost_usd)
        if not declares(self._adapter, "provides_activity_decoration"):
            self._begin(self._log_usage(event))

    async def _log_usage(self, event: TurnEvent) -> None:
        usage = event.usage
        assert usage is not None
        summary = f"{usage.model}: {usage.input_tokens} tokens in, {usage.output_tokens} out"
        try:
            await self._client.log_activity("agent_log", summary, metadata=cast("JSONObject", vars(usage)))
        except (CallFailed, OSError) as problem:
            log.info("the use of %s was not logged at the platform: %s", usage.model, problem)

    async def _apply(self, config: WorkspaceConfig) -> None:
        """Show a card that a changed configuration, or changed skills, made different."""
        card = self._card(config, self._place.url)
        if card != self._place.card:
            self._place.card = card
            self._server.app.replace_card(card)
            await self._client.update_card(card)

    def _card(self, config: WorkspaceConfig, url: str) -> JSONObject:
        return agent_card(config, url, self._skills())

    def _skills(self) -> list[Any]:
        return self._adapter._setup.result.loaded_skills if self._adapter._setup else []

    async def _transcript(self, since: int, limit: int) -> JSONObject:
        lines: Any = self._adapter.transcript_lines(since=since, limit=limit)
        rows = await lines if inspect.isawaitable(lines) else lines
        if not rows.get("supported"):
            rows = await asyncio.to_thread(self._transcripts.read, since, limit)
        return cast("JSONObject", rows)

    def _capabilities(self) -> JSONObject:
        adapter, tools = self._adapter, self._executor.tools
        return {
            "runtime": adapter.name(),
            "version": molecule_runtime.__version__,
            "capabilities": cast("JSONObject", adapter.capabilities().to_dict()),
            "idle_timeout_seconds": adapter.idle_timeout_override(),
            "model": self._applied.model,
            "tools": [spec.name for spec in getattr(tools, "specs", ())],
            "skills": [skill.metadata.id for skill in self._skills()],
        }

    async def _receive_files(self, parts: list[Any]) -> list[Any]:
        return await asyncio.to_thread(attachments_of, parts, work=self._environment.work_dir)

    def _send_files(self, text: str, files: list[Any]) -> list[Any]:
        return collect_outbound_files(
            text, files, work=self._environment.work_dir, environ=self._environment.variables
        )

    # Stop

    async def _stop(self) -> None:
        self._status.phase, self._status.reason = "stopping", "the workspace is being stopped"
        try:
            await self._end_turns()
        except Exception:
            log.exception("the turns were not ended in order")
        finally:
            await snapshots.write(
                self._environment,
                self._adapter,
                self._histories,
                self._heartbeat,
                self._transcript,
                self._interrupted,
            )
        await self._close()

    async def _end_turns(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self._membership.end()
        ending = asyncio.ensure_future(self._runner.stop(self._environment.stop_grace_seconds))
        hurried = asyncio.ensure_future(self._hurry.wait())
        await asyncio.wait({ending, hurried}, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not ending.done():
            ending.cancel()
            ending = asyncio.ensure_future(self._runner.stop(0))
        self._interrupted = await ending
        if self._membership.link is not None:
            await self._membership.link.finish(LAST_ANSWERS_SECONDS)
        await self._http_server.stop(LAST_ANSWERS_SECONDS)

    async def _close(self) -> None:
        """Let go of everything; nothing here keeps the process from ending."""
        self._watchdog.stop()
        self._transcripts.flush()
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


def _reason(problem: Exception, environment: Environment) -> str:
    if isinstance(problem, TimeoutError):
        return f"its setup did not end within {environment.setup_timeout_seconds} s"
    return str(problem) if isinstance(problem, RuntimeError | PortTaken) else type(problem).__name__
