"""Helpers of executors, at the import path of the first generation."""

import logging
import os
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from molecule_runtime.kit.files.workspace_paths import (
    CHAT_UPLOADS_DIR,
    CONFIG_MOUNT,
    WORKSPACE_MOUNT,
    ensure_workspace_writable,
    get_mcp_server_path,
)
from molecule_runtime.kit.setup.instructions import get_a2a_instructions, get_system_prompt
from molecule_runtime.kit.state.delegation_results import read_delegation_results
from molecule_runtime.kit.turns.error_summaries import (
    BRIEF_SUMMARY_MAX_LEN,
    brief_summary,
    classify_subprocess_error,
    sanitize_agent_error,
)
from molecule_runtime.kit.turns.message_text import member
from molecule_runtime.kit.turns.message_text import text_of_message as extract_message_text
from molecule_runtime.kit.turns.shared_runtime import set_current_task

if TYPE_CHECKING:
    import httpx

MAX_INLINE_ATTACHMENT_BYTES = 8 * 1024 * 1024
MEMORY_RECALL_LIMIT = 10
MEMORY_CONTENT_MAX_CHARS = 200
PLATFORM_HTTP_TIMEOUT_S = 5.0

ATTACHMENT_NAMES = (
    "resolve_attachment_uri",
    "extract_attached_files",
    "build_user_content_with_files",
    "stage_outbound_file",
    "collect_outbound_files",
)
"""The helpers for attachments; `molecule_runtime.kit.files.attachments` is loaded when one is used."""

__all__ = [
    "BRIEF_SUMMARY_MAX_LEN",
    "CHAT_UPLOADS_DIR",
    "CONFIG_MOUNT",
    "MAX_INLINE_ATTACHMENT_BYTES",
    "MEMORY_CONTENT_MAX_CHARS",
    "MEMORY_RECALL_LIMIT",
    "PLATFORM_HTTP_TIMEOUT_S",
    "WORKSPACE_MOUNT",
    "auto_push_hook",
    "brief_summary",
    "classify_subprocess_error",
    "commit_memory",
    "ensure_workspace_writable",
    "extract_message_text",
    "get_a2a_instructions",
    "get_hma_instructions",
    "get_http_client",
    "get_mcp_server_path",
    "get_system_prompt",
    "new_response_message",
    "read_delegation_results",
    "recall_memories",
    "reset_http_client_for_tests",
    "sanitize_agent_error",
    "set_current_task",
]

log = logging.getLogger(__name__)

_http_client: "httpx.AsyncClient | None" = None


def __getattr__(name: str) -> Any:
    if name not in ATTACHMENT_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("molecule_runtime.kit.files.attachments"), name)


def new_response_message(context: Any, text: str) -> Any:
    """An agent's message of the A2A SDK with a text, in the context of a request."""
    from molecule_runtime.kit.turns import a2a_types

    request = member(context, "message")
    context_id = member(context, "context_id") or member(request, "context_id") or ""
    message: dict[str, Any] = {"messageId": os.urandom(16).hex(), "role": "ROLE_AGENT"}
    return a2a_types.message_of({**message, "contextId": context_id, "parts": [{"text": text}]})


async def recall_memories() -> str:
    """What the agent remembers from before. The platform keeps no memories yet: always empty."""
    _warn_once("memories are not recalled: this platform keeps none yet")
    return ""


async def commit_memory(content: str) -> None:
    """Remember something. The platform keeps no memories yet: nothing is kept."""
    _warn_once("a memory is not kept: this platform keeps none yet")


def get_hma_instructions() -> str:
    """How to use memories of the workspace, the team and the organisation. Empty while there are none."""
    _warn_once("there are no instructions for memories: this platform keeps none yet")
    return ""


async def auto_push_hook(*_arguments: Any, **_options: Any) -> None:
    """Push commits after a turn. It does nothing: what leaves a workspace, its agent sends."""
    _warn_once("commits are not pushed by themselves: let the agent push them")


def get_http_client() -> "httpx.AsyncClient":
    """The HTTP client that executors of this process share, for calls that are not to the platform."""
    import httpx

    global _http_client
    if _http_client is None or _http_client.is_closed:
        _http_client = httpx.AsyncClient(timeout=PLATFORM_HTTP_TIMEOUT_S)
    return _http_client


def reset_http_client_for_tests() -> None:
    """Forget the shared client."""
    global _http_client
    _http_client = None


@cache
def _warn_once(sentence: str) -> None:
    log.warning(sentence)
