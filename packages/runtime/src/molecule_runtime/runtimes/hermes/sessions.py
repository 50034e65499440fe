"""Conversations: the chat of a request, its session at hermes, and what was said before."""

import hashlib
import os
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast

from molecule_runtime.kit.turns.message_text import member, text_of_parts

MAX_HISTORY_ITEMS, MAX_HISTORY_BYTES = 50, 64 * 1024
MAX_HEADER_CHARACTERS = 256
SESSION_HEADER, SESSION_KEY_HEADER = "X-Hermes-Session-Id", "X-Hermes-Session-Key"

_ROLES = {"user": "user", "agent": "assistant", "assistant": "assistant"}


def usable_id(value: object) -> str:
    """An id as text: from text that is not empty, an integer or a UUID; empty for anything else."""
    if isinstance(value, str):
        return value if value.strip() else ""
    if isinstance(value, int | uuid.UUID) and not isinstance(value, bool):
        return str(value)
    return ""


def derive_chat_id(context: object) -> str:
    """The first usable id of a request context, else of its message, else a new one."""
    message = member(context, "message")
    named = [(context, name) for name in ("task_id", "session_id", "context_id")]
    named += [(message, name) for name in ("task_id", "session_id", "context_id", "messageId")]
    found = (usable_id(member(holder, name)) for holder, name in named)
    return next((one for one in found if one), f"adhoc-{os.urandom(6).hex()}")


def context_id_of(context: object) -> str:
    """The id of the conversation that a request belongs to; empty when it names none."""
    message = member(context, "message")
    named = ((context, "context_id"), (message, "context_id"), (message, "contextId"))
    found = (usable_id(member(holder, name)) for holder, name in named)
    return next((one for one in found if one), "")


def chat_id_of(context: object) -> str:
    """The chat id that hermes is given: the conversation, since every message has a task of its own."""
    return context_id_of(context) or derive_chat_id(context)


def session_id_of(workspace_id: str, chat_id: str) -> str:
    """The session of a chat at hermes: safe in a path and in a header, not guessed from another workspace."""
    digest = hashlib.sha256(f"{workspace_id}\0{chat_id}".encode(errors="surrogatepass"))
    return f"molecule-{digest.hexdigest()[:32]}"


def session_key_of(workspace_id: str, principal: str) -> str:
    """The scope of what hermes remembers of a caller over all sessions."""
    key = f"molecule:{workspace_id}:{principal}"
    return "".join(one for one in key if one.isascii() and one.isprintable())[:MAX_HEADER_CHARACTERS]


def is_session_id(value: str) -> bool:
    """Whether a text may be sent as the id of a session."""
    return 0 < len(value) <= MAX_HEADER_CHARACTERS and value.isascii() and value.isprintable()


def history_of_context(context: object) -> list[Any]:
    """The raw history in the metadata of the message, else of the request."""
    for holder in (member(context, "message"), context):
        metadata: Any = member(holder, "metadata")
        is_mapping = isinstance(metadata, Mapping)
        history = member(cast("object", metadata), "history") if is_mapping else None
        if isinstance(history, list):
            return cast("list[Any]", history)
        # A protobuf list is a sequence, and no list.
        if isinstance(history, Sequence) and not isinstance(history, str | bytes):
            return list(cast("Sequence[Any]", history))
    return []


def chat_messages(history: Sequence[object], current_text: str) -> list[dict[str, Any]]:
    """A history in A2A form as messages of the chat API, the newest that fit, without the current text."""
    conversation = [message for item in history if (message := _chat_message(item)) is not None]
    if conversation and conversation[-1] == {"role": "user", "content": current_text}:
        conversation.pop()
    size, kept = 0, list[dict[str, Any]]()
    for message in reversed(conversation[-MAX_HISTORY_ITEMS:]):
        size += len(message["content"].encode(errors="replace"))
        if size > MAX_HISTORY_BYTES:
            break
        kept.append(message)
    return kept[::-1]


def add_conversation(messages: list[dict[str, Any]], conversation: Sequence[Mapping[str, Any]]) -> None:
    """Put what was said so far into the system message, for a gateway that has lost its sessions."""
    if not conversation:
        return
    if messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": ""})
    lines = [f"{message['role']}: {message['content']}" for message in conversation]
    block = "\n".join(["Conversation so far:", *lines])
    messages[0]["content"] = "\n\n".join(filter(None, (messages[0]["content"], block)))


def _chat_message(item: object) -> dict[str, Any] | None:
    if not isinstance(item, Mapping):
        return None
    role = member(cast("object", item), "role")
    known = _ROLES.get(role.lower().removeprefix("role_")) if isinstance(role, str) else None
    texts = (member(cast("object", item), name) for name in ("content", "text"))
    text = next((one for one in texts if isinstance(one, str) and one), "")
    text = text or text_of_parts(member(cast("object", item), "parts"))
    return {"role": known, "content": text} if known and text.strip() else None
