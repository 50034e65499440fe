"""Helpers of executors. This path is the module `molecule_runtime.kit.turns.shared_runtime` itself."""

import sys

from molecule_runtime.kit.turns import shared_runtime
from molecule_runtime.kit.turns.shared_runtime import (
    append_peer_guidance,
    brief_task,
    build_peer_section,
    build_task_text,
    extract_history,
    extract_message_text,
    format_conversation_history,
    set_current_task,
    summarize_peer_cards,
)

__all__ = [
    "append_peer_guidance",
    "brief_task",
    "build_peer_section",
    "build_task_text",
    "extract_history",
    "extract_message_text",
    "format_conversation_history",
    "set_current_task",
    "summarize_peer_cards",
]

sys.modules[__name__] = shared_runtime
