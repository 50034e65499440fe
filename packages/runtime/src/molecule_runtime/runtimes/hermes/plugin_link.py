"""The plugin transport: a message is posted to the gateway plugin, its reply comes to the reply server.

A reply finds its message by `reply_to` alone: several messages of one chat may be on their way.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from molecule_runtime.kit.state import engine_health
from molecule_runtime.runtimes.hermes import client, failures, liveness
from molecule_runtime.runtimes.hermes.chat import retry_after_seconds
from molecule_runtime.runtimes.hermes.client import HermesUnreachable, as_object

SECRET_HEADER = "X-Molecule-A2A-Secret"  # noqa: S105 - the name of a header
STARTING_SECONDS = 60.0
"""How long a message is posted again to a gateway that is starting."""
CANCEL_SECONDS = 2.0
FAILURES_TO_WEDGE = 3
GATEWAY_GONE = "the hermes gateway ended before it answered"
WEDGE_REASON = "hermes plugin unreachable"

Progress: TypeAlias = Callable[[str, Mapping[str, Any]], object]
"""Is told what the plugin says of a message before its answer: a text, and its metadata."""

log = logging.getLogger(__name__)


class PostFailed(Exception):
    """The plugin did not take a message; `is_lost` when the gateway ended under it."""

    def __init__(self, reason: str, *, is_lost: bool = False) -> None:
        super().__init__(reason)
        self.is_lost = is_lost


@dataclass(frozen=True)
class PluginAddress:
    """Where the plugin listens, and the secret that it asks for."""

    host: str
    port: int
    secret: str

    def url(self, path: str) -> str:
        """The URL of one of its routes."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{path}"

    def headers(self) -> dict[str, str]:
        """The headers of a request to it."""
        headers = {"Content-Type": "application/json"}
        return {**headers, SECRET_HEADER: self.secret} if self.secret else headers


@dataclass(frozen=True)
class PluginLimits:
    """Seconds: for one post, for the reply, and the time (monotonic) until which posts are repeated."""

    post: float
    reply: float
    last_post: float


class PluginLink:
    """Messages on their way through the plugin: `pending` has a future for each, by message id."""

    def __init__(self, pending: "dict[str, asyncio.Future[str]]") -> None:
        self._pending = pending
        self._progress: dict[str, Progress] = {}
        self._failures = 0
        self._is_wedged = False
        self._can_cancel: bool | None = None

    async def ask(
        self,
        address: PluginAddress,
        message: dict[str, Any],
        limits: PluginLimits,
        progress: Progress,
    ) -> str:
        """Post a message and wait for its reply. Raises TurnError with the sentence for the caller."""
        message_id = str(message["message_id"])
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._pending[message_id], self._progress[message_id] = future, progress
        posting = asyncio.ensure_future(_post(address, message, limits))
        try:
            # A reply, or the end of the executor, may come before the post is through.
            await asyncio.wait({posting, future}, return_when=asyncio.FIRST_COMPLETED)
            if not future.done():
                posting.result()
                await self._wait_for_reply(future, address, limits.reply)
            if not future.done():
                log.error("hermes plugin: reply timeout for message_id=%s", message_id)
                self._count_failure()
                # Else its turn would hold the chat for as long as hermes likes.
                await self.cancel(address, message_id, str(message.get("chat_id", "")))
                sentence = f"[hermes plugin reply timeout after {limits.reply:.0f}s]"
                raise failures.failure("turn-timeout", sentence)
            return self._reply(future, address.secret)
        except PostFailed as problem:
            log.error("hermes plugin POST failed", exc_info=problem)
            self._count_failure()
            sentence = f"[hermes plugin POST error] {problem}"
            raise failures.failure(
                "hermes-plugin-unreachable", sentence, retryable=problem.is_lost
            ) from problem
        finally:
            self._pending.pop(message_id, None)
            self._progress.pop(message_id, None)
            future.cancel()
            posting.cancel()
            if posting.done() and not posting.cancelled():
                posting.exception()

    async def cancel(self, address: PluginAddress, message_id: str, chat_id: str) -> None:
        """Tell the plugin to interrupt a message, if it can."""
        try:
            if self._can_cancel is None:
                health = await client.send("GET", address.url("/a2a/health"), {}, CANCEL_SECONDS)
                features = as_object(health.json()).get("features")
                self._can_cancel = "cancel" in (features if isinstance(features, list) else [])
            if self._can_cancel:
                body = {"message_id": message_id, "chat_id": chat_id}
                url = address.url("/a2a/cancel")
                await client.send("POST", url, address.headers(), CANCEL_SECONDS, body)
        except HermesUnreachable as problem:
            log.info("the plugin was not told that message %s is cancelled: %s", message_id, problem)

    def report_progress(self, message_id: str, text: str, metadata: Mapping[str, Any]) -> None:
        """Pass on what the plugin says of a message before its answer."""
        if progress := self._progress.get(message_id):
            progress(text, metadata)

    async def _wait_for_reply(
        self, future: "asyncio.Future[str]", address: PluginAddress, timeout: float
    ) -> None:
        """Wait for the reply, or for the end of the gateway that would send it."""
        watch = asyncio.ensure_future(
            liveness.wait_until_gone(address.host, address.port, address.url("/a2a/health"))
        )
        try:
            await asyncio.wait({future, watch}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if watch.done() and not future.done():
                future.set_exception(failures.TurnNotAnswered(GATEWAY_GONE, is_retryable=True))
        finally:
            watch.cancel()

    def _reply(self, future: "asyncio.Future[str]", secret: str) -> str:
        if future.cancelled():
            raise failures.failure(
                "hermes-plugin-error", f"{failures.PLUGIN_ERROR} the message was cancelled"
            )
        problem = future.exception()
        if problem is None:
            self._count_success()
            return future.result()
        reason = failures.scrubbed_line(str(problem), secret) or type(problem).__name__
        is_stopping = isinstance(problem, failures.ExecutorStopping)
        is_retryable = is_stopping or (isinstance(problem, failures.TurnNotAnswered) and problem.is_retryable)
        code = "agent-stopping" if is_stopping else "hermes-plugin-error"
        raise failures.failure(code, f"{failures.PLUGIN_ERROR} {reason}", retryable=is_retryable)

    def _count_failure(self) -> None:
        self._failures += 1
        if self._failures >= FAILURES_TO_WEDGE:
            self._is_wedged = True
            engine_health.mark_wedged(WEDGE_REASON)

    def _count_success(self) -> None:
        self._failures = 0
        if self._is_wedged:
            self._is_wedged = False
            engine_health.clear_wedge()


async def _post(address: PluginAddress, message: dict[str, Any], limits: PluginLimits) -> None:
    """Post a message until the plugin takes it; only a gateway that is starting is asked again."""
    url, headers = address.url("/a2a/inbound"), address.headers()
    until = min(time.monotonic() + STARTING_SECONDS, limits.last_post)
    while True:
        try:
            reply = await client.send("POST", url, headers, limits.post, message)
        except HermesUnreachable as problem:
            raise PostFailed(problem.kind, is_lost=problem.is_lost) from problem
        if 200 <= reply.status < 300:
            return
        wait = retry_after_seconds(reply.headers.get("retry-after", "")) if reply.status == 503 else None
        if wait is None or time.monotonic() + wait >= until:
            raise PostFailed(f"HTTP {reply.status}")
        await asyncio.sleep(max(wait, 0.05))
