"""The platform adapter: one message of a chat at a time into hermes, its answer back to the caller."""

# pyright: reportMissingModuleSource=false
# Hermes is installed only in an environment of its own.

import asyncio
import contextlib
import logging
import os
import re
from typing import Any

from gateway.config import Platform, PlatformConfig
from gateway.platforms.base import (
    BasePlatformAdapter,
    MessageEvent,
    MessageType,
    SendResult,
    coerce_plaintext_gateway_command,
)
from gateway.session import SessionSource, build_session_key

from . import NAME, VERSION
from .listener import Listener
from .messages import MAX_WAITING, Chat, Chats, InboundMessage, parse_hosts
from .replies import ReplySender

logger = logging.getLogger(__name__)

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8645
LEAD_IN = "Message text: "
NO_ANSWER = "[hermes plugin error] hermes ended the turn without an answer"
STOPPED = "[hermes plugin error] the hermes gateway stopped before it answered"
REFUSED = (
    "Nobody can approve commands in this conversation. Do the work in another way, or say what you need."
)

_MEDIA_MARK = re.compile(r"MEDIA:\s*(?=[~/`\"'])")

POLL_SECONDS = 0.05
QUIET_POLLS = 10
"""A turn is over when its session was idle this often: hermes hands sessions from task to task."""
FORGOTTEN_POLLS = 600


class MoleculeAdapter(BasePlatformAdapter):
    """Serves the chats of a workspace. Everything runs in the gateway's event loop."""

    # A caller gets one answer; what hermes would say after its turn has nobody to go to.
    supports_async_delivery = False
    # Else hermes streams into messages that it edits, or takes what it said between two tools as its answer,
    # and sends no final one in either case.
    SUPPORTS_MESSAGE_EDITING = False
    splits_long_messages = True

    def __init__(self, config: PlatformConfig) -> None:
        super().__init__(config, Platform(NAME))
        self._host = _setting(config, "host", "MOLECULE_A2A_PLATFORM_HOST") or DEFAULT_HOST
        self._port = int(_setting(config, "port", "MOLECULE_A2A_PLATFORM_PORT") or DEFAULT_PORT)
        secret = _setting(config, "shared_secret", "MOLECULE_A2A_PLATFORM_SHARED_SECRET")
        allowed_hosts = parse_hosts(os.environ.get("MOLECULE_A2A_CALLBACK_ALLOW", ""))
        self._listener = Listener(self, NAME, VERSION, secret, allowed_hosts)
        self._replies = ReplySender(secret)
        self._chats = Chats()

    @property
    def authorization_is_upstream(self) -> bool:
        """The platform decided who may write to this workspace; hermes knows none of its senders."""
        return True

    async def connect(self, *, is_reconnect: bool = False) -> bool:
        """Bind the port."""
        try:
            await self._listener.start(self._host, self._port)
        except OSError as problem:
            text = (
                f"{self._host}:{self._port} cannot be bound ({problem.strerror or type(problem).__name__}): "
                "set MOLECULE_A2A_PLATFORM_PORT to a free port"
            )
            self._set_fatal_error("port-taken", text, retryable=True)
            return False
        self._mark_connected()
        return True

    async def disconnect(self) -> None:
        """Free the port; callers that still wait are told that no answer will come."""
        await self._listener.stop()
        unanswered = self._chats.unanswered()
        for worker in self._chats.workers():
            worker.cancel()
        self._chats.clear()
        replies = (
            self._replies.send(each, STOPPED, final=True, retry=False, error="stopped") for each in unanswered
        )
        await asyncio.gather(*replies)
        await self._replies.close()
        self._mark_disconnected()

    async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
        """What hermes shows of a chat."""
        return {"name": chat_id, "type": "dm"}

    # What the listener brings

    def unready_reason(self) -> str:
        """Hermes restores old sessions after it connected its platforms; until then it answers nobody."""
        runner = self.gateway_runner
        if runner is None or getattr(runner, "_startup_restore_in_progress", False):
            return "starting"
        if getattr(runner, "_draining", False):
            return "stopping"
        return "full" if len(self._chats.unanswered()) >= MAX_WAITING else ""

    def submit(self, message: InboundMessage) -> bool:
        """Queue a message behind the others of its chat; False when it was taken before."""
        if not self._chats.accept(message):
            return False
        chat = self._chats.chat(message.chat_id)
        if chat.worker is None or chat.worker.done():
            chat.worker = asyncio.create_task(self._serve(message.chat_id, chat))
        return True

    def cancel(self, message_id: str) -> bool:
        """Drop a waiting message, or stop the turn that runs for it."""
        found = self._chats.find(message_id)
        if found is None:
            return False
        chat, message = found
        if chat.in_hand is message:
            chat.in_hand = None
            message.is_cancelled = True
            message.settled.set()
        else:
            chat.waiting.remove(message)
        return True

    # Into hermes

    async def handle_message(self, event: MessageEvent) -> None:
        """Take a message; but no turn by which hermes resumes the sessions of a process that died.

        It resumes every session of the last two minutes, also those that had their answer. Nobody waits for
        these turns, each costs a call of the model, and who sent an interrupted message sends it again.
        """
        if event.internal and not event.text and await self._drop_resumption(event):
            return
        await super().handle_message(event)

    async def _drop_resumption(self, event: MessageEvent) -> bool:
        """Take back that a session is to be resumed, so that it goes on with the next message."""
        try:
            await self.gateway_runner.async_session_store.clear_resume_pending(
                build_session_key(event.source)
            )
        except Exception:
            logger.debug("molecule-a2a: hermes resumes a session", exc_info=True)
            return False
        return True

    async def _serve(self, chat_id: str, chat: Chat) -> None:
        """Hand over the messages of a chat, each when hermes is through with the one before."""
        key = build_session_key(self.build_source(chat_id=chat_id, chat_type="dm"))
        while chat.waiting:
            await self._wait_until_idle(key)
            if not chat.waiting:  # cancelled meanwhile
                break
            chat.in_hand = message = chat.waiting.popleft()
            try:
                await self._run_turn(message, key)
                # Here and not where the request came in: it must not stop the turn of the next message.
                if message.is_cancelled and self._is_busy(key):
                    await self._stop_turn(message)
            except Exception:
                logger.exception("molecule-a2a: the turn of message_id=%s failed", message.message_id)
            if chat.in_hand is message:
                chat.in_hand = None
                message.settled.set()
                await self._replies.send(message, NO_ANSWER, final=True, error="no-answer")
        self._chats.forget(chat_id)

    async def _wait_until_idle(self, key: str) -> None:
        """Wait for a turn that hermes still runs, also one of its own: it would swallow a message.

        What only the runner still notes may be forgotten there; hermes looks after that when a message comes.
        """
        patience = FORGOTTEN_POLLS
        while self._is_busy(key) and patience:
            patience = FORGOTTEN_POLLS if self._is_processing(key) else patience - 1
            await asyncio.sleep(POLL_SECONDS)

    async def _run_turn(self, message: InboundMessage, key: str) -> None:
        """Give a message to hermes; wait until it is settled or the session has nothing to do any more."""
        await self.handle_message(self._event(message))
        quiet = 0
        while not message.settled.is_set() and quiet < QUIET_POLLS:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(message.settled.wait(), POLL_SECONDS)
            quiet = 0 if self._is_busy(key) else quiet + 1

    def _is_busy(self, key: str) -> bool:
        """Whether hermes runs or holds anything for a session, in this adapter or in the runner."""
        if self._is_processing(key) or key in self._pending_messages or key in self._text_debounce:
            return True
        runner = self.gateway_runner
        running: dict[str, Any] = getattr(runner, "_running_agents", None) or {}
        queued: dict[str, Any] = getattr(runner, "_queued_events", None) or {}
        return key in running or bool(queued.get(key))

    def _is_processing(self, key: str) -> bool:
        return key in self._active_sessions and not self._session_task_is_stale(key)

    def _event(self, message: InboundMessage) -> MessageEvent:
        source = self._source(message)
        event = MessageEvent(
            text=message.content,
            message_type=MessageType.TEXT,
            source=source,
            message_id=message.message_id,
        )
        # No text from outside is a command of the gateway, neither as `/…` nor as one of the phrases that
        # hermes turns into a command itself.
        coerce_plaintext_gateway_command(event)
        if event.text != message.content or message.content.lstrip().startswith("/"):
            event.text = LEAD_IN + message.content
        return event

    def _source(self, message: InboundMessage) -> SessionSource:
        return self.build_source(
            chat_id=message.chat_id,
            chat_name=message.peer_name,
            chat_type="dm",
            user_id=message.peer_id,
            user_name=message.peer_name,
            message_id=message.message_id,
        )

    async def _stop_turn(self, message: InboundMessage) -> None:
        """Stop what runs in the chat. The command is ours, no text from outside; its reply goes nowhere."""
        event = MessageEvent(text="/stop", message_type=MessageType.COMMAND, source=self._source(message))
        await self.handle_message(event)

    # Out of hermes

    async def send(
        self, chat_id: str, content: str, reply_to: str | None = None, metadata: dict[str, Any] | None = None
    ) -> SendResult:
        """Post the answer, or progress, to the caller it belongs to; everything else hermes says is dropped.

        Always a success: a failed one makes hermes send other texts in its place.
        """
        message = self._chats.in_hand(chat_id)
        is_answer = bool((metadata or {}).get("notify"))
        if message is None or (reply_to != message.message_id and not (is_answer and reply_to is None)):
            logger.debug("molecule-a2a: dropped %d characters to no message", len(content))
            return SendResult(success=True)
        if is_answer:
            self._chats.chat(chat_id).in_hand = None
            message.settled.set()
        await self._replies.send(message, content, final=is_answer)
        return SendResult(success=True, message_id=message.message_id)

    async def send_clarify(self, *args: Any, **kwargs: Any) -> SendResult:
        """Nobody can answer while the turn runs; told so at once, the model asks in its answer."""
        return SendResult(success=False, error="nobody can answer a question during a turn")

    async def send_exec_approval(
        self, chat_id: str, command: str, session_key: str, *args: Any, **kwargs: Any
    ) -> SendResult:
        """Nobody can approve while the turn runs, so a dangerous command is refused at once, and reported."""
        from tools.approval import resolve_gateway_approval

        resolve_gateway_approval(session_key, "deny", reason=REFUSED)
        if message := self._chats.in_hand(chat_id):
            await self._replies.send(message, command, final=False, approval="denied")
        return SendResult(success=True)

    # The answer is one text: pictures and files that it names stay in it.

    @staticmethod
    def extract_media(content: str) -> tuple[list[tuple[str, bool]], str]:
        """No file is sent apart from the text; its path stays there without the mark."""
        return [], _MEDIA_MARK.sub("", content)

    @staticmethod
    def extract_images(content: str) -> tuple[list[tuple[str, str]], str]:
        """No picture is sent apart from the text."""
        return [], content

    @staticmethod
    def extract_local_files(content: str) -> tuple[list[str], str]:
        """No file is sent apart from the text."""
        return [], content


def _setting(config: PlatformConfig, name: str, variable: str) -> str:
    """A setting of the platform in config.yaml, else of the environment."""
    value = config.extra.get(name)
    return str(value) if value not in (None, "") else os.environ.get(variable, "").strip()
