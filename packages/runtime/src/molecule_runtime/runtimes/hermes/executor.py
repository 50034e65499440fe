"""The bridge to hermes: every A2A turn is one turn of a hermes gateway, over its chat API or our plugin."""

import asyncio
import json
import logging
import math
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar

from molecule_runtime.domain.turns import TurnOutcome, TurnResult
from molecule_runtime.kit.files.attachments import build_user_content_with_files, manifest
from molecule_runtime.kit.turns.executor import Turn, TurnExecutor
from molecule_runtime.kit.turns.message_text import member
from molecule_runtime.kit.turns.message_text import text_of_message as extract_message_text
from molecule_runtime.kit.turns.queue import TurnQueue
from molecule_runtime.kit.turns.runner import TurnRunner, TurnServices
from molecule_runtime.runtimes.hermes import approvals, chat, failures, reply_server, sessions, settings
from molecule_runtime.runtimes.hermes.a2a_sdk_bridge import (
    TurnOrigin,
    bare_files,
    bare_origin,
    origin_of_context,
    origin_of_turn,
    request_of,
)
from molecule_runtime.runtimes.hermes.chat_sessions import ChatSession, ChatSessions
from molecule_runtime.runtimes.hermes.client import HermesUnreachable
from molecule_runtime.runtimes.hermes.liveness import wait_for_gateway
from molecule_runtime.runtimes.hermes.plugin_link import (
    SECRET_HEADER,
    PluginAddress,
    PluginLimits,
    PluginLink,
)
from molecule_runtime.runtimes.hermes.settings import bool_env as _bool_env
from molecule_wire import redaction
from molecule_wire.times import format_time

__all__ = ["AIOHTTP_AVAILABLE", "SECRET_HEADER", "HermesAgentProxyExecutor", "_bool_env"]

# Read when they are used, so that a value set here later holds.
_DEFAULT_BASE = "http://127.0.0.1:8642/v1"
_REQUEST_TIMEOUT = 600.0
_DEFAULT_PLUGIN_HOST = "127.0.0.1"
_DEFAULT_PLUGIN_PORT = 8645
_DEFAULT_CALLBACK_HOST = "127.0.0.1"
_DEFAULT_CALLBACK_PORT = 8646
_DEFAULT_CALLBACK_PATH = "/a2a/reply"
_PLUGIN_REPLY_TIMEOUT = 600.0
_PLUGIN_POST_TIMEOUT = 10.0

_SERVER_PACKAGE = "uvicorn"
AIOHTTP_AVAILABLE = find_spec(_SERVER_PACKAGE) is not None
"""Whether the HTTP server of the replies can be imported; the name is historical."""

_EMPTY_PROMPT = "(empty prompt — nothing to do)"
_MAX_CONCURRENT_TURNS = 4

log = logging.getLogger(__name__)


class HermesAgentProxyExecutor(TurnExecutor):
    """Forwards turns to hermes. Each ends in one outcome, whatever becomes of the gateway."""

    serialize: ClassVar[bool] = False
    # A request may take 600 seconds without a sign of life.
    idle_timeout: ClassVar[float | None] = 900.0

    def __init__(self, config: Any, *, adapter: Any = None, tools: Any = None) -> None:
        super().__init__(config, adapter=adapter, tools=tools)
        values = self._settings = settings.read_settings(defaults())
        self._config = config
        self._base = values.base
        self._use_plugin = values.use_plugin
        self._plugin_host, self._plugin_port = values.plugin_host, values.plugin_port
        self._callback_host, self._callback_port = values.callback_host, values.callback_port
        self._shared_secret = values.shared_secret
        self._pending: dict[str, asyncio.Future[str]] = {}
        self._started = False
        self._reply_runner: Any = None
        self._reply_site: Any = None
        self._plugin = PluginLink(self._pending)
        self._chat = ChatSessions(getattr(config, "workspace_id", "") or "")
        self._slots = asyncio.Semaphore(_slots_of(config))
        self._work: dict[Turn, tuple[asyncio.Task[Any], str]] = {}

    # Life

    async def start(self) -> None:
        """Listen for the replies of the plugin, where it is used. Harmless when repeated."""
        if self._started:
            return
        if not self._use_plugin:
            log.info("Hermes plugin path disabled; using /v1/chat/completions")
        elif AIOHTTP_AVAILABLE:
            if not self._shared_secret:
                log.warning("MOLECULE_A2A_PLATFORM_SHARED_SECRET is not set: replies are not authenticated")
            await self._start_reply_server()
            log.info("hermes plugin reply server listening on %s", self._callback_url())
        else:
            raise RuntimeError(
                f"MOLECULE_A2A_PLATFORM_ENABLED=true but {_SERVER_PACKAGE} is not installed — add "
                f"{_SERVER_PACKAGE} to requirements.txt or set MOLECULE_A2A_PLATFORM_ENABLED=false to use "
                "the legacy path."
            )
        self._started = True

    async def _start_reply_server(self) -> None:
        """Bind the callback port, or any port where the default one is taken, and serve."""

        async def handle(request: reply_server.ReplyRequest) -> reply_server.ReplyResponse:
            return await self._handle_reply(request)

        server = reply_server.ReplyServer(_DEFAULT_CALLBACK_PATH, handle, lambda: len(self._pending))
        host, port = self._callback_host, self._callback_port
        try:
            self._reply_site, self._callback_port = await reply_server.listen(host, port, server)
        except OSError as problem:
            if self._settings.is_callback_port_given and port:
                refused = f"MOLECULE_A2A_CALLBACK_PORT={port} cannot be bound on {host} ({problem})"
                raise RuntimeError(f"{refused}: unset it, or name a free port.") from problem
            self._reply_site, self._callback_port = await reply_server.listen(host, 0, server)
        self._reply_runner = server

    async def probe(self) -> None:
        """Ask the gateway what it can do, unless it is known."""
        await self._chat.probe(self._base, self._build_chat_completions_headers(), _REQUEST_TIMEOUT)

    async def stop(self) -> None:
        """Stop listening and end every wait for a reply. Harmless when repeated."""
        site, runner, self._reply_site, self._reply_runner = self._reply_site, self._reply_runner, None, None
        for part, name, what in ((site, "stop", "site stop"), (runner, "cleanup", "runner cleanup")):
            try:
                if part is not None:
                    await getattr(part, name)()
            except Exception:
                log.exception("hermes plugin: reply %s failed", what)
        if site is not None:
            self._callback_port = self._settings.callback_port
        for future in self._pending.values():
            if not future.done():
                future.set_exception(failures.ExecutorStopping())
        self._pending.clear()
        self._started = False

    # Turns of the workspace

    async def run_turn(self, turn: Turn) -> TurnResult:
        """Forward one turn, when one of the slots is free."""
        origin = origin_of_turn(turn)
        use_plugin = self._use_plugin if origin.transport is None else origin.transport == "plugin"
        task, message_id = asyncio.current_task(), uuid.uuid4().hex
        assert task is not None
        self._work[turn] = (task, message_id if use_plugin else "")
        try:
            async with self._slots:
                await wait_for_gateway(self.adapter, _last_start(turn))
                turn.sink.touch()
                if use_plugin:
                    return await self._ask_plugin(turn, origin, message_id)
                return await self._ask_chat(turn, origin)
        finally:
            self._work.pop(turn, None)

    async def interrupt(self, turn: Turn) -> None:
        """Let go of a turn at once: its connection is closed, or the plugin is told."""
        task, message_id = self._work.pop(turn, (None, ""))
        if task is None:
            return
        origin = origin_of_turn(turn)
        if not message_id and not self._is_streamed(origin):
            turn.sink.status("hermes is not waited for any more; it may finish its work")
        task.cancel()
        if message_id:
            await self._plugin.cancel(self._plugin_address(), message_id, origin.chat_id)

    async def _ask_plugin(self, turn: Turn, origin: TurnOrigin, message_id: str) -> TurnResult:
        caller = turn.caller if turn.caller is not None and turn.caller.verified else None
        metadata = {
            "context_id": origin.context_id,
            "task_id": origin.task_id,
            "traceparent": turn.traceparent,
        }
        if turn.deadline is not None:
            left = timedelta(seconds=turn.deadline - time.monotonic())
            metadata["deadline"] = format_time(datetime.now(UTC) + left)
        message = {
            "chat_id": origin.chat_id,
            "peer_id": (caller.principal if caller else "") or origin.chat_id,
            "peer_name": (caller.name if caller else "") or origin.chat_id,
            "content": "\n\n".join(filter(None, (_text_of(turn), manifest(origin.attachments)))),
            "message_id": message_id,
            "callback_url": self._callback_url(),
            "metadata": {name: value for name, value in metadata.items() if value},
        }
        limits = PluginLimits(
            _PLUGIN_POST_TIMEOUT,
            self._settings.request_timeout or _PLUGIN_REPLY_TIMEOUT,
            _last_start(turn),
        )
        progress = partial(approvals.report_progress, turn, self._runner)
        return TurnResult(await self._plugin.ask(self._plugin_address(), message, limits, progress))

    async def _ask_chat(self, turn: Turn, origin: TurnOrigin) -> TurnResult:
        timeout, headers = (
            self._settings.request_timeout or _REQUEST_TIMEOUT,
            self._build_chat_completions_headers(),
        )
        try:
            if origin.as_task and self._settings.streams:
                await self._chat.probe(self._base, headers, timeout)
            while True:
                session = self._chat.session_of(turn, origin) if settings.api_key() else None
                payload = await self._payload(turn, origin, session, timeout)
                request_headers = {**headers, **(session.headers if session else {})}
                request = chat.ChatRequest(self._base, request_headers, payload, timeout, _last_start(turn))
                try:
                    answer = await chat.ask(request, turn.sink)
                    break
                except chat.SessionRefused:
                    self._chat.refuse_sessions()
        except HermesUnreachable as problem:
            self._chat.forget_features()
            log.error("hermes-agent transport error", exc_info=problem)
            code = "turn-timeout" if problem.is_timeout else "hermes-unreachable"
            sentence = f"[hermes-agent unreachable] {problem}"
            raise failures.failure(code, sentence, retryable=problem.is_lost) from problem
        self._chat.record(turn, origin, session, answer.session_id)
        await approvals.report_held_back(turn, self._runner, self._base, headers, answer.session_id)
        return TurnResult(answer.text, session_id=answer.session_id or None)

    async def _payload(
        self, turn: Turn, origin: TurnOrigin, session: ChatSession | None, timeout: float
    ) -> dict[str, Any]:
        """The body of a turn's request; the history is in it unless hermes has it."""
        prompt = _text_of(turn)
        payload = self._build_chat_completions_payload(prompt)
        messages: list[dict[str, Any]] = payload["messages"]
        if session is None or not session.is_active:
            messages = payload["messages"] = self._build_initial_messages(prompt, history=origin.history)
        elif await self._chat.is_lost(session, self._base, self._build_chat_completions_headers(), timeout):
            sessions.add_conversation(messages, sessions.chat_messages(origin.history, prompt))
        if origin.attachments:
            messages[-1]["content"] = await asyncio.to_thread(
                build_user_content_with_files, prompt, origin.attachments
            )
        payload["stream"] = self._is_streamed(origin)
        return payload

    # Requests of a bare A2A server

    async def execute(self, context: Any, event_queue: Any) -> None:
        """Answer a request context of the a2a-sdk: one message, or the updates of its task."""
        prompt = extract_message_text(member(context, "message"))
        origin = await origin_of_context(context)
        if not prompt and not origin.attachments:
            from molecule_runtime.kit.turns.a2a_sdk import QueueOutput

            output = QueueOutput(request_of(origin, prompt), event_queue)
            return await output.end(TurnOutcome("completed", _EMPTY_PROMPT))
        token = bare_origin.set(origin)
        try:
            if self._use_plugin:
                await self._execute_via_plugin(context, event_queue, prompt)
            else:
                await self._execute_via_chat_completions(event_queue, prompt)
        finally:
            bare_origin.reset(token)

    async def _execute_via_plugin(self, context: Any, event_queue: Any, prompt: str) -> None:
        """Answer a prompt through the plugin."""
        origin = bare_origin.get() or await origin_of_context(context)
        await self._run_bare(replace(origin, transport="plugin"), event_queue, prompt)

    async def _execute_via_chat_completions(self, event_queue: Any, prompt: str) -> None:
        """Answer a prompt through the chat API; outside of a request it belongs to no conversation."""
        origin = bare_origin.get() or TurnOrigin()
        await self._run_bare(replace(origin, transport="chat"), event_queue, prompt)

    async def cancel(self, context: Any, event_queue: Any) -> None:
        """Cancel the turn of a request context; one that is over, or never was, changes nothing."""
        task_id = sessions.usable_id(member(context, "task_id"))
        if task_id and self._runner is not None:
            self._runner.cancel(task_id)

    async def _run_bare(self, origin: TurnOrigin, event_queue: Any, prompt: str) -> None:
        from molecule_runtime.kit.turns.a2a_sdk import QueueOutput

        request = request_of(origin, prompt)
        output = QueueOutput(request, event_queue)
        # Turns of one context wait for each other. The plugin itself orders the messages of a chat.
        lane = origin.chat_id if origin.transport == "chat" and origin.chat_id else uuid.uuid4().hex
        token = bare_origin.set(origin)
        try:
            await self._own_runner().run(replace(request, context_id=lane), output)
        finally:
            bare_origin.reset(token)

    def _own_runner(self) -> TurnRunner:
        if self._runner is None:
            services = TurnServices(self._redactor, receive_files=bare_files)
            # The executor's own slots bound the turns.
            TurnRunner(self, services).queue = TurnQueue(None, 1)
        assert self._runner is not None
        return self._runner

    def _redactor(self) -> redaction.StreamRedactor:
        known = filter(None, (self._shared_secret, settings.api_key()))
        return redaction.StreamRedactor(known, redaction.answer_policy(()))

    # Seams

    def _build_chat_completions_payload(self, user_text: str) -> dict[str, Any]:
        """The body of a request without history."""
        model = getattr(self._config, "model", "") or "hermes-agent"
        return {"model": model, "messages": self._build_initial_messages(user_text), "stream": False}

    def _build_chat_completions_headers(self) -> dict[str, str]:
        """The headers of every request; those of a session come on top."""
        key = settings.api_key()
        headers = {"Content-Type": "application/json"}
        return {**headers, "Authorization": f"Bearer {key}"} if key else headers

    @staticmethod
    def _extract_assistant_text(data: Any) -> str:
        """The text of an answer of the chat API."""
        text = chat.extract_assistant_text(data)
        return failures.no_content().public_text if text is None else text

    def _build_initial_messages(
        self, user_text: str, peers_blurb: str = "", history: Sequence[Any] | None = None
    ) -> list[dict[str, Any]]:
        """System prompt, history in A2A form, and the current text, as messages of the chat API."""
        prompt: str = getattr(self._config, "system_prompt", None) or ""
        system = "\n\n".join(filter(None, (prompt, peers_blurb)))
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        messages += sessions.chat_messages(history or [], user_text)
        return [*messages, {"role": "user", "content": user_text}]

    @staticmethod
    def _extract_history_from_context(context: Any) -> list[Any]:
        """The raw history that a request brings."""
        return sessions.history_of_context(context)

    @staticmethod
    def _derive_chat_id(context: Any) -> str:
        """An id for the chat of a request."""
        return sessions.derive_chat_id(context)

    async def _handle_reply(self, request: Any) -> reply_server.ReplyResponse:
        """Take a reply of the plugin."""
        return await reply_server.handle_reply(
            request, self._shared_secret, self._pending, self._plugin.report_progress
        )

    def _is_streamed(self, origin: TurnOrigin) -> bool:
        # One message as the answer gains nothing from a stream.
        return origin.as_task and self._settings.streams and self._chat.can_stream

    def _plugin_address(self) -> PluginAddress:
        return PluginAddress(self._plugin_host, self._plugin_port, self._shared_secret)

    def _callback_url(self) -> str:
        host = f"[{self._callback_host}]" if ":" in self._callback_host else self._callback_host
        return f"http://{host}:{self._callback_port}{_DEFAULT_CALLBACK_PATH}"


def defaults() -> settings.HermesDefaults:
    """What holds where the environment says nothing, as the constants are now."""
    return settings.HermesDefaults(
        _DEFAULT_BASE,
        _DEFAULT_PLUGIN_HOST,
        _DEFAULT_PLUGIN_PORT,
        _DEFAULT_CALLBACK_HOST,
        _DEFAULT_CALLBACK_PORT,
    )


def _slots_of(config: Any) -> int:
    runtime_config: dict[str, Any] = getattr(config, "runtime_config", None) or {}
    limit = runtime_config.get("max_concurrent_turns")
    if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
        return limit
    return _MAX_CONCURRENT_TURNS


def _text_of(turn: Turn) -> str:
    """The text of a turn; of one that has only structured parts, these."""
    return turn.text or "\n".join(json.dumps(part) for part in turn.data_parts)


def _last_start(turn: Turn) -> float:
    """When no attempt may begin any more, on the monotonic clock."""
    return math.inf if turn.deadline is None else turn.deadline
