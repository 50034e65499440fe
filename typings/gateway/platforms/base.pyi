import asyncio
from enum import Enum
from typing import Any

from gateway.config import Platform, PlatformConfig
from gateway.session import SessionSource

class MessageType(Enum):
    TEXT = "text"
    COMMAND = "command"

class MessageEvent:
    text: str
    source: SessionSource
    internal: bool
    def __init__(
        self,
        text: str,
        message_type: MessageType = ...,
        source: SessionSource | None = ...,
        *,
        message_id: str | None = ...,
    ) -> None: ...

class SendResult:
    def __init__(self, success: bool, message_id: str | None = ..., error: str | None = ...) -> None: ...

class BasePlatformAdapter:
    supports_async_delivery: bool
    SUPPORTS_MESSAGE_EDITING: bool
    splits_long_messages: bool
    gateway_runner: Any
    _active_sessions: dict[str, asyncio.Event]
    _pending_messages: dict[str, MessageEvent]
    _text_debounce: dict[str, Any]

    def __init__(self, config: PlatformConfig, platform: Platform) -> None: ...
    @property
    def authorization_is_upstream(self) -> bool: ...
    def build_source(
        self,
        chat_id: str,
        chat_name: str | None = ...,
        chat_type: str = ...,
        user_id: str | None = ...,
        user_name: str | None = ...,
        *,
        message_id: str | None = ...,
    ) -> SessionSource: ...
    async def handle_message(self, event: MessageEvent) -> None: ...
    async def send_clarify(self, *args: Any, **kwargs: Any) -> SendResult: ...
    @staticmethod
    def extract_media(content: str) -> tuple[list[tuple[str, bool]], str]: ...
    @staticmethod
    def extract_images(content: str) -> tuple[list[tuple[str, str]], str]: ...
    @staticmethod
    def extract_local_files(content: str) -> tuple[list[str], str]: ...
    def _session_task_is_stale(self, session_key: str) -> bool: ...
    def _set_fatal_error(self, code: str, message: str, *, retryable: bool) -> None: ...
    def _mark_connected(self) -> None: ...
    def _mark_disconnected(self) -> None: ...

def coerce_plaintext_gateway_command(event: MessageEvent) -> None: ...
